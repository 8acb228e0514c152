//! No message makes a job run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::LockError;
use leasehold_tests::backend::light_client;
use leasehold_tests::server::Server;

use super::super::forged::{forger, publish};
use super::{forge, stored, until};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A job that has left a tick alone, and one whose tick is done. They are alone on their server, so all
/// scripts are theirs.
#[tokio::test]
async fn no_message_makes_a_job_run() {
    let server = Server::start();
    let (locks, elsewhere) = (light_client(&server).await, light_client(&server).await);
    let mut forger = forger(&server).await;
    let names = ["left alone", "done"];
    let runs: [Arc<AtomicU32>; 2] = Default::default();
    for ((name, runs), catches_up) in names.into_iter().zip(&runs).zip([false, true]) {
        let job = locks.mutex(name).once_per(DAY).job().catch_up(catches_up).jitter(Duration::ZERO);
        let runs = runs.clone();
        tokio::spawn(async move {
            let work = |_| {
                runs.fetch_add(1, Ordering::SeqCst);
                async { Ok::<(), LockError>(()) }
            };
            job.run(work).await
        });
    }
    let counts = || runs.each_ref().map(|runs| runs.load(Ordering::SeqCst));
    let sleeps = async |name: &str| {
        let seen = elsewhere.inspect(name).await.unwrap();
        seen.job.is_some() && seen.holders.is_empty()
    };
    until("they sleep", async || sleeps("left alone").await && sleeps("done").await).await;
    assert_eq!(counts(), [0, 1]);
    let again = |name: &str| format!("again leasehold:lock:{{{name}}}");
    let before = stored(&server).await;
    forge(&server, &mut forger).await;
    // Each asks, and once more: whatever the first answer causes comes before the second question.
    for _ in 0..2 {
        server.forget_stats().await;
        for name in names {
            publish(&mut forger, "leasehold:wake:limits", &again(name)).await;
        }
        until("they ask", async || server.stats("evalsha").await.0 >= 2).await;
    }
    assert_eq!((stored(&server).await, counts()), (before, [0, 1]));

    for name in names {
        let _ = elsewhere.run_again(name, "ann", "").await.unwrap();
    }
    until("they run", async || counts() == [1, 2]).await;
    until("they sleep", async || sleeps("left alone").await && sleeps("done").await).await;
    let before = stored(&server).await;
    for _ in 0..2 {
        server.forget_stats().await;
        for name in names {
            // The true message, late and twice.
            publish(&mut forger, "leasehold:wake:limits", &again(name)).await;
            publish(&mut forger, "leasehold:wake:limits", &again(name)).await;
        }
        until("they ask", async || server.stats("evalsha").await.0 >= 2).await;
    }
    assert_eq!((stored(&server).await, counts()), (before, [1, 2]));
}
