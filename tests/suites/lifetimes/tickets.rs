//! Moving a lease from one process to another: `detach` and `adopt`.

use std::time::Duration;

use leasehold::{Fault, LockError, Locks, LossReason, Released, Step, Ticket};
use leasehold_tests::polls::drop_after;
use tokio::time::{Instant, sleep};

use super::{SECOND, TTL, another, are_free, one_of_each};

#[tokio::test(start_paused = true)]
async fn the_first_guard_is_spent_before_there_is_a_ticket() {
    let (locks, faults) = Locks::in_memory_with_faults();
    for lease in one_of_each(&locks, None).await {
        let handle = lease.handle();
        faults.store().log();
        let _ticket = lease.detach().await.unwrap();
        assert!(!handle.is_held());
        sleep(TTL / 2).await;
        assert!(faults.store().log().iter().all(|sent| *sent == "renew"), "nothing is released");
    }
    sleep(TTL / 10).await;
    faults.store().log();
    assert_eq!(are_free(&another(faults.store())).await, [true, true, true, true, false]);
    sleep(TTL).await;
    let log = faults.store().log();
    assert!(!log.contains(&"renew"), "what nobody takes up ends with its TTL: {log:?}");
    assert_eq!(are_free(&another(faults.store())).await, [true; 5]);
}

#[tokio::test(start_paused = true)]
async fn an_adopted_lease_starts_its_whole_ttl_and_is_renewed() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let leases = one_of_each(&locks, None).await;
    let fences: Vec<_> = leases.iter().map(|lease| lease.fence().ok()).collect();
    let mut texts = Vec::new();
    for lease in leases {
        texts.push(lease.detach().await.unwrap().to_string());
    }
    sleep(TTL * 9 / 10).await;
    let other = another(faults.store());
    let mut adopted = Vec::new();
    for (text, before) in texts.iter().zip(fences) {
        let lease = other.adopt(text.parse().unwrap()).await.unwrap();
        assert!(lease.remaining() > TTL * 9 / 10);
        assert!(lease.fence().ok() > before || before.is_none(), "{lease:?}");
        adopted.push(lease);
    }
    sleep(TTL * 3).await;
    assert_eq!(are_free(&locks).await, [false; 5], "they are renewed");
    for lease in adopted {
        assert_eq!(lease.release().await.unwrap(), Released::Free);
    }
    assert_eq!(are_free(&locks).await, [true; 5]);
}

/// An ask without an answer may arrive when the lease was adopted and released. It would acquire the
/// lock again, and the ticket could be adopted a second time.
#[tokio::test(start_paused = true)]
async fn there_is_no_ticket_while_an_ask_may_arrive_late() {
    let (locks, faults) = Locks::in_memory_with_faults();
    for fault in [Fault::LoseCommand, Fault::LoseReply] {
        let answered = locks.mutex("a").lock().await.unwrap();
        faults.on(Step::Acquire).next(fault);
        // Its TTL is over before the ask can no longer arrive, and nobody else renews it.
        let short = Duration::from_millis(200);
        let late = locks.mutex("b").ttl(short).auto_renew(false).lock().await.unwrap();
        faults.store().log();
        let begun = Instant::now();
        let first = answered.detach().await.unwrap();
        assert_eq!((begun.elapsed(), faults.store().log().len()), (Duration::ZERO, 0));
        let second = late.detach().await.unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(500), "{:?}", begun.elapsed());
        for ticket in [first, second] {
            locks.adopt(ticket).await.unwrap().release().await.unwrap();
        }
    }
}

/// A lease that was handed over is an offer until it is confirmed, and would end within a second.
#[tokio::test(start_paused = true)]
async fn a_ticket_of_a_lease_that_was_handed_over_has_its_ttl() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let holder = another(faults.store()).mutex("a").lock().await.unwrap();
    let waiter = tokio::spawn(async move {
        let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
        (lease.detach().await.unwrap(), locks)
    });
    while another(faults.store()).inspect("a").await.unwrap().waiting == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    holder.release().await.unwrap();
    let (ticket, _locks) = waiter.await.unwrap();
    sleep(TTL * 9 / 10).await;
    another(faults.store()).adopt(ticket).await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_ticket_can_be_used_once() {
    let (locks, faults) = Locks::in_memory_with_faults();
    for lease in one_of_each(&locks, None).await {
        let ticket = lease.detach().await.unwrap();
        let other = another(faults.store());
        let first = other.adopt(ticket.clone()).await.unwrap();
        for locks in [&locks, &other] {
            let second = locks.adopt(ticket.clone()).await;
            let Err(LockError::TicketEnded { reason: LossReason::Taken, .. }) = &second else {
                panic!("{second:?}");
            };
            let told = second.unwrap_err().to_string();
            assert!(told.contains("adopted before") && told.contains("nothing was acquired"));
        }
        assert!(first.is_held());
        first.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ended_in_transit_is_lost() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let reasons = [LossReason::Expired, LossReason::Forced];
    for reason in reasons {
        for lease in one_of_each(&locks, None).await {
            let key = lease.key().clone();
            let ticket = lease.detach().await.unwrap();
            match reason {
                LossReason::Expired => sleep(TTL).await,
                _ => assert!(another(faults.store()).force_release(key).await.is_ok()),
            }
            let adopted = locks.adopt(ticket).await;
            let Err(LockError::TicketEnded { reason: why, .. }) = adopted else {
                panic!("{adopted:?}");
            };
            assert_eq!(why, reason);
        }
    }
    let lease = locks.mutex("m").ttl(TTL).auto_renew(false).lock().await.unwrap();
    sleep(TTL).await;
    let detached = lease.detach().await;
    assert!(matches!(detached, Err(LockError::Lost { .. })), "{detached:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_of_an_adoption_costs_nothing() {
    let (locks, faults) = Locks::in_memory_with_faults();
    for fault in [Fault::LoseReply, Fault::LoseCommand] {
        let ticket = locks.mutex("m").ttl(TTL).lock().await.unwrap().detach().await.unwrap();
        faults.next(fault);
        let lease = another(faults.store()).adopt(ticket).await.unwrap();
        sleep(TTL * 2).await;
        lease.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_adoption_that_fails_or_is_dropped_leaves_nothing() {
    for polls in 1..6 {
        for fault in [Fault::Delay(SECOND / 10), Fault::LoseReply, Fault::LoseReplyAfter(SECOND)] {
            let (locks, faults) = Locks::in_memory_with_faults();
            let lease = locks.mutex("m").ttl(TTL * 9).lock().await.unwrap();
            let ticket = lease.detach().await.unwrap();
            faults.always(fault);
            let dropped = drop_after(polls, another(faults.store()).adopt(ticket)).await;
            faults.heal();
            drop(dropped);
            sleep(SECOND * 2).await;
            assert!(locks.mutex("m").try_lock().await.is_ok(), "{fault:?} after {polls}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_adoption_that_never_began_uses_no_ticket() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let ticket = locks.mutex("m").ttl(TTL).lock().await.unwrap().detach().await.unwrap();
    let other = another(faults.store());
    drop(other.adopt(ticket.clone()));
    faults.always(Fault::Unreachable);
    let failed = other.adopt(ticket.clone()).await;
    assert!(matches!(failed, Err(LockError::Store { .. })), "{failed:?}");
    faults.heal();
    assert!(other.adopt(ticket).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_remaining_times_travel_with_the_ticket() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let mutex = locks.mutex("m").ttl(TTL).max_hold(TTL * 2).hold_at_least(TTL * 3);
    let lease = mutex.lock().await.unwrap();
    sleep(TTL).await;
    let text = lease.detach().await.unwrap().to_string();
    let lease = another(faults.store()).adopt(text.parse::<Ticket>().unwrap()).await.unwrap();
    assert_eq!(lease.lost().await, LossReason::MaxHold);
    sleep(TTL * 8 / 9).await;
    assert!(locks.mutex("m").try_lock().await.is_err(), "it is kept for its least time");
    sleep(SECOND * 2).await;
    assert!(locks.mutex("m").try_lock().await.is_ok());
}

/// The text of a ticket comes from outside.
#[tokio::test]
async fn a_ticket_with_changed_times_is_refused() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("m").ttl(TTL).lock().await.unwrap();
    let text = lease.detach().await.unwrap().to_string();
    faults.store().log();
    for ttl in ["0", "99", "86400001", "18446744073709551615"] {
        let ticket: Ticket = text.replacen("9000", ttl, 1).parse().unwrap();
        let refused = locks.adopt(ticket).await;
        assert!(matches!(refused, Err(LockError::InvalidOption { .. })), "{ttl}: {refused:?}");
    }
    assert!(faults.store().log().is_empty());
}
