//! A server that can't be reached: for a while, and for longer than a lease.

use std::time::Duration;

use leasehold::{LeaseState, LockError, Locks, LossReason};
use leasehold_tests::kinds::{EVERY_KIND, Guard, Kind};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;
use tokio::time::timeout;

async fn hold_each(locks: &Locks, ttl: Duration) -> Vec<Guard> {
    let mut held = Vec::new();
    for kind in EVERY_KIND {
        held.push(kind.lock(locks, &format!("m:{kind:?}"), ttl).await.unwrap());
    }
    held
}

async fn until_each_is(held: &[Guard], state: LeaseState) {
    for lease in held.iter().flat_map(Guard::leases) {
        until("a lease has the state", async || {
            assert!(lease.is_held(), "{lease:?}");
            lease.state() == state
        })
        .await;
    }
}

/// The server does not answer for half a TTL. Renewals fail meanwhile, and nothing is lost:
/// *unknown* is not *lost*.
#[tokio::test]
async fn time_outs_are_no_loss_while_the_lease_runs() {
    const TTL: Duration = Duration::from_secs(6);
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let held = hold_each(&locks, TTL).await;
    let frozen = server.freeze().await;
    // The first renewal is due after a third, and had no answer before the half is over.
    until_each_is(&held, LeaseState::Suspect).await;
    for lease in held.iter().flat_map(Guard::leases) {
        until("half of the TTL is over", async || lease.remaining() < TTL / 2).await;
    }
    drop(frozen);
    until_each_is(&held, LeaseState::Held).await;
    for guard in held {
        guard.release().await.unwrap();
    }
}

/// Waits until each lease is reported lost, while the server does not answer.
async fn assert_told(held: Vec<Guard>) {
    for guard in &held {
        let lost = async {
            match guard {
                Guard::One(lease) => lease.lost().await,
                Guard::All(leases) => leases.lost().await.1,
            }
        };
        let reason = timeout(Duration::from_secs(30), lost).await.expect("it is told");
        assert_eq!(reason, LossReason::Expired);
        assert!(!guard.is_held());
        let ran = match guard {
            Guard::One(lease) => lease.run(async {}).await,
            Guard::All(leases) => leases.run(async {}).await,
        };
        assert!(matches!(ran, Err(LockError::Lost { .. })), "{ran:?}");
    }
    for lease in held.iter().flat_map(Guard::leases) {
        assert_eq!(lease.state(), LeaseState::Lost(LossReason::Expired));
        assert_eq!(lease.remaining(), Duration::ZERO);
    }
}

/// Whoever reads the error knows which server failed.
fn assert_names(address: &str, failed: Result<(), LockError>) {
    let Err(error @ LockError::Store { .. }) = failed else { panic!("{failed:?}") };
    assert!(error.to_string().contains(address), "{error}");
}

/// The server does not answer until all losses are reported: they need no answer and no error.
#[tokio::test]
async fn loss_is_reported_while_the_server_is_silent() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let held = hold_each(&locks, Duration::from_millis(900)).await;
    let frozen = server.freeze().await;
    assert_told(held).await;
    let silent = locks.inspect("m").await;
    assert_names(&format!("127.0.0.1:{}: ", server.port()), silent.map(|_| ()));
    drop(frozen);
    // A lost lock is free, and can be acquired again.
    for kind in EVERY_KIND {
        let name = format!("m:{kind:?}");
        kind.rival().lock(&locks, &name, Duration::from_secs(30)).await.unwrap();
    }
}

/// Neither the server nor its port exists any more.
#[tokio::test]
async fn loss_is_reported_when_the_server_is_gone() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let held = hold_each(&locks, Duration::from_millis(900)).await;
    let address = format!("127.0.0.1:{}: ", server.port());
    drop(server);
    assert_told(held).await;
    let refused = Kind::Mutex.try_lock(&locks, "m", Duration::from_secs(30)).await;
    assert_names(&address, refused.map(|_| ()));
}

/// A lease that is not to be renewed ends although the server is well.
#[tokio::test]
async fn without_auto_renew_nothing_is_renewed() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let ttl = Duration::from_secs(3);
    let lease = locks.mutex("a").ttl(ttl).auto_renew(false).lock().await.unwrap();
    let by_hand = locks.mutex("b").ttl(ttl * 20).auto_renew(false).lock().await.unwrap();
    // The client writes its record of itself in the background.
    until("it is written", async || server.script_calls().await >= 3).await;
    server.forget_stats().await;
    let lost = timeout(ttl * 10, lease.lost()).await.expect("nobody renewed it");
    assert_eq!(lost, LossReason::Expired);
    assert_eq!(server.script_calls().await, 0, "nobody renewed it");
    // A manual renewal works, and lasts for the TTL.
    let before = by_hand.remaining();
    assert!(before < ttl * 20, "{before:?}");
    by_hand.renew().await.unwrap();
    assert!(by_hand.remaining() > before);
    assert_eq!(server.script_calls().await, 1);
    by_hand.release().await.unwrap();
}
