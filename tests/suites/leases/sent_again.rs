//! What a client drops is given back before the client is refused because of it, also if the server
//! lets it send that command again: what it asked later has gone first by then.

use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use leasehold::{Lease, LeaseSet, LockError, Locks, Released};
use leasehold_tests::cluster::Cluster;
use leasehold_tests::refusing::Refusing;
use leasehold_tests::server::Server;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(30);

/// What is held, until it is dropped.
enum Guard {
    One(Lease),
    Set(LeaseSet),
}

/// Whether what is held is dropped, or is idle before the next comes.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Dropped,
    Idle,
}

impl Guard {
    fn end(self) {
        match self {
            Self::One(lease) => drop(lease),
            Self::Set(leases) => drop(leases),
        }
    }
}

/// A way to hold the name.
type Way = (&'static str, fn(Locks, String) -> BoxFuture<'static, Result<Guard, LockError>>);

macro_rules! ways {
    ($($name:literal: |$locks:ident, $n:ident| $one:ident $lock:expr,)*) => {
        &[$(($name, |$locks, $n| Box::pin(async move { Ok(Guard::$one($lock.await?)) }))),*]
    };
}

const WAYS: &[Way] = ways! {
    "mutex": |locks, n| One locks.mutex(n).ttl(LONG).try_lock(),
    "lingering mutex": |locks, n| One locks.mutex(n).ttl(LONG).linger(LONG).try_lock(),
    "permit": |locks, n| One locks.semaphore(n, 1).ttl(LONG).try_acquire(),
    "lingering permit": |locks, n| One locks.semaphore(n, 1).ttl(LONG).linger(LONG).try_acquire(),
    "reader": |locks, n| One locks.rw_lock(n).ttl(LONG).try_read(),
    "lingering reader": |locks, n| One locks.rw_lock(n).ttl(LONG).linger(LONG).try_read(),
    "writer": |locks, n| One locks.rw_lock(n).ttl(LONG).try_write(),
    "lingering writer": |locks, n| One locks.rw_lock(n).ttl(LONG).linger(LONG).try_write(),
    "reentrant": |locks, n| One locks.reentrant_mutex(n).owner("me").ttl(LONG).try_lock(),
    "other owner": |locks, n| One locks.reentrant_mutex(n).owner("you").ttl(LONG).try_lock(),
    "set": |locks, n| Set locks.all([n.clone(), format!("z:{n}")]).ttl(LONG).try_lock(),
    "set with permit": |locks, n| Set {
        let others = format!("z:{n}");
        locks.together().permit(n, 1).permit(others, 50).ttl(LONG).try_lock()
    },
};

/// Nothing lingers while the client receives no messages: its connection was lost a moment ago.
async fn until_idle(way: &Way, locks: &Locks, name: &str) {
    loop {
        let held = way.1(locks.clone(), name.to_owned()).await.expect("it is free");
        let Guard::One(lease) = held else { panic!("{} can't linger", way.0) };
        if lease.release().await.unwrap() == Released::Lingers {
            return;
        }
    }
}

/// Holds a name in this way, drops that, and at once holds it in each way. So many commands after the drop
/// are refused with this error. Says what was refused.
async fn go_through(
    (proxies, locks): (&[Refusing], Locks),
    (count, error): (usize, Option<&str>),
    (first, ends): (&Way, Ends),
) -> Vec<String> {
    let mut refused = Vec::new();
    for then in WAYS {
        let name = format!("{error:?}, {}, {}", first.0, then.0);
        if ends == Ends::Idle {
            until_idle(first, &locks, &name).await;
            proxies[0].refuse_next(count, &name, error);
        } else {
            let before = first.1(locks.clone(), name.clone()).await.expect("it is free");
            proxies[0].refuse_next(count, &name, error);
            before.end();
        }
        let next = timeout(SOON, then.1(locks.clone(), name.clone())).await.expect(&name);
        // An idle lease of the same kind is taken up without a second command.
        assert!(count > 1 || proxies[0].has_refused(&name), "{name}: it sent nothing");
        refused.extend(next.err().map(|error| format!("{name}: {error}")));
    }
    refused
}

/// Goes through all pairs. Each first way has a client of its own, so that only two commands are under
/// way.
async fn go_through_all(
    (proxies, url): (&[Refusing], &str),
    count: usize,
    errors: &[Option<&str>],
    ends: Ends,
) {
    let firsts = || WAYS.iter().filter(|way| ends == Ends::Dropped || way.0.contains("linger"));
    let mut all = Vec::new();
    for (error, way) in errors.iter().flat_map(|error| firsts().map(move |way| (error, way))) {
        // One after the other: so many that connect together would wait for each other.
        let locks = Locks::connect(url).await.unwrap();
        all.push(go_through((proxies, locks), (count, *error), (way, ends)));
    }
    let refused: Vec<_> = join_all(all).await.into_iter().flatten().collect();
    assert!(refused.is_empty(), "{} were refused: {refused:#?}", refused.len());
}

/// A server that has forgotten its scripts, one that loads its data, one whose slot migrates, and a
/// connection that is lost.
const ERRORS: [Option<&str>; 4] = [
    Some("NOSCRIPT No matching script. Please use EVAL."),
    Some("LOADING Redis is loading the dataset in memory"),
    Some("TRYAGAIN Multiple keys request during rehashing of slot"),
    None,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_is_sent_again_refuses_nothing_that_comes_later() {
    let server = Server::start();
    let proxies = Refusing::before([server.port()]).await;
    let url = format!("redis://127.0.0.1:{}", proxies[0].port());
    go_through_all((&proxies, &url), 1, &ERRORS, Ends::Dropped).await;
}

/// The first command is the one that comes later, and the second gives the idle lease back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_lease_that_is_given_back_late_refuses_nothing() {
    let server = Server::start();
    let proxies = Refusing::before([server.port()]).await;
    let url = format!("redis://127.0.0.1:{}", proxies[0].port());
    go_through_all((&proxies, &url), 2, &ERRORS, Ends::Idle).await;
}

/// A lease lingers only once its client hears of recalls, so its command is the second after the drop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_is_redirected_refuses_nothing_that_comes_later() {
    let cluster = Cluster::start().await;
    let proxies = Refusing::before(cluster.nodes().iter().map(Server::port)).await;
    let ports: Vec<_> = proxies.iter().map(Refusing::port).collect();
    cluster.announce(&ports).await;
    let nodes: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let url = format!("redis://{}", nodes.join(","));
    let [moved, asking] = ["MOVED", "ASK"].map(|how| format!("{how} 1 {}", nodes[1]));
    let mut errors = vec![Some(&*moved), Some(&*asking)];
    errors.extend(ERRORS);
    go_through_all((&proxies, &url), 2, &errors, Ends::Dropped).await;
}
