//! A message that is lost costs time alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{LockError, Locks, LossReason, Released, Wait};
use leasehold_tests::backend::light_client;
use leasehold_tests::rights::{LOGIN, Rights};
use leasehold_tests::server::Server;
use tokio::time::timeout;

use super::{EMPTY, LONG, rows, until};

/// What a lost message of this row costs: time alone. The operator's scripts publish nothing.
async fn without(row: &str, here: Locks, mute: Locks) {
    const SHORT: Duration = Duration::from_secs(3);
    match row {
        "an offer" | "a request id" => {
            let held = mute.mutex(row).ttl(LONG).lock().await.unwrap();
            let waits = here.mutex(row).ttl(LONG).wait(Wait::Forever);
            let waits = tokio::spawn(async move { waits.lock().await.unwrap() });
            until("it waits", async || mute.inspect(row).await.unwrap().waiting > 0).await;
            if row == "an offer" {
                held.release().await.unwrap();
            } else {
                let _ = mute.force_release(row).await.unwrap();
            }
            assert!(waits.await.unwrap().is_held());
        }
        "a request id and `F`" => {
            let held = here.mutex(row).ttl(SHORT).lock().await.unwrap();
            let _ = mute.force_release(row).await.unwrap();
            assert_eq!(held.lost().await, LossReason::Forced);
        }
        "a request id, `R` and a key" => {
            let lingers = here.mutex(row).ttl(LONG).linger(SHORT).lock().await.unwrap();
            assert_eq!(lingers.release().await.unwrap(), Released::Lingers);
            drop(mute.mutex(row).ttl(LONG).wait(Wait::Forever).lock().await.unwrap());
        }
        "`again ` and a key" => {
            let (runs, job) = (Arc::new(AtomicU32::new(0)), here.mutex(row).once_per(SHORT).job());
            let counted = runs.clone();
            tokio::spawn(async move {
                let work = |_| {
                    counted.fetch_add(1, Ordering::SeqCst);
                    async { Ok::<(), LockError>(()) }
                };
                job.run(work).await
            });
            until("it runs", async || runs.load(Ordering::SeqCst) == 1).await;
            let _ = mute.run_again(row, "ann", "").await.unwrap();
            until("it runs again", async || runs.load(Ordering::SeqCst) > 1).await;
        }
        "`limits`" => {
            drop(here.semaphore(row, 9).acquire().await.unwrap());
            mute.limits().name(row).set(0).await.unwrap();
            until("it reads the limit", async || here.semaphore(row, 9).acquire().await.is_err())
                .await;
        }
        EMPTY => {}
        other => panic!("docs/keys.md has a row that no test knows: {other}"),
    }
}

#[tokio::test]
async fn a_message_that_is_lost_costs_time_alone() {
    let server = Server::start();
    Rights::of_the_docs().and("-publish").give([&server]).await;
    let here = light_client(&server).await;
    let mute = Locks::connect(&server.url_as(LOGIN)).await.unwrap();
    let all = rows().into_iter().map(|row| without(row, here.clone(), mute.clone()));
    timeout(LONG / 2, join_all(all)).await.expect("each message is made up for");
}
