//! Functions that may run so often in a time.

use std::time::Duration;

use leasehold::{LeaseSetHandle, LockError, Locks, Rate, distributed_lock};

/// What a plan allows.
fn of_plan(is_paid: bool) -> Rate {
    Rate::per_hour(if is_paid { 4 } else { 2 })
}

#[distributed_lock(key = "mail:{to}", rate = "2/h", wait = "10ms")]
async fn mail(to: &str) -> Result<usize, LockError> {
    assert!(LeaseSetHandle::current().is_none(), "nothing is held");
    Ok(to.len())
}

#[distributed_lock(key = "call", rate = of_plan(is_paid), weight = cost, wait = Duration::ZERO)]
async fn call(is_paid: bool, cost: u32) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "digest", rate = "1/h", if_held = "skip")]
async fn digest(runs: &mut u32) {
    *runs += 1;
}

#[distributed_lock(
    all(lock(key = "user:{user}", permits = 1), lock(key = "user:{user}", rate = "3/h")),
    wait = "0s",
    lease = leases
)]
async fn export(user: u32) -> Result<usize, LockError> {
    assert!(leases.is_held());
    Ok(leases.len())
}

#[tokio::test(start_paused = true)]
async fn a_function_runs_as_often_as_its_rate_allows() {
    Locks::in_memory()
        .scope(async {
            for to in ["ann", "ann", "bob"] {
                assert_eq!(mail(to).await.unwrap(), 3);
            }
            let error = mail("ann").await.unwrap_err();
            let LockError::RateLimited { retry_after, .. } = &error else { panic!("{error}") };
            tokio::time::sleep(*retry_after).await;
            assert_eq!(mail("ann").await.unwrap(), 3);
        })
        .await;
}

#[tokio::test]
async fn a_rate_and_a_weight_are_expressions() {
    Locks::in_memory()
        .scope(async {
            call(false, 2).await.unwrap();
            assert!(call(false, 1).await.unwrap_err().is_rate_limited());
            call(true, 1).await.unwrap_err();
            let error = call(false, 3).await.unwrap_err().to_string();
            assert!(error.contains("a weight of 3"), "{error}");
        })
        .await;
}

#[tokio::test]
async fn a_run_that_the_rate_does_not_allow_is_skipped() {
    let mut runs = 0;
    Locks::in_memory()
        .scope(async {
            digest(&mut runs).await;
            digest(&mut runs).await;
        })
        .await;
    assert_eq!(runs, 1);
}

#[tokio::test]
async fn a_rate_stands_beside_a_semaphore() {
    Locks::in_memory()
        .scope(async {
            for _ in 0..3 {
                assert_eq!(export(7).await.unwrap(), 1);
            }
            assert!(export(7).await.unwrap_err().is_rate_limited());
            let locks = Locks::current().unwrap();
            assert!(locks.semaphore("user:7", 1).try_acquire().await.is_ok());
        })
        .await;
}
