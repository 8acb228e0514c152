//! What many jobs in many processes cost the store while they have nothing to do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use leasehold::Locks;
use leasehold_tests::overridden::Overridden;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Commands by name, and by second.
#[derive(Clone, Debug, Default)]
struct Counts {
    by_name: BTreeMap<&'static str, u64>,
    by_second: BTreeMap<u64, u64>,
}

/// A thousand jobs in fifty processes, each with a tick of a day, cost the store a few commands a second.
/// Each job asks for itself, so a few show what a thousand cost. Each of them looks at its clock every 30 s,
/// and a hundred of those tasks take some seconds of processor time; with `LONG=1` there are ten thousand.
#[tokio::test(start_paused = true)]
async fn daily_jobs_in_fifty_processes_cost_little() {
    let jobs: u64 = if std::env::var_os("LONG").is_some() { 200 } else { 2 };
    let processes = 50;
    let (_locks, faults) = Locks::in_memory_with_faults();
    let (begun, counts) = (Instant::now(), Arc::<Mutex<Counts>>::default());
    let counted = counts.clone();
    let store = Overridden::new(faults.store().clone(), move |store, command| {
        let mut counts = counted.lock().unwrap();
        *counts.by_name.entry(command.name()).or_default() += 1;
        *counts.by_second.entry(begun.elapsed().as_secs()).or_default() += 1;
        drop(counts);
        store.send(command)
    });
    let clients: Vec<_> = (0..processes).map(|_| Locks::over(store.clone())).collect();
    let ran = Arc::new(Mutex::new(BTreeMap::<u64, u64>::new()));
    let mut running = JoinSet::new();
    for locks in &clients {
        for nth in 0..jobs {
            let (job, ran) = (locks.mutex(format!("job-{nth}")).once_per(DAY).job(), ran.clone());
            running.spawn(async move {
                job.run(|_| {
                    *ran.lock().unwrap().entry(nth).or_default() += 1;
                    std::future::ready(Ok::<_, String>(()))
                })
                .await
            });
        }
    }
    // The tick begins at midnight, and no day begins or ends just then.
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let today = Duration::from_secs(since.as_secs() % DAY.as_secs());
    sleep((DAY + DAY / 2).saturating_sub(today)).await;
    *counts.lock().unwrap() = Counts::default();
    ran.lock().unwrap().clear();
    sleep(DAY).await;
    let Counts { by_name, by_second } = counts.lock().unwrap().clone();
    running.abort_all();

    let ran = ran.lock().unwrap().clone();
    assert!(ran.len() as u64 == jobs && ran.values().all(|runs| *runs == 1), "{ran:?}");
    let most = by_second.values().max().copied().unwrap_or_default();
    let all: u64 = by_name.values().sum();
    // Who a process is does not depend on its jobs.
    let introduced = by_name.get("introduce").copied().unwrap_or_default();
    let of_thousand = (all - introduced) * 1_000 / jobs + introduced;
    #[expect(clippy::cast_precision_loss, reason = "it is a figure to read")]
    let [each, a_second] = [
        (all - introduced) as f64 / (jobs * processes) as f64,
        of_thousand as f64 / DAY.as_secs_f64(),
    ];
    println!(
        "{jobs} jobs in {processes} processes, in a day: {by_name:?}; {each:.1} for each job in each \
         process; {most} in the busiest second; {a_second:.1} a second with a thousand jobs"
    );
    assert!(a_second < 10.0, "{a_second:.1} commands a second");
}
