//! A process that holds locks, for tests that need to kill, stop or end one.
//!
//! `worker URL COMMAND …`: each command prints `ready` when it holds its locks, and goes on when
//! its input ends.

mod blocked;
mod calls;
mod cost;
mod cryptography;
mod ending;
mod forked;
mod lingering;
mod outlived;
mod routes;
mod secrets;
mod stopped;
mod ticks;

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::store::ClientId;
use leasehold::store::fault_injection::FaultInjector;
use leasehold::store::redis::{RedisStore, Settings};
use leasehold::{Fault, LockError, Locks, Wait};
use leasehold_tests::server::{Server, connected};
use leasehold_tests::waiting::work_for;
use tokio::runtime::Handle;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [url, "hold", key, ttl_ms] => hold(url, key, ttl_ms.parse()?),
        [url, "linger", key, ttl_ms] => lingering::stay(url, key, ttl_ms.parse()?),
        [url, "drop-lingering", count, how] => lingering::end(url, count.parse()?, how),
        [url, "drop", count, "static"] => ending::on_a_static_runtime(url, count.parse()?),
        [url, "drop", count, how] => ending::drop_many(url, count.parse()?, how),
        [url, "run", key, ttl_ms] => stopped::run(url, key, ttl_ms.parse()?),
        [url, "many", count, ttl_ms] => cost::many(url, count.parse()?, ttl_ms.parse()?),
        [url, "cycles", count] => cost::cycles(url, count.parse()?),
        [url, "lingered", count] => cost::lingered(url, count.parse()?),
        [url, "contended", count] => cost::contended(url, count.parse()?),
        [url, "count", key, times] => count(url, key, times.parse()?),
        [url, "permit", key, limit, ttl_ms] => permit(url, key, limit.parse()?, ttl_ms.parse()?),
        [url, "read", key, ttl_ms] => read(url, key, ttl_ms.parse()?),
        [url, "wait", key] => wait(url, key),
        [url, "crowd", ttl_ms, count] => crowd(url, ttl_ms.parse()?, count.parse()?),
        [url, "permits", key, limit, times] => permits(url, key, limit.parse()?, times.parse()?),
        [url, "reenter", key, owner, count] => reenter(url, key, owner, count.parse()?),
        [url, "sets", of, names, seconds] => {
            let time = Duration::from_secs(seconds.parse()?);
            sets(url, of.parse()?, names.parse()?, time).inspect_err(|error| println!("{error}"))
        }
        [url, "ticks", database] => ticks::run(url, database),
        [url, "each"] => cryptography::each(url),
        [url, "log"] => log_to_the_end(url),
        [url, "routes"] => routes::serve(url),
        [url, "blocked"] => blocked::acquire(url),
        [url, "fork"] => forked::fork(url),
        [url, "outlived", flavour, how] => outlived::end(url, flavour, how),
        ["-", "calls", count] => calls::under_a_layer(count.parse()?),
        ["-", "env"] => environment(),
        ["-", "serve"] => serve(),
        ["-", "secrets"] => secrets::run(),
        _ => Err("worker URL hold KEY TTL_MS | drop COUNT HOW | count KEY TIMES".into()),
    }
}

fn ready() {
    println!("ready");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Holds a mutex until the input ends, on a runtime that is blocked meanwhile.
#[tokio::main(flavor = "current_thread")]
async fn hold(url: &str, key: &str, ttl_ms: u64) -> Result<(), Failure> {
    let locks = Locks::connect(url).await?;
    let lease = locks.mutex(key).ttl(Duration::from_millis(ttl_ms)).lock().await?;
    ready();
    println!("{}", if lease.is_held() { "held" } else { "lost" });
    println!("{:?}", lease.release().await.is_ok());
    Ok(())
}

/// Holds a permit until the input ends.
#[tokio::main(flavor = "current_thread")]
async fn permit(url: &str, key: &str, limit: u32, ttl_ms: u64) -> Result<(), Failure> {
    let locks = Locks::connect(url).await?;
    let semaphore = locks.semaphore(key, limit).ttl(Duration::from_millis(ttl_ms));
    let _permit = semaphore.acquire().await?;
    ready();
    Ok(())
}

/// Reads until the input ends.
#[tokio::main(flavor = "current_thread")]
async fn read(url: &str, key: &str, ttl_ms: u64) -> Result<(), Failure> {
    let locks = Locks::connect(url).await?;
    let _lease = locks.rw_lock(key).ttl(Duration::from_millis(ttl_ms)).read().await?;
    ready();
    Ok(())
}

/// Holds a reentrant mutex this many times. Each acquire is sent three times, because the first two
/// replies are lost. Prints the answer to each release.
#[tokio::main(flavor = "current_thread")]
async fn reenter(url: &str, key: &str, owner: &str, count: u32) -> Result<(), Failure> {
    let id = ClientId::random();
    let store = RedisStore::connect(url, &Settings::default(), id, Handle::current()).await?;
    let store = Arc::new(FaultInjector::over(Arc::new(store)));
    let locks = Locks::over_as(store.clone(), id);
    let mut holds = Vec::new();
    for _ in 0..count {
        store.next(None, Some(Fault::LoseReply));
        store.next(None, Some(Fault::LoseReply));
        holds.push(locks.reentrant_mutex(key).owner(owner).lock().await?);
    }
    ready();
    for hold in holds {
        store.next(None, Some(Fault::LoseReply));
        println!("{:?}", hold.release().await?);
    }
    Ok(())
}

/// Waits for a mutex, for as long as it takes.
#[tokio::main(flavor = "current_thread")]
async fn wait(url: &str, key: &str) -> Result<(), Failure> {
    let locks = Locks::connect(url).await?;
    let _lease = locks.mutex(key).wait(Wait::Forever).lock().await?;
    ready();
    Ok(())
}

/// Holds a mutex, a permit of four and a reentrant mutex, while this many of its tasks wait for
/// each. The waiters for the reentrant mutex have an owner of their own.
#[tokio::main(flavor = "current_thread")]
async fn crowd(url: &str, ttl_ms: u64, count: u32) -> Result<(), Failure> {
    let (locks, ttl) = (Locks::connect(url).await?, Duration::from_millis(ttl_ms));
    let mutex = locks.mutex("mutex").ttl(ttl).wait(Wait::Forever);
    let semaphore = locks.semaphore("semaphore", 4).ttl(ttl).wait(Wait::Forever);
    let owned = |n: u32| {
        let reentrant = locks.reentrant_mutex("reentrant").ttl(ttl).wait(Wait::Forever);
        reentrant.owner(n.to_string())
    };
    let _held = (mutex.lock().await?, semaphore.acquire().await?, owned(0).lock().await?);
    for n in 1..=count {
        let (mutex, semaphore, reentrant) = (mutex.clone(), semaphore.clone(), owned(n));
        tokio::spawn(async move {
            let _ = tokio::join!(mutex.lock(), semaphore.acquire(), reentrant.lock());
        });
    }
    println!("ready");
    std::future::pending().await
}

/// Drops a lease at its end, and logs on the same thread.
#[tokio::main(flavor = "current_thread")]
async fn log_to_the_end(url: &str) -> Result<(), Failure> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let locks = Locks::connect(url).await?;
    let lease = locks.mutex("a").lock().await?;
    ready();
    drop(lease);
    tracing::info!("the end");
    Ok(())
}

/// Starts a server, and says its port and its folder.
#[tokio::main(flavor = "current_thread")]
async fn serve() -> Result<(), Failure> {
    let server = Server::start();
    let mut config = redis::cmd("CONFIG");
    let config = config.arg("GET").arg("dir");
    let [_, folder]: [String; 2] = config.query_async(&mut server.redis().await).await?;
    println!("{}\n{folder}", server.port());
    ready();
    Ok(())
}

/// Locks on the server of the environment.
#[tokio::main(flavor = "current_thread")]
async fn environment() -> Result<(), Failure> {
    let either = [
        ("from_env", Locks::from_env().await),
        ("or_in_memory", Locks::from_env_or_in_memory().await),
    ];
    for (name, locks) in either {
        match locks {
            Ok(locks) => locks
                .mutex("a")
                .lock()
                .await?
                .release()
                .await
                .map(|_| println!("{name}: locked"))?,
            Err(error) => println!("{name}: {error}"),
        }
    }
    Ok(())
}

/// Adds to a number on the server, one step at a time, under a lock of its own
/// key: reads it, waits, and writes it back.
#[tokio::main(flavor = "current_thread")]
async fn count(url: &str, key: &str, times: u32) -> Result<(), Failure> {
    let locks = Locks::connect(url).await?;
    let mut redis = connected(url).await;
    for _ in 0..times {
        let lease = locks.mutex(key).wait(Wait::Forever).lock().await?;
        let number: Option<u64> = redis::cmd("GET").arg("number").query_async(&mut redis).await?;
        tokio::task::yield_now().await;
        let number = number.unwrap_or_default() + 1;
        redis::cmd("SET").arg("number").arg(number).exec_async(&mut redis).await?;
        lease.release().await?;
    }
    println!("ready");
    Ok(())
}

/// Acquires and releases permits, and prints the greatest number that were inside with it. The
/// number is counted on the server, after the grant and before the release.
#[tokio::main(flavor = "current_thread")]
async fn permits(url: &str, key: &str, limit: u32, times: u32) -> Result<(), Failure> {
    let locks = Locks::connect(url).await?;
    let mut redis = connected(url).await;
    let semaphore = locks.semaphore(key, limit).ttl(Duration::from_secs(5));
    let mut most = 0;
    for n in 0..times {
        // Every other permit waits. The rest try until they are granted.
        let permit = if n % 2 == 0 {
            semaphore.clone().wait(Wait::Forever).acquire().await?
        } else {
            let mut tried = semaphore.try_acquire().await;
            while let Err(LockError::Busy { .. }) = tried {
                work_for(Duration::from_millis(1)).await;
                tried = semaphore.try_acquire().await;
            }
            tried?
        };
        let inside: u32 = redis::cmd("INCR").arg("inside").query_async(&mut redis).await?;
        most = most.max(inside);
        tokio::task::yield_now().await;
        redis::cmd("DECR").arg("inside").exec_async(&mut redis).await?;
        permit.release().await?;
    }
    println!("{most}");
    Ok(())
}

/// Acquires random sets of mutexes, and counts itself in under each: it must be alone there, and
/// its token the newest. Prints how often it was served, how often it gave up, and its longest wait
/// in milliseconds.
#[tokio::main(flavor = "current_thread")]
async fn sets(url: &str, of: usize, names: u32, time: Duration) -> Result<(), Failure> {
    let locks = Locks::connect(url).await?;
    // A machine that is busy with other tests must not look like a server that is gone.
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let mut redis =
        redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await?;
    let mut names: Vec<_> = (0..names).map(|n| format!("n:{n}")).collect();
    let (mut served, mut given_up, mut longest) = (0, 0, Duration::ZERO);
    let until = Instant::now() + time;
    while Instant::now() < until {
        fastrand::shuffle(&mut names);
        let set = &names[..of];
        // Most calls wait so long that only a deadlock lasts longer. Some are dropped on the way,
        // some try, and some want one lock alone.
        let begun = Instant::now();
        let all = locks.all(set).wait(time);
        let leases = match fastrand::u32(..8) {
            0 => tokio::time::timeout(Duration::from_millis(20), all.lock()).await.ok(),
            1 => match all.try_lock().await {
                Err(LockError::Busy { .. }) => None,
                tried => Some(tried),
            },
            2 => Some(locks.all(&set[..1]).wait(time).lock().await),
            _ => Some(all.lock().await),
        };
        let waited = begun.elapsed();
        let Some(leases) = leases.transpose()? else {
            given_up += 1;
            continue;
        };
        let (mut enter, mut leave) = (redis::pipe(), redis::pipe());
        for lease in &leases {
            let (key, token) = (lease.key(), lease.fence()?.get());
            enter.cmd("INCR").arg(format!("inside:{key}"));
            enter.cmd("GETSET").arg(format!("token:{key}")).arg(token);
            leave.cmd("DECR").arg(format!("inside:{key}"));
        }
        let found: Vec<Option<u64>> = enter.query_async(&mut redis).await?;
        work_for(Duration::from_millis(2)).await;
        let is_held = leases.is_held();
        leave.exec_async(&mut redis).await?;
        for (lease, found) in leases.iter().zip(found.chunks(2)) {
            let is_newest = found[1] < Some(lease.fence()?.get());
            if found[0] != Some(1) || !is_newest || !is_held {
                return Err(format!("{lease:?} beside others, or after: {found:?}").into());
            }
        }
        leases.release().await?;
        served += 1;
        longest = longest.max(waited);
    }
    println!("{served} {given_up} {}", longest.as_millis());
    Ok(())
}
