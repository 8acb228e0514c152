//! Releases and cancels.

use std::time::Duration;

use leasehold::LockError;
use leasehold_tests::members::Fault;
use tokio::time::sleep;

use super::{SECOND, holding, members};

/// Late copies of a cancelled round count neither for nor against a later round.
#[tokio::test(start_paused = true)]
async fn late_answers_do_not_count_in_a_later_round() {
    let members = members(3);
    for late in [1, 60, 200, 999] {
        let late = Fault::Late(Duration::from_millis(late));
        members.member(0).plan(late);
        members.member(1).plan(late);
        let error = members.locks().mutex("a").ttl(SECOND).try_lock().await.unwrap_err();
        assert!(matches!(error, LockError::Quorum { .. }), "{error}");
        let lease = members.locks().mutex("a").ttl(SECOND).wait(3 * SECOND).lock().await.unwrap();
        sleep(2 * SECOND).await;
        assert!(lease.is_held() && members.locks().mutex("a").try_lock().await.is_err());
        lease.release().await.unwrap();
        sleep(SECOND).await;
        assert_eq!(holding(&members, "a").await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_is_dropped_leaves_nothing() {
    let members = members(3);
    members.member(0).freeze();
    members.member(1).freeze();
    let locks = members.locks();
    let waiting = tokio::spawn(async move { locks.mutex("a").lock().await });
    sleep(Duration::from_millis(10)).await;
    waiting.abort();
    members.member(0).thaw();
    members.member(1).thaw();
    sleep(SECOND).await;
    assert_eq!(holding(&members, "a").await, 0);
    drop(members.locks().mutex("a").try_lock().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_handed_to_another_process() {
    let members = members(3);
    let lease = members.locks().mutex("a").lock().await.unwrap();
    let error = lease.detach().await.unwrap_err();
    assert!(matches!(error, LockError::Unsupported { .. }), "{error}");
    sleep(SECOND).await;
    assert_eq!(holding(&members, "a").await, 0, "it is released");
}

#[tokio::test(start_paused = true)]
async fn a_keeping_release_is_kept_by_all_servers() {
    let members = members(3);
    let mutex = members.locks().mutex("job").hold_at_least(5 * SECOND);
    mutex.lock().await.unwrap().release().await.unwrap();
    members.member(0).kill();
    assert!(members.locks().mutex("job").try_lock().await.is_err());
    sleep(6 * SECOND).await;
    drop(members.locks().mutex("job").try_lock().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_minority_does_not_answer_a_release() {
    let members = members(3);
    let locks = members.locks();
    let lease = locks.mutex("a").lock().await.unwrap();
    members.member(1).kill();
    members.member(2).kill();
    let error = lease.release().await.unwrap_err();
    assert!(matches!(error, LockError::Quorum { .. }), "{error}");
    members.member(1).revive();
    members.member(2).revive();
    sleep(SECOND).await;
    let lease = locks.mutex("a").lock().await.unwrap();
    members.member(0).restart_empty();
    lease.release().await.expect("one of three has forgotten it");
}

/// The server is dead during the release, or it grants and misses the cancels. It comes back long
/// after.
#[tokio::test(start_paused = true)]
async fn a_returning_server_is_sent_the_cancels_it_missed() {
    for way in ["release", "undo"] {
        let members = members(3);
        let lease = members.locks().mutex("a").lock().await.unwrap();
        let dead = members.member(0);
        if way == "release" {
            dead.kill();
            lease.release().await.unwrap();
        } else {
            lease.release().await.unwrap();
            members.member(1).kill();
            members.member(2).kill();
            // This server grants the lock, and misses three cancels.
            dead.plan(Fault::Slow(Duration::ZERO));
            (0..3).for_each(|_| dead.plan(Fault::LoseCommand));
            members.locks().mutex("a").try_lock().await.unwrap_err();
        }
        sleep(SECOND).await;
        assert!(dead.log().contains(&"vote"));
        dead.revive();
        // Pauses double while it is away: one is shorter than twice the outage.
        sleep(2 * SECOND).await;
        assert_eq!(holding(&members, "a").await, 0, "{way}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_a_server_missed_is_repeated() {
    let members = members(3);
    let lease = members.locks().mutex("a").lock().await.unwrap();
    members.member(0).plan(Fault::LoseCommand);
    lease.release().await.unwrap();
    sleep(SECOND).await;
    assert_eq!(holding(&members, "a").await, 0);
}
