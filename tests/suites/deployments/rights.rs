//! The rights that docs/keys.md lists are enough. Each deployment gets a user with exactly these
//! rights, and the servers refuse it nothing. `on_servers` tests one server, and `cluster` tests a
//! cluster.

use std::time::Duration;

use leasehold::{LockError, Locks, Outcome, QuorumLocks};
use leasehold_tests::kinds::{EVERY_KIND, hand_over_each};
use leasehold_tests::masters::Masters;
use leasehold_tests::rights::{LOGIN, Rights, assert_nothing_was_refused};
use leasehold_tests::sentinel::Sentinel;
use leasehold_tests::server::Server;

use super::assert_error_has;
use super::sentinel::pair;

/// A server that is older than this counts.
const SHORT: Duration = Duration::from_secs(3);

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// The rights that Sentinel and a quorum need beside those for one server.
fn of_a_named_master() -> Rights {
    Rights::of_the_docs().also("With Sentinel or a quorum, add `…`:")
}

/// Servers and sentinels have users of their own.
#[tokio::test]
async fn the_rights_for_sentinels_are_enough() {
    let sentinel = Sentinel::start(1, LONG).await;
    of_a_named_master().give(sentinel.servers()).await;
    Rights::on_sentinels().give(sentinel.sentinels()).await;
    let url = sentinel.url_as(LOGIN) + "?sentinel_user=asker&sentinel_password=q";
    let (first, second) =
        (Locks::connect(&url).await.unwrap(), Locks::connect(&url).await.unwrap());
    hand_over_each(&first, &second).await;
    crate::kinds::every_kind_and_question(&first).await;
    assert_nothing_was_refused(sentinel.servers().iter().chain(sentinel.sentinels())).await;
}

/// Acquires, renews and releases each kind of lock that a quorum has.
async fn use_a_quorum(locks: &QuorumLocks) {
    let rw = locks.rw_lock("r").ttl(SHORT).wait(LONG);
    let mutex = locks.mutex("a").ttl(SHORT).wait(LONG).lock().await.unwrap();
    mutex.renew().await.unwrap();
    mutex.release().await.unwrap();
    for write in [true, false] {
        let lease = if write { rw.write().await } else { rw.read().await }.unwrap();
        lease.renew().await.unwrap();
        lease.release().await.unwrap();
    }
}

/// New servers do not count at first, so the client asks for their age.
#[tokio::test]
async fn the_rights_for_a_quorum_are_enough() {
    let masters = Masters::start(3);
    let user = of_a_named_master().also("On a quorum, add `…`:");
    user.give(masters.nodes()).await;
    let builder = Locks::builder().longest_ttl(SHORT).command_timeout(LONG);
    let locks = builder.connect_quorum(masters.urls_as(LOGIN)).await.unwrap();
    use_a_quorum(&locks).await;
    assert_nothing_was_refused(masters.nodes()).await;
}

#[tokio::test]
async fn the_right_for_a_list_is_enough_and_needed() {
    let server = Server::start();
    Rights::of_the_docs().give([&server]).await;
    let locks = Locks::connect(&server.url_as(LOGIN)).await.unwrap();
    let lease = locks.mutex("order:42").lock().await.unwrap();
    let error = locks.list("order:*").next().await.unwrap().unwrap_err();
    let words = ["look at the locks `order:*`", "docs/keys.md lists the rights"];
    assert_error_has(&error, &words);
    Rights::of_the_docs().also("`list` needs `…`.").give([&server]).await;
    let mut list = locks.list("order:*");
    assert_eq!(list.next().await.unwrap().unwrap().name, "order:42");
    assert!(list.next().await.is_none());
    lease.release().await.unwrap();
}

#[tokio::test]
async fn the_rights_for_replicas_are_enough() {
    let servers = pair().await;
    let user = Rights::of_the_docs().also("`sync_replicas` needs `…`.");
    user.give(&servers).await;
    let connect = async || {
        let builder = Locks::builder().sync_replicas(1, Duration::from_secs(10));
        builder.connect(&servers[0].url_as(LOGIN)).await.unwrap()
    };
    let (first, second) = (connect().await, connect().await);
    hand_over_each(&first, &second).await;
    crate::kinds::every_kind_and_question(&first).await;
    assert_nothing_was_refused(&servers).await;
}

/// A grant does not count unless a replica is known to have it. The error says why.
#[tokio::test]
async fn the_rights_for_replicas_are_needed() {
    let [master, _replica] = pair().await;
    Rights::of_the_docs().give([&master]).await;
    let url = master.url_as(LOGIN);
    let builder = Locks::builder().sync_replicas(1, Duration::from_secs(10));
    let (locks, other) =
        (builder.connect(&url).await.unwrap(), Locks::connect(&url).await.unwrap());
    for (nth, kind) in EVERY_KIND.into_iter().enumerate() {
        let name = format!("a:{nth}");
        let error = kind.try_lock(&locks, &name, LONG).await.unwrap_err();
        assert!(matches!(error, LockError::Store { outcome: Outcome::NotRun, .. }), "{error:?}");
        assert_error_has(&error, &["'wait'", "docs/keys.md lists the rights it needs"]);
        let free = kind.rival().try_lock(&other, &name, LONG).await;
        free.expect("it was taken back").release().await.unwrap();
    }
}
