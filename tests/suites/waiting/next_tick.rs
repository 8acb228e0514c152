//! The wait of a call whose tick is done for the next one.

use std::time::{Duration, SystemTime};

use leasehold::{LockError, Locks, Mutex, Wait};
use leasehold_tests::waiting::until;
use tokio::time::Instant;

use super::{Server, light_client};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// A job of each day.
fn daily(locks: &Locks) -> Mutex {
    locks.mutex("daily").once_per(DAY).wait(Wait::Forever)
}

async fn complete(job: &Mutex) -> SystemTime {
    let lease = job.lock().await.unwrap();
    let began = lease.tick().unwrap().began;
    lease.complete().await.unwrap();
    began
}

/// However many wait for the next tick, one of them runs. The others do not wait for the tick after
/// it: each of them would run in a tick of its own, days later.
#[tokio::test(start_paused = true)]
async fn a_call_waits_for_one_tick_at_most() {
    let locks = Locks::in_memory();
    let job = daily(&locks);
    let first = complete(&job).await;
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let job = daily(&locks);
            tokio::spawn(async move {
                let lease = job.lock().await?;
                let began = lease.tick().unwrap().began;
                lease.complete().await?;
                Ok::<_, LockError>(began)
            })
        })
        .collect();
    let mut ran = Vec::new();
    for call in calls {
        match call.await.unwrap() {
            Ok(began) => ran.push(began),
            Err(error) => assert!(error.is_done(), "{error}"),
        }
    }
    assert_eq!(ran, [first + DAY]);
    let LockError::Done { until, .. } = job.try_lock().await.unwrap_err() else { panic!("done") };
    assert_eq!(until, first + DAY * 2, "it is still the second day");
}

/// It stands in no queue: others see a free lock, and a plain call of the same name gets it.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_its_tick_is_in_nobodys_way() {
    let locks = Locks::in_memory();
    let job = daily(&locks);
    complete(&job).await;
    let waiting = tokio::spawn(async move { job.lock().await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let info = locks.inspect("daily").await.unwrap();
    assert_eq!((info.held, info.waiting), (0, 0));
    locks.mutex("daily").try_lock().await.unwrap().release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_wait() {
    let locks = Locks::in_memory();
    let (job, begun) = (daily(&locks), Instant::now());
    complete(&job).await;
    let waiting = tokio::spawn(async move { job.lock().await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let _ = locks.shutdown().await;
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::ShutDown), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(60), "at once, not in the next tick");
}

/// The store's clock stands still during the wait, as if it were set back again and again. The tick
/// ends that much later.
#[tokio::test]
async fn a_clock_that_is_set_back_loses_no_tick() {
    let server = Server::start_skewed();
    server.stop_clock();
    let locks = light_client(&server).await;
    let mut redis = server.redis().await;
    let (secs, micros): (u64, u32) = redis::cmd("TIME").query_async(&mut redis).await.unwrap();
    let now = Duration::new(secs, micros * 1000);
    let left = Duration::from_millis(50);
    let job = daily(&locks).offset((now + left).abs_diff(DAY)).wait(HOUR);
    let first = complete(&job).await;
    let calls = server.script_calls().await;
    let waiting = tokio::spawn(async move { complete(&job).await });
    until("it asks again", async || server.script_calls().await >= calls + 3).await;
    server.jump(left);
    assert_eq!(waiting.await.unwrap(), first + DAY);
}
