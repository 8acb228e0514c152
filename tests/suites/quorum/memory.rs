//! Case by case, on stores in memory and a clock that stands still.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use leasehold::store::memory::MemoryStore;
use leasehold::store::{ClientId, Kind, Mended, Node, Renewal, Request, RequestId, Store};
use leasehold::{Lease, LockError, LockInfo, LockKey, LossReason, QuorumLocks};
use leasehold_tests::members::{Fault, Members, TIME_OUT};
use tokio::time::{Instant, advance, sleep};

use super::LONG;

const SECOND: Duration = Duration::from_secs(1);

/// So many stores, which count at once when they were restarted.
fn members(count: usize) -> Members {
    Members::start(count, LONG, Duration::ZERO)
}

async fn shown(members: &Members, place: usize, name: &str) -> LockInfo {
    members.member(place).store().inspect(&LockKey::new(name).unwrap()).await.unwrap()
}

/// How many of them say that somebody holds the lock.
async fn holding(members: &Members, name: &str) -> usize {
    let mut count = 0;
    for place in 0..members.iter().count() {
        count += usize::from(!shown(members, place, name).await.holders.is_empty());
    }
    count
}

/// A lease of this kind of lock.
async fn take(locks: &QuorumLocks, kind: &str) -> Lease {
    let (mutex, rw) = (locks.mutex("a").ttl(SECOND), locks.rw_lock("a").ttl(SECOND));
    let lease = match kind {
        "mutex" => mutex.lock().await,
        "read" => rw.read().await,
        _ => rw.write().await,
    };
    lease.unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_at_a_time_and_free_again() {
    let members = members(3);
    let (one, other) = (members.locks(), members.locks());
    let lease = one.mutex("a").lock().await.unwrap();
    let refused = other.mutex("a").try_lock().await;
    assert!(matches!(refused, Err(LockError::Busy { .. })), "{refused:?}");
    let first = lease.fence().unwrap();
    lease.release().await.unwrap();
    assert_eq!(holding(&members, "a").await, 0);
    let lease = other.mutex("a").try_lock().await.unwrap();
    assert!(lease.fence().unwrap() > first);
}

#[tokio::test(start_paused = true)]
async fn a_minority_that_is_dead_or_frozen_is_done_without() {
    let members = members(5);
    members.member(0).kill();
    members.member(1).freeze();
    let locks = members.locks();
    let begun = Instant::now();
    let lease = locks.mutex("a").try_lock().await.unwrap();
    let read = locks.rw_lock("r").try_read().await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO, "three have answered, and are enough");
    lease.release().await.unwrap();
    read.release().await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    members.member(1).thaw();
    sleep(SECOND).await;
    assert_eq!(holding(&members, "a").await + holding(&members, "r").await, 0);
}

/// Nothing is left, not even where it was asked for and never answered.
#[tokio::test(start_paused = true)]
async fn without_a_majority_there_is_an_error_with_each_answer() {
    let members = members(5);
    members.member(0).kill();
    members.member(1).freeze();
    members.member(2).freeze();
    let locks = members.locks();
    let begun = Instant::now();
    let error = locks.mutex("a").try_lock().await.unwrap_err();
    assert!(begun.elapsed() <= 2 * TIME_OUT, "{:?}", begun.elapsed());
    let LockError::Quorum { source, .. } = &error else { panic!("{error:?}") };
    let answers: Vec<_> = source.answers().iter().map(|it| &*it.answer).collect();
    assert!(source.needed() == 3 && answers.len() == 5, "{source}");
    assert_eq!(answers[0], "is it running?");
    assert_eq!(answers[1..3], ["no answer in time"; 2]);
    assert_eq!(answers[3..], ["granted, and taken back"; 2]);
    let text = error.to_string();
    assert!(text.contains("`a`") && text.contains("server 1: no answer in time"), "{text}");

    assert_eq!(holding(&members, "a").await, 0, "what was granted is taken back at once");
    members.member(1).thaw();
    members.member(2).thaw();
    sleep(SECOND).await;
    assert_eq!(holding(&members, "a").await, 0, "and the rest when it can be");
    locks.mutex("a").try_lock().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_waits_asks_until_there_is_a_majority_again() {
    let members = members(3);
    members.member(0).kill();
    members.member(1).kill();
    let locks = members.locks();
    let waiting = tokio::spawn(async move { locks.mutex("a").lock().await });
    sleep(5 * SECOND).await;
    members.member(1).revive();
    waiting.await.unwrap().unwrap().release().await.unwrap();

    members.member(1).kill();
    let begun = Instant::now();
    let error = members.locks().mutex("a").wait(2 * SECOND).lock().await.unwrap_err();
    assert!(matches!(error, LockError::Quorum { .. }), "{error}");
    assert!(begun.elapsed() >= 2 * SECOND && begun.elapsed() < 3 * SECOND);
}

/// A later majority may have but one store of an earlier one, and that one may have given
/// the smallest of the earlier tokens.
#[tokio::test(start_paused = true)]
async fn tokens_grow_from_one_majority_to_the_next() {
    for kind in ["mutex", "write"] {
        let members = members(3);
        let locks = members.locks();
        let grant = async || match kind {
            "mutex" => locks.mutex("a").try_lock().await.unwrap(),
            _ => locks.rw_lock("a").try_write().await.unwrap(),
        };
        // The first is far ahead of the others: as if its clock were.
        members.member(0).restart_empty(1_000_000).await;
        let mut last = None;
        for dead in [2, 0, 1, 2, 0, 0, 1] {
            members.member(dead).kill();
            let lease = grant().await;
            let fence = lease.fence().unwrap();
            assert!(last < Some(fence), "{last:?}, {fence:?}");
            last = Some(fence);
            lease.release().await.unwrap();
            members.member(dead).revive();
        }
    }
}

/// A token that only one of three knows is no token: the next majority may be without it.
#[tokio::test(start_paused = true)]
async fn a_token_that_is_not_written_back_is_not_granted() {
    let members = members(3);
    let locks = members.locks();
    members.member(0).restart_empty(1_000_000).await;
    members.member(2).kill();
    // It answers the vote, and not the mend.
    let member = members.member(1);
    member.plan(Fault::Slow(Duration::ZERO));
    member.plan(Fault::LoseCommand);
    let error = locks.mutex("a").try_lock().await.unwrap_err();
    assert!(matches!(error, LockError::Quorum { .. }), "{error}");
    assert_eq!(member.log()[..2], ["vote", "mend"]);
    sleep(SECOND).await;
    assert_eq!(holding(&members, "a").await, 0, "it is taken back");
    member.log();
    let lease = locks.mutex("a").try_lock().await.unwrap();
    assert_eq!(member.log(), ["vote", "mend"]);
    assert!(u64::from(lease.fence().unwrap()) > 1_000_000);
}

/// Whoever grants after the token was settled is told it, and takes the place of one who
/// does not answer that.
#[tokio::test(start_paused = true)]
async fn who_votes_late_is_told_the_token() {
    let members = members(5);
    members.member(0).restart_empty(1_000_000).await;
    members.member(4).kill();
    // It grants, and is not told what the token is.
    members.member(2).plan(Fault::Slow(Duration::ZERO));
    members.member(2).plan(Fault::LoseCommand);
    let late = members.member(3);
    late.plan(Fault::Slow(TIME_OUT / 5));
    let begun = Instant::now();
    let lease = members.locks().mutex("a").try_lock().await.unwrap();
    assert!(begun.elapsed() < TIME_OUT, "{:?}", begun.elapsed());
    assert_eq!(late.log(), ["vote", "mend"]);
    assert!(u64::from(lease.fence().unwrap()) > 1_000_000);
}

#[tokio::test(start_paused = true)]
async fn a_lease_lasts_as_long_as_a_majority_renews_it() {
    let members = members(5);
    let lease = members.locks().mutex("a").ttl(SECOND).lock().await.unwrap();
    members.member(0).kill();
    members.member(1).freeze();
    sleep(10 * SECOND).await;
    assert!(lease.is_held());
    members.member(2).freeze();
    let begun = Instant::now();
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert!(begun.elapsed() <= SECOND, "{:?}", begun.elapsed());
}

/// One after the other forgets, and is given it again before the next does.
#[tokio::test(start_paused = true)]
async fn who_lost_the_lock_is_given_it_again_while_a_majority_stands() {
    for kind in ["mutex", "read", "write"] {
        let members = members(3);
        let locks = members.locks();
        let lease = take(&locks, kind).await;
        for place in [0, 1, 2, 0] {
            members.member(place).restart_empty(1 << 40).await;
            assert_eq!(holding(&members, "a").await, 2);
            sleep(SECOND / 2).await;
            assert_eq!(holding(&members, "a").await, 3, "{kind}");
        }
        assert!(lease.is_held());
        let other = members.locks();
        assert!(other.rw_lock("a").try_write().await.is_err());
        lease.release().await.unwrap();
        assert_eq!(holding(&members, "a").await, 0);
        drop(other.rw_lock("a").try_write().await.unwrap());
    }
}

/// What is given back is no vote for the renewal that found it lost.
#[tokio::test(start_paused = true)]
async fn what_a_majority_has_lost_is_lost() {
    let members = members(3);
    let lease = members.locks().mutex("a").ttl(SECOND).lock().await.unwrap();
    members.member(0).restart_empty(1 << 40).await;
    members.member(1).restart_empty(1 << 40).await;
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert_eq!(holding(&members, "a").await, 1, "and it is given to nobody");
    let _next = members.locks().mutex("a").try_lock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_another_has_won_is_not_given_back() {
    let members = members(3);
    let lease = members.locks().mutex("a").ttl(SECOND).lock().await.unwrap();
    // One forgets, and another has it there: no majority, and no healing.
    let store = members.member(0);
    store.restart_empty(1 << 40).await;
    members.member(1).freeze();
    members.member(2).freeze();
    let other = members.locks();
    let waiting = tokio::spawn(async move { other.mutex("a").ttl(SECOND).try_lock().await });
    tokio::task::yield_now().await;
    let holder = shown(&members, 0, "a").await.holders.pop().unwrap();
    members.member(1).thaw();
    members.member(2).thaw();
    advance(SECOND / 3).await;
    tokio::task::yield_now().await;
    let still = shown(&members, 0, "a").await.holders.pop();
    assert!(still.is_none_or(|still| still.client == holder.client));
    assert!(waiting.await.unwrap().is_err());
    assert!(lease.is_held());
}

/// A server that was restarted empty never makes a second holder: it does not count until
/// all that it may have forgotten has ended.
#[tokio::test(start_paused = true)]
async fn a_store_that_forgot_counts_when_all_it_knew_has_ended() {
    for (counts_after, is_safe) in [(SECOND, true), (Duration::ZERO, false)] {
        let members = Members::start(3, SECOND, counts_after);
        members.member(2).kill();
        let lease = members.locks().mutex("a").ttl(SECOND).lock().await.unwrap();
        members.member(2).revive();
        members.member(1).restart_empty(1 << 40).await;
        let second = members.locks().mutex("a").ttl(SECOND).try_lock().await;
        assert_eq!(lease.is_held() && second.is_ok(), !is_safe, "without the guard there are two");
        drop((lease, second));
        sleep(2 * SECOND).await;
        members.member(0).kill();
        drop(members.locks().mutex("a").ttl(SECOND).try_lock().await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn what_lasts_longer_than_a_store_is_waited_for_is_refused() {
    let members = Members::start(3, SECOND, SECOND);
    let mutex = members.locks().mutex("a");
    for (option, refused) in [
        ("ttl", mutex.clone().ttl(2 * SECOND).lock().await),
        ("hold_at_least", mutex.clone().ttl(SECOND).hold_at_least(2 * SECOND).lock().await),
    ] {
        let Err(LockError::InvalidOption { option: named, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(named, option);
    }
}

/// Late copies of what was given up do not count for, nor against, what came after.
#[tokio::test(start_paused = true)]
async fn what_comes_late_is_of_no_later_round() {
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

/// Also where they are tasks of his own process, which stand in a line of their own.
#[tokio::test(start_paused = true)]
async fn a_writer_is_not_starved_by_readers_of_his_process() {
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

/// A writer who does not come again keeps nobody out.
#[tokio::test(start_paused = true)]
async fn a_writer_who_only_tries_leaves_no_mark() {
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

#[tokio::test(start_paused = true)]
async fn one_name_is_one_kind_of_lock() {
    let members = members(3);
    let locks = members.locks();
    let _lease = locks.mutex("a").lock().await.unwrap();
    let error = locks.rw_lock("a").try_read().await.unwrap_err();
    assert!(matches!(error, LockError::WrongKind { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_handed_to_another_process() {
    let members = members(3);
    let lease = members.locks().mutex("a").lock().await.unwrap();
    let error = lease.detach().unwrap_err();
    assert!(matches!(error, LockError::Unsupported { .. }), "{error}");
    sleep(SECOND).await;
    assert_eq!(holding(&members, "a").await, 0, "it is released");
}

#[tokio::test(start_paused = true)]
async fn a_keeping_is_kept_by_all() {
    let members = members(3);
    let mutex = members.locks().mutex("job").hold_at_least(5 * SECOND);
    mutex.lock().await.unwrap().release().await.unwrap();
    members.member(0).kill();
    assert!(members.locks().mutex("job").try_lock().await.is_err());
    sleep(6 * SECOND).await;
    drop(members.locks().mutex("job").try_lock().await.unwrap());
}

/// The next majority may be of those who were all restarted meanwhile.
#[tokio::test(start_paused = true)]
async fn who_is_given_the_lock_again_is_told_its_token() {
    let members = members(3);
    let locks = members.locks();
    members.member(0).restart_empty(1_000_000).await;
    let lease = locks.mutex("a").ttl(SECOND).lock().await.unwrap();
    let first = lease.fence().unwrap();
    for place in 0..3 {
        // Its clock is behind.
        members.member(place).restart_empty(0).await;
        sleep(SECOND / 2).await;
    }
    lease.release().await.unwrap();
    assert!(locks.mutex("a").try_lock().await.unwrap().fence().unwrap() > first);
}

/// The holder relies on it until then, and who comes after need not wait for longer.
#[tokio::test(start_paused = true)]
async fn what_is_given_back_ends_with_what_was_renewed() {
    let members = members(3);
    let _lease = members.locks().mutex("a").ttl(SECOND).lock().await.unwrap();
    members.member(0).restart_empty(1 << 40).await;
    // All answers to the renewal are slow.
    let slow = Duration::from_millis(30);
    for member in members.iter() {
        member.plan(Fault::Slow(slow));
    }
    sleep(SECOND / 2).await;
    let lasts = async |place| shown(&members, place, "a").await.holders[0].remaining;
    let (healed, renewed) = (lasts(0).await, lasts(1).await);
    // Less the drift between two clocks.
    assert!(healed + SECOND / 100 <= renewed, "{healed:?}, {renewed:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_given_to_who_was_told_of_its_end_or_over_another() {
    let [request, other] = [(); 2].map(|()| Request {
        key: LockKey::new("a").unwrap(),
        id: RequestId::next(ClientId::random(), &AtomicU64::new(0)),
        kind: Kind::Mutex,
        owner: None,
        ttl: LONG,
    });
    for kind in [Kind::Mutex, Kind::Read, Kind::Write] {
        let (request, store) = (Request { kind, ..request.clone() }, MemoryStore::default());
        store.vote(&request, Duration::ZERO).await.unwrap();
        store.cancel(&request).await.unwrap();
        let mended = store.mend(&request, 1, SECOND).await.unwrap();
        assert_eq!(mended, Mended::NotHeld, "{kind:?} has ended");

        let rival = if kind == Kind::Mutex { Kind::Mutex } else { Kind::Write };
        let (rival, store) = (Request { kind: rival, ..other.clone() }, MemoryStore::default());
        store.vote(&rival, Duration::ZERO).await.unwrap();
        let mended = store.mend(&request, 1, SECOND).await.unwrap();
        assert_eq!(mended, Mended::NotHeld, "{kind:?} beside {rival:?}");
        assert!(matches!(store.renew(&rival).await, Ok(Renewal::Renewed)));
    }
}

/// One has another's record for good, as that one has died: it stays so, until it ends.
#[tokio::test(start_paused = true)]
async fn a_record_of_another_stays_through_renewals() {
    let members = members(3);
    let lease = members.locks().mutex("a").ttl(SECOND).lock().await.unwrap();
    members.member(0).restart_empty(1 << 40).await;
    let id = RequestId::next(ClientId::random(), &AtomicU64::new(0));
    let key = LockKey::new("a").unwrap();
    let dead = Request { key, id, kind: Kind::Mutex, owner: None, ttl: 5 * SECOND };
    members.member(0).store().vote(&dead, Duration::ZERO).await.unwrap();
    sleep(4 * SECOND).await;
    assert!(matches!(members.member(0).store().renew(&dead).await, Ok(Renewal::Renewed)));
    sleep(6 * SECOND).await;
    assert!(lease.is_held());
    assert!(!matches!(members.member(0).store().renew(&dead).await, Ok(Renewal::Renewed)));
    assert_eq!(holding(&members, "a").await, 3, "it is given back when the other has ended");
}

#[tokio::test(start_paused = true)]
async fn what_a_minority_says_of_a_release_is_no_answer() {
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
    members.member(0).restart_empty(1 << 40).await;
    lease.release().await.expect("one of three has forgotten it");
}

/// It is dead while it is to take back, and for long after; and its answer comes first.
#[tokio::test(start_paused = true)]
async fn what_a_dead_server_holds_is_taken_back_when_it_is_there_again() {
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
            // It grants, and does not hear that this is taken back, be it told thrice.
            dead.plan(Fault::Slow(Duration::ZERO));
            (0..3).for_each(|_| dead.plan(Fault::LoseCommand));
            members.locks().mutex("a").try_lock().await.unwrap_err();
        }
        sleep(SECOND).await;
        assert!(dead.log().contains(&"vote"));
        dead.revive();
        sleep(SECOND).await;
        assert_eq!(holding(&members, "a").await, 0, "{way}");
    }
}

/// The mark of a writer goes when it is served, and keeps out all but an owner who is in.
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

#[tokio::test(start_paused = true)]
async fn a_release_that_a_server_misses_is_made_up_for() {
    let members = members(3);
    let lease = members.locks().mutex("a").lock().await.unwrap();
    members.member(0).plan(Fault::LoseCommand);
    lease.release().await.unwrap();
    sleep(SECOND).await;
    assert_eq!(holding(&members, "a").await, 0);
}

/// Nobody is sure to come before another; but all come to it, and soon.
#[tokio::test(start_paused = true)]
async fn all_who_want_it_come_to_it() {
    let members = members(5);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let locks = members.locks();
        tasks.spawn(async move {
            for _ in 0..20 {
                let lease = locks.mutex("a").wait(LONG).lock().await.unwrap();
                sleep(Duration::from_millis(1)).await;
                lease.release().await.unwrap();
                sleep(Duration::from_millis(5)).await;
            }
        });
    }
    let begun = Instant::now();
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    // 160 stays of a millisecond, and the pauses between tries.
    assert!(begun.elapsed() < 10 * SECOND, "{:?}", begun.elapsed());
}

/// What gives a lease to a server that lost it may come after the release, and finds its
/// trace.
#[tokio::test(start_paused = true)]
async fn what_heals_too_late_heals_nothing() {
    for kind in ["mutex", "read", "write"] {
        let members = members(3);
        let locks = members.locks();
        let lease = take(&locks, kind).await;
        let forgetful = members.member(0);
        forgetful.restart_empty(1 << 40).await;
        // The renewal, and then the mend, which is late.
        forgetful.plan(Fault::Slow(Duration::ZERO));
        forgetful.plan(Fault::Late(SECOND / 4));
        forgetful.log();
        while !forgetful.log().contains(&"mend") {
            sleep(Duration::from_millis(1)).await;
        }
        lease.release().await.unwrap();
        sleep(SECOND / 2).await;
        assert_eq!(holding(&members, "a").await, 0, "{kind}");
    }
}
