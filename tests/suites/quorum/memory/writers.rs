//! Readers, writers, and the mark that keeps readers out.

use std::time::Duration;

use leasehold::LockError;
use tokio::time::{Instant, sleep};

use super::{SECOND, members, shown};
use crate::quorum::LONG;

/// Readers come and go, and there is always one.
#[tokio::test(start_paused = true)]
async fn a_writer_is_not_starved_by_readers() {
    let members = members(3);
    let mut readers = tokio::task::JoinSet::new();
    for nth in 0..4 {
        let locks = members.locks();
        readers.spawn(async move {
            sleep(Duration::from_millis(25 * nth)).await;
            loop {
                let lease = locks.rw_lock("r").read().await.unwrap();
                sleep(Duration::from_millis(100)).await;
                lease.release().await.unwrap();
            }
        });
    }
    sleep(SECOND).await;
    let begun = Instant::now();
    let lease = members.locks().rw_lock("r").wait(LONG).write().await.unwrap();
    assert!(begun.elapsed() < 2 * SECOND, "{:?}", begun.elapsed());
    lease.release().await.unwrap();
    sleep(SECOND).await;
    let info = shown(&members, 0, "r").await;
    assert!(!info.holders.is_empty(), "they read again");
}

/// The readers are tasks of the writer's process, which have a local queue of their own.
#[tokio::test(start_paused = true)]
async fn a_writer_is_not_starved_by_readers_of_its_process() {
    let members = members(3);
    let locks = members.locks();
    for nth in 0..4 {
        let lock = locks.rw_lock("r").wait(LONG);
        tokio::spawn(async move {
            sleep(Duration::from_millis(25 * nth)).await;
            loop {
                let lease = lock.read().await.unwrap();
                sleep(Duration::from_millis(100)).await;
                lease.release().await.unwrap();
            }
        });
    }
    sleep(SECOND).await;
    let begun = Instant::now();
    let lease = locks.rw_lock("r").wait(LONG).write().await.unwrap();
    assert!(begun.elapsed() < 2 * SECOND, "{:?}", begun.elapsed());
    lease.release().await.unwrap();
}

/// A writer that does not ask again blocks nobody.
#[tokio::test(start_paused = true)]
async fn a_writer_that_only_tries_leaves_no_mark() {
    let members = members(3);
    let (locks, writer) = (members.locks(), members.locks());
    let read = locks.rw_lock("r").read().await.unwrap();
    assert!(writer.rw_lock("r").try_write().await.is_err());
    let second = members.locks().rw_lock("r").try_read().await.unwrap();
    drop((read, second));
}

#[tokio::test(start_paused = true)]
async fn an_owner_reads_again_and_writes_as_on_one_server() {
    let members = members(3);
    let mine = members.locks().rw_lock("r").owner("me");
    let read = mine.read().await.unwrap();
    let again = mine.try_read().await.unwrap();
    let write = mine.try_write().await.unwrap();
    let error = mine.try_write().await.unwrap_err();
    assert!(matches!(error, LockError::WouldDeadlock { .. }), "{error}");
    assert!(members.locks().rw_lock("r").try_read().await.is_err());
    write.release().await.unwrap();
    members.locks().rw_lock("r").try_read().await.unwrap().release().await.unwrap();
    again.release().await.unwrap();
    read.release().await.unwrap();
}

/// The mark of a writer goes when it is served, and keeps out all but an owner that holds.
#[tokio::test(start_paused = true)]
async fn a_writers_mark_is_for_all_until_it_is_served() {
    let members = members(3);
    let (locks, other) = (members.locks(), members.locks());
    let mine = locks.rw_lock("r").owner("me");
    let read = mine.read().await.unwrap();
    let refused = other.rw_lock("r").wait(Duration::from_millis(50)).write().await;
    assert!(matches!(refused, Err(LockError::TimedOut { .. })), "{refused:?}");
    let again = mine.try_read().await.expect("the owner is in");
    let third = members.locks();
    for kept_out in [&other, &third] {
        let kept_out = kept_out.rw_lock("r").try_read().await;
        assert!(matches!(kept_out, Err(LockError::Busy { .. })), "{kept_out:?}");
    }
    again.release().await.unwrap();

    let writing = tokio::spawn(async move { other.rw_lock("r").write().await.unwrap() });
    sleep(SECOND).await;
    read.release().await.unwrap();
    writing.await.unwrap().release().await.unwrap();
    drop(third.rw_lock("r").try_read().await.expect("the mark is gone"));
}
