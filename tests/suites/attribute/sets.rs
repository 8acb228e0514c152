//! `all(…)`: a function under several locks.

use std::future::pending;
use std::time::Duration;

use leasehold::{
    Fault, Fence, LeaseHandle, LeaseSetHandle, LeaseState, LockError, Locks, LossReason,
    distributed_lock,
};
use leasehold_tests::logs::LogRecorder;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tracing::Level;

const SECOND: Duration = Duration::from_secs(1);

/// Tells the names of the locks that it holds, and their handles.
#[distributed_lock(
    all(
        lock(key = "order:{order.0}"),
        lock(key = format!("tenant:{tenant}"), permits = 3, weight = weight),
        lock(key = "prices", mode = "read"),
        lock(key = "total", permits = 4),
    ),
    wait = "2s",
    owner = "render",
    note = "a set",
    locks = locks,
    lease = leases,
)]
async fn render(
    locks: &Locks,
    order: (u64,),
    tenant: &str,
    weight: u32,
) -> Result<LeaseSetHandle, LockError> {
    assert_eq!(LeaseHandle::current().unwrap().key().name(), "total", "the last one");
    assert!(LeaseSetHandle::current().unwrap().is_held());
    for key in leases.iter().map(LeaseHandle::key) {
        let info = locks.inspect(key).await?;
        let told = info.holders.iter().map(|it| (it.owner.as_deref(), it.note.as_deref()));
        assert!(told.into_iter().any(|told| told == (Some("render"), Some("a set"))), "{key:?}");
    }
    Ok(leases)
}

#[tokio::test(start_paused = true)]
async fn a_call_holds_all_locks_and_releases_them_together() {
    let locks = Locks::in_memory();
    let leases = render(&locks, (7,), "acme", 3).await.unwrap();
    let names: Vec<_> = leases.iter().map(|lease| lease.key().name().to_owned()).collect();
    assert_eq!(names, ["order:7", "prices", "tenant:acme", "total"]);
    assert_eq!(leases.state(), LeaseState::Released);
    for name in names {
        assert!(locks.inspect(&*name).await.unwrap().holders.is_empty(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_lock_refuses_the_call_and_nothing_stays_held() {
    let locks = Locks::in_memory();
    let two = locks.semaphore("tenant:acme", 3).acquire_many(2).await.unwrap();
    let begun = Instant::now();
    let error = render(&locks, (7,), "acme", 2).await.unwrap_err();
    assert!(matches!(&error, LockError::TimedOut { key, .. } if key.name() == "tenant:acme"));
    assert_eq!(begun.elapsed(), 2 * SECOND);
    assert!(locks.mutex("order:7").try_lock().await.is_ok());
    assert!(render(&locks, (7,), "acme", 1).await.is_ok(), "a third fits beside the two");
    two.release().await.unwrap();
    let error = render(&locks, (7,), "acme", 4).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOption { option: "weight", .. }), "{error}");
    let error = render(&locks, (7,), "", 1).await;
    assert!(error.is_ok(), "an expression is not escaped, and `tenant:` is a name");
}

/// Tells its leases' tokens, and how it ended.
#[distributed_lock(all(lock(key = "b:{id}"), lock(key = "a:{id}")), ttl = "1s", lease = leases)]
async fn endless(id: u64, told: oneshot::Sender<[Fence; 2]>) -> Result<(), LockError> {
    let fences = [leases.fence(format!("a:{id}"))?, leases.fence(format!("b:{id}"))?];
    let _ = told.send(fences);
    pending().await
}

#[tokio::test(start_paused = true)]
async fn a_loss_of_one_stops_the_body_and_frees_the_others() {
    let locks = Locks::in_memory();
    let (told, tokens) = oneshot::channel();
    let call = tokio::spawn({
        let locks = locks.clone();
        async move { locks.scope(endless(1, told)).await }
    });
    let fences = tokens.await.unwrap();
    assert!(fences.into_iter().all(|fence| i64::from(fence) > 0), "{fences:?}");
    sleep(5 * SECOND).await;
    assert!(!call.is_finished(), "all are renewed");
    let _ = locks.force_release("b:1").await.unwrap();
    let error = call.await.unwrap().unwrap_err();
    assert!(
        matches!(&error, LockError::Lost { key, reason: LossReason::Forced, .. } if key.name() == "b:1"),
        "{error}"
    );
    // Before the error is returned, and not in the background.
    locks.all(["a:1", "b:1"]).try_lock().await.unwrap().release().await.unwrap();
}

/// A task that is spawned under the leases, and a name that comes twice.
#[tokio::test(start_paused = true)]
async fn leases_are_carried_into_a_task() {
    #[distributed_lock(
        all(lock(key = "shop:{a}", mode = "read"), lock(key = "shop:{b}", mode = "read"), lock(key = "x")),
        locks = locks,
        lease = leases,
    )]
    async fn show(locks: &Locks, a: u64, b: u64) -> Result<usize, LockError> {
        let count = async { LeaseSetHandle::current().map_or(0, |leases| leases.len()) };
        assert_eq!(tokio::spawn(leases.scope(count)).await.unwrap(), leases.len());
        let waits = locks.mutex("x").wait(SECOND).clone();
        let error = leases.scope(async move { waits.lock().await.unwrap_err() }).await;
        assert!(error.to_string().contains("the caller"), "{error}");
        Ok(leases.len())
    }
    let locks = Locks::in_memory();
    assert_eq!(show(&locks, 1, 2).await.unwrap(), 3);
    assert_eq!(show(&locks, 1, 1).await.unwrap(), 2);
}

#[distributed_lock(all(lock(key = "own"), lock(key = "other", permits = 9)), if_held = "skip")]
async fn logs() {}

/// The log names the lock that is in the way.
#[tokio::test(start_paused = true)]
async fn a_log_has_the_label_of_the_lock_that_failed() {
    let (log, _guard) = LogRecorder::start(Level::INFO);
    let locks = Locks::in_memory();
    let _mutex = locks.mutex("other").lock().await.unwrap();
    locks.scope(logs()).await;
    assert!(log.text().contains(r#"lock="other""#), "{}", log.text());
}

#[distributed_lock(
    all(lock(key = "a"), lock(key = "b")),
    ttl = "1s", auto_renew = false, on_lost = "finish", locks = locks, lease = leases
)]
async fn finishes(locks: &Locks) -> Result<(LeaseState, bool), LockError> {
    sleep(5 * SECOND).await;
    let is_current = LeaseSetHandle::current().is_some_and(|leases| leases.len() == 2);
    Ok((leases.state(), is_current))
}

#[tokio::test(start_paused = true)]
async fn a_body_that_may_finish_does() {
    let told = finishes(&Locks::in_memory()).await.unwrap();
    assert_eq!(told, (LeaseState::Lost(LossReason::Expired), true));
}

#[distributed_lock(all(lock(key = "a"), lock(key = "n", permits = 1)), if_held = "skip")]
pub(super) async fn skippable(runs: &mut u32) {
    *runs += 1;
}

#[tokio::test(start_paused = true)]
async fn a_job_is_skipped_while_one_lock_is_held() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let mut runs = 0;
    locks.scope(skippable(&mut runs)).await;
    let held = locks.semaphore("n", 1).acquire().await.unwrap();
    let begun = Instant::now();
    locks.scope(skippable(&mut runs)).await;
    assert_eq!(begun.elapsed(), Duration::ZERO, "it does not wait");
    held.release().await.unwrap();
    faults.always(Fault::Unreachable);
    locks.scope(skippable(&mut runs)).await;
    faults.heal();
    assert_eq!(runs, 1);
    locks.scope(skippable(&mut runs)).await;
    assert_eq!(runs, 2);
    locks.limits().name("n").set(0).await.unwrap();
    locks.scope(skippable(&mut runs)).await;
    assert_eq!(runs, 2, "an operator has closed it");
}

/// Two calls that name their locks in different orders.
#[distributed_lock(all(lock(key = "acc:{from}"), lock(key = "acc:{to}")), wait = "9s", locks = locks)]
async fn transfer(locks: &Locks, from: u64, to: u64) -> Result<(), LockError> {
    sleep(Duration::from_millis(10)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn calls_in_both_directions_never_wait_for_each_other() {
    let locks = Locks::in_memory();
    let calls = (0..20).map(|at| {
        let locks = locks.clone();
        let (from, to) = if at % 2 == 0 { (1, 2) } else { (2, 1) };
        tokio::spawn(async move { transfer(&locks, from, to).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    assert!(transfer(&locks, 3, 3).await.is_ok(), "one account is locked once");
}

/// A call inside the body is told that it waits for its own caller.
#[tokio::test(start_paused = true)]
async fn a_call_inside_the_body_is_told_of_its_own_lock() {
    #[distributed_lock(all(lock(key = "x"), lock(key = "y")), locks = locks)]
    async fn outer(locks: &Locks) -> Result<String, LockError> {
        let error = locks.mutex("x").wait(SECOND).lock().await.unwrap_err();
        Ok(error.to_string())
    }
    let told = outer(&Locks::in_memory()).await.unwrap();
    assert!(told.contains("the caller"), "{told}");
}
