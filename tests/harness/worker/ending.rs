//! Ways to end a process that holds many leases of every kind.

use std::time::Duration;

use leasehold::Locks;
use leasehold_tests::kinds::{EVERY_KIND, Guard, Kind};

use super::Failure;

/// Longer than any test waits. A lock that is free sooner was released.
const TTL: Duration = Duration::from_secs(30);

/// Acquires this many leases of all kinds. Ten readers share a lock, and so do ten holds of an
/// owner.
async fn hold_many(locks: &Locks, count: usize) -> Result<Vec<Guard>, Failure> {
    let (mut guards, mut held) = (Vec::new(), 0);
    for n in 0.. {
        let left = count - held;
        let kind = EVERY_KIND[n % EVERY_KIND.len()];
        let name = match kind {
            Kind::Reentrant(_) | Kind::Read => format!("dropped:{kind:?}:{}", n / 70),
            _ => format!("dropped:{n}"),
        };
        let guard = match kind {
            _ if left == 0 => break,
            Kind::All if left < 3 => Kind::Mutex.lock(locks, &name, TTL).await?,
            kind => kind.lock(locks, &name, TTL).await?,
        };
        held += guard.leases().count();
        guards.push(guard);
    }
    Ok(guards)
}

/// Holds many leases and drops them just before the process ends.
#[tokio::main]
pub(super) async fn drop_many(url: &str, count: usize, how: &str) -> Result<(), Failure> {
    let locks = Locks::connect(url).await?;
    let leases = hold_many(&locks, count).await?;
    println!("ready");
    match how {
        // Here, on the main thread, with the client.
        "main" => drop(leases),
        // On a thread of the runtime's, and the client stays in a static.
        "worker" => {
            locks.install();
            tokio::spawn(async move { drop(leases) }).await?;
        }
        // By a task that is running when the runtime is dropped.
        "runtime" => {
            locks.install();
            tokio::spawn(async move {
                let _leases = leases;
                std::future::pending::<()>().await;
            });
        }
        // While a panic unwinds.
        "panic" => {
            let panicked = tokio::spawn(async move {
                let _leases = leases;
                panic!("on purpose");
            });
            assert!(panicked.await.is_err());
        }
        // While a panic unwinds that ends the process.
        "main-panic" => {
            let _leases = leases;
            panic!("on purpose");
        }
        // Nothing is dropped.
        "exit" => std::process::exit(0),
        _ => return Err("how: main, worker, runtime, panic, main-panic or exit".into()),
    }
    Ok(())
}

/// The same on a thread of a runtime in a static, which outlives `main`.
pub(super) fn on_a_static_runtime(url: &str, count: usize) -> Result<(), Failure> {
    static RUNTIME: std::sync::OnceLock<tokio::runtime::Runtime> = std::sync::OnceLock::new();
    let runtime = tokio::runtime::Runtime::new()?;
    RUNTIME.get_or_init(|| runtime).block_on(async {
        let locks = Locks::connect(url).await?;
        locks.install();
        let leases = hold_many(&locks, count).await?;
        println!("ready");
        tokio::spawn(async move { drop(leases) }).await?;
        Ok(())
    })
}
