//! Each injected fault does what its name says, where it was planned.

use std::future::Future;
use std::time::Duration;

use leasehold::{Fault, Faults, Lease, LockError, Locks, LossReason, Outcome, Released, Step};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(9);

/// The delay of a slow answer.
const LATE: Duration = Duration::from_secs(5);

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Done,
    NotRun,
    Unknown,
    Nothing,
}

use Told::{Done, NotRun, Nothing, Unknown};

/// The result of a call, and its time in seconds.
async fn told<T>(call: impl Future<Output = Result<T, LockError>>) -> (Told, u64) {
    let begun = Instant::now();
    let told = match timeout(LONG, call).await {
        Ok(Ok(_)) => Done,
        Ok(Err(LockError::Store { outcome: Outcome::NotRun, .. })) => NotRun,
        Ok(Err(LockError::Store { outcome: Outcome::Unknown, .. })) => Unknown,
        Ok(Err(other)) => panic!("{other}"),
        Err(_) => Nothing,
    };
    (told, begun.elapsed().as_secs())
}

async fn is_held(locks: &Locks) -> bool {
    locks.inspect("a").await.unwrap().held > 0
}

/// The number of times that a command was sent since the last call.
fn sent(faults: &Faults, name: &str) -> usize {
    faults.store().log().iter().filter(|sent| **sent == name).count()
}

#[tokio::test(start_paused = true)]
async fn an_acquire_fails_as_planned() {
    let table = [
        (Fault::Unreachable, false, NotRun, 1),
        (Fault::Refuse, false, NotRun, 0),
        (Fault::LoseCommand, false, Unknown, 1),
        (Fault::LoseReply, true, Unknown, 1),
        (Fault::LoseReplyAfter(LATE), true, Unknown, LATE.as_secs()),
        (Fault::Delay(LATE), true, Done, LATE.as_secs()),
        (Fault::Hang, true, Nothing, LONG.as_secs()),
    ];
    for (fault, is_done, expected, seconds) in table {
        let (locks, faults) = Locks::in_memory_with_faults();
        faults.on(Step::Acquire).always(fault);
        let asks = locks.clone();
        let asks = tokio::spawn(async move { told(asks.mutex("a").try_lock()).await });
        sleep(Duration::from_millis(1)).await;
        assert_eq!(is_held(&locks).await, is_done, "{fault:?}");
        assert_eq!(asks.await.unwrap(), (expected, seconds), "{fault:?}");
        let asked = sent(&faults, "acquire");
        assert_eq!(asked > 1, seconds == 1, "{fault:?}: asked again only while it may pass");
        // An abandoned acquire is cancelled; the cancel is no acquire.
        sleep(Duration::from_secs(1)).await;
        assert!(!is_held(&locks).await, "{fault:?}");
    }
}

/// A try asks again at once for a grant that came too late, but not for ever.
#[tokio::test(start_paused = true)]
async fn a_try_whose_grants_all_come_too_late_times_out() {
    let (locks, faults) = Locks::in_memory_with_faults();
    faults.on(Step::Acquire).always(Fault::Delay(TTL * 2));
    let tried = locks.mutex("a").ttl(TTL).try_lock().await;
    assert!(matches!(tried, Err(LockError::TimedOut { .. })), "{tried:?}");
    assert_eq!(sent(&faults, "acquire"), 65);
}

#[tokio::test(start_paused = true)]
async fn a_release_fails_as_planned() {
    let table = [
        (Fault::Unreachable, false, NotRun, 0, 3),
        (Fault::Refuse, false, NotRun, 0, 1),
        (Fault::LoseCommand, false, Unknown, 0, 3),
        (Fault::LoseReply, true, Unknown, 0, 3),
        (Fault::LoseReplyAfter(LATE), true, Unknown, LATE.as_secs() * 3, 3),
        (Fault::Delay(LATE), true, Done, LATE.as_secs(), 1),
        (Fault::Hang, true, Nothing, LONG.as_secs(), 1),
    ];
    for (fault, is_done, expected, seconds, times) in table {
        let (locks, faults) = Locks::in_memory_with_faults();
        let lease = locks.mutex("a").lock().await.unwrap();
        faults.on(Step::Release).always(fault);
        let releases = tokio::spawn(told(lease.release()));
        tokio::task::yield_now().await;
        assert_eq!(is_held(&locks).await, !is_done, "{fault:?}");
        assert_eq!(releases.await.unwrap(), (expected, seconds), "{fault:?}");
        // Failed releases go on in the background, and so do abandoned ones.
        let goes_on = usize::from(expected != Done);
        assert_eq!(sent(&faults, "release"), times + goes_on, "{fault:?}");
        faults.heal();
        sleep(LATE * 2).await;
        assert!(!is_held(&locks).await, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_fails_as_planned() {
    let soon = Duration::from_secs(1);
    let table = [
        (Fault::Unreachable, false, true),
        (Fault::Refuse, false, true),
        (Fault::LoseCommand, false, true),
        (Fault::LoseReply, true, true),
        (Fault::LoseReplyAfter(soon), true, true),
        (Fault::Delay(soon), true, false),
        (Fault::Hang, true, true),
    ];
    for (fault, is_done, is_lost) in table {
        let (locks, faults) = Locks::in_memory_with_faults();
        faults.on(Step::Renew).always(fault);
        let begun = Instant::now();
        let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
        let lost = timeout(TTL, lease.lost()).await;
        assert_eq!(lost.ok(), is_lost.then_some(LossReason::Expired), "{fault:?}");
        assert!(begun.elapsed() >= TTL.mul_f64(0.98), "{fault:?}: {:?}", begun.elapsed());
        sleep(TTL / 10).await;
        assert_eq!(is_held(&locks).await, is_done, "{fault:?}: on the store");
        drop(lease);
        assert!(!is_held(&locks).await, "{fault:?}");
    }
}

/// As in production, one lost message is not enough for a caller to notice.
#[tokio::test(start_paused = true)]
async fn one_transient_fault_goes_unnoticed() {
    for fault in [Fault::Unreachable, Fault::LoseCommand, Fault::LoseReply] {
        let (locks, faults) = Locks::in_memory_with_faults();
        for step in [Step::Acquire, Step::Renew, Step::Release] {
            faults.on(step).next(fault);
        }
        let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
        sleep(TTL * 2).await;
        assert_eq!(lease.release().await.unwrap(), Released::Free, "{fault:?}");
        let log = faults.store().log();
        for (name, least) in [("acquire", 2), ("renew", 6), ("release", 2)] {
            assert!(log.iter().filter(|sent| **sent == name).count() >= least, "{log:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_says_that_it_was_planned() {
    let (locks, faults) = Locks::in_memory_with_faults();
    for (fault, says) in [
        (Fault::Unreachable, "the store cannot be reached"),
        (Fault::Refuse, "the store refuses the command"),
        (Fault::LoseCommand, "no answer: the command was lost"),
        (Fault::LoseReply, "no answer: the reply was lost"),
        (Fault::LoseReplyAfter(LATE), "no answer: the reply was lost"),
    ] {
        faults.always(fault);
        let error = locks.mutex("a").try_lock().await.unwrap_err();
        let whole = format!("the lock store failed to acquire `a`: injected fault: {says}");
        assert_eq!(error.to_string(), whole);
    }
}

/// The result of a command that is not repeated.
async fn look(locks: &Locks) -> Told {
    told(locks.inspect("a")).await.0
}

#[tokio::test(start_paused = true)]
async fn faults_come_in_the_order_they_are_planned() {
    let (locks, faults) = Locks::in_memory_with_faults();
    assert_eq!(look(&locks).await, Done);
    faults.always(Fault::LoseCommand);
    faults.next(Fault::LoseReply);
    faults.pass(2);
    faults.clone().next(Fault::Refuse);
    for expected in [Unknown, Done, Done, NotRun, Unknown, Unknown] {
        assert_eq!(look(&locks).await, expected);
    }
    faults.always(Fault::Refuse);
    assert_eq!(look(&locks).await, NotRun, "the later one holds");
    faults.next(Fault::Refuse);
    faults.heal();
    assert_eq!(look(&locks).await, Done);
    faults.next(Fault::Refuse);
    assert_eq!([look(&locks).await, look(&locks).await], [NotRun, Done]);
}

/// Whether its page fails, or a look at one of its locks.
#[tokio::test(start_paused = true)]
async fn a_list_ends_with_its_first_error() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let mut leases = Vec::new();
    for n in 0..30 {
        leases.push(locks.mutex(format!("n:{n}")).lock().await.unwrap());
    }
    for before in [0, 1] {
        let mut list = locks.list("n:*");
        faults.on(Step::Inspect).pass(before);
        faults.on(Step::Inspect).next(Fault::Refuse);
        let mut answer = list.next().await;
        while let Some(Ok(_)) = answer {
            answer = list.next().await;
        }
        assert!(
            matches!(answer, Some(Err(LockError::Store { step: Step::Inspect, .. }))),
            "{answer:?}"
        );
        assert!(list.next().await.is_none());
    }
    let mut list = locks.list("n:*");
    for _ in &leases {
        list.next().await.unwrap().unwrap();
    }
    assert!(list.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_fault_for_one_kind_of_command_goes_first() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let of_looks = faults.on(Step::Inspect);
    faults.next(Fault::LoseReply);
    faults.always(Fault::LoseCommand);
    of_looks.next(Fault::Refuse);
    of_looks.always(Fault::Refuse);
    // Its own `next` comes first, then the `next` of all, then its own `always`.
    for expected in [NotRun, Unknown, NotRun, NotRun] {
        assert_eq!(look(&locks).await, expected);
    }
    of_looks.pass(1);
    assert_eq!(look(&locks).await, Done);
    of_looks.next(Fault::Refuse);
    of_looks.heal();
    assert_eq!(look(&locks).await, Unknown, "what is for all is left");
    of_looks.always(Fault::Refuse);
    faults.heal();
    assert_eq!(look(&locks).await, Done, "all is healed");
}

#[tokio::test(start_paused = true)]
async fn faults_can_target_one_kind_of_command() {
    const STEPS: [Step; 6] =
        [Step::Acquire, Step::Renew, Step::Release, Step::Inspect, Step::ForceRelease, Step::Adopt];
    for step in STEPS {
        let (locks, faults) = Locks::in_memory_with_faults();
        let renewed = locks.mutex("e").lock().await.unwrap();
        let ticket = locks.mutex("d").lock().await.unwrap().detach().await.unwrap();
        faults.on(step).always(Fault::Refuse);
        let is_met = |failed: bool, of: Step| assert_eq!(failed, step == of, "{step:?}, {of:?}");
        is_met(locks.mutex("a").lock().await.is_err(), Step::Acquire);
        is_met(locks.all(["b", "c"]).lock().await.is_err(), Step::Acquire);
        is_met(locks.inspect("a").await.is_err(), Step::Inspect);
        is_met(locks.is_held_by("a", "me").await.is_err(), Step::Inspect);
        is_met(locks.force_release("a").await.is_err(), Step::ForceRelease);
        is_met(locks.adopt(ticket).await.is_err(), Step::Adopt);
        is_met(renewed.renew().await.is_err(), Step::Renew);

        let (locks, faults) = Locks::in_memory_with_faults();
        let leases: [Lease; 3] = [
            locks.mutex("a").ttl(TTL).lock().await.unwrap(),
            locks.rw_lock("b").ttl(TTL).read().await.unwrap(),
            locks.mutex("c").ttl(TTL).lock().await.unwrap(),
        ];
        faults.on(step).always(Fault::Refuse);
        sleep(TTL * 2).await;
        for lease in &leases[..2] {
            is_met(!lease.is_held(), Step::Renew);
        }
        let [mutex, reader, dropped] = leases;
        drop(dropped);
        sleep(TTL / 10).await;
        for lease in [mutex, reader] {
            let failed = matches!(lease.release().await, Err(LockError::Store { .. }));
            is_met(failed, Step::Release);
        }
        faults.on(Step::Inspect).heal();
        let is_left = locks.inspect("c").await.unwrap().held == 1;
        is_met(is_left, Step::Release);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_not_a_targeted_command() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let of_acquires = faults.on(Step::Acquire);
    of_acquires.next(Fault::LoseReply);
    of_acquires.always(Fault::Refuse);
    assert_eq!(told(locks.mutex("a").try_lock()).await.0, NotRun);
    sleep(Duration::from_secs(1)).await;
    assert!(!is_held(&locks).await);
}

/// Nothing can wait outside of a runtime, so delays are skipped. The other faults take effect.
#[test]
fn a_lease_may_be_dropped_outside_of_a_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for fault in [Fault::Delay(LATE), Fault::LoseReplyAfter(LATE)] {
        let (locks, faults) = Locks::in_memory_with_faults();
        let lease = runtime().block_on(locks.mutex("a").lock()).unwrap();
        faults.next(fault);
        drop(lease);
        assert!(runtime().block_on(locks.mutex("a").try_lock()).is_ok(), "{fault:?}");
    }
}
