//! Ways to end a process whose server does not answer any more. What its log says, and each panic, is a line
//! of its output.

use std::io::{Read, stdin, stdout};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use bb8_redis::RedisConnectionManager;
use bb8_redis::bb8::Pool;
use futures_util::future::join_all;
use leasehold::{Locks, Wait};
use leasehold_tests::waiting::pass;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::Failure;

/// Longer than a command may take.
const LATE: Duration = Duration::from_millis(1_500);

static OUTLIVES: OnceLock<Locks> = OnceLock::new();

fn runtime(flavour: &str) -> Result<Runtime, Failure> {
    let mut builder = match flavour {
        "one" => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    Ok(builder.enable_all().build()?)
}

/// Waits for work where there is no runtime.
fn without_runtime<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        thread::park();
    }
}

async fn connect(url: &str, how: &str) -> Result<Locks, Failure> {
    if how != "pool" {
        return Ok(Locks::connect(url).await?);
    }
    let pool = Pool::builder().build(RedisConnectionManager::new(url)?).await?;
    Ok(Locks::builder().connect_pool(pool).await?)
}

/// Prints `ready`, and ends when its input does: with a lease that it has dropped then, and with a command
/// that nobody awaits any more.
pub(super) fn end(url: &str, flavour: &str, how: &str) -> Result<(), Failure> {
    let log = tracing_subscriber::fmt().with_writer(stdout).with_ansi(false);
    log.with_max_level(tracing::Level::WARN).init();
    std::panic::set_hook(Box::new(|panic| println!("panicked: {panic}")));
    let own = runtime(flavour)?;
    let (locks, lease) = own.block_on(async {
        let locks = connect(url, how).await?;
        let lease = locks.mutex("a").label("dropped").lock().await?;
        Ok::<_, Failure>((locks, lease))
    })?;
    println!("ready");
    stdin().read_to_end(&mut Vec::new())?;
    own.block_on(async {
        // On the workers, if there are any.
        let asked = (0..8).map(|n| {
            let lock = locks.mutex(format!("b{n}")).label("asked").wait(Wait::Forever);
            tokio::spawn(timeout(LATE / 30, async move { lock.lock().await.map(drop) }))
        });
        join_all(asked).await;
    });
    match how {
        // At the end of the thread, and of the workers.
        "main" | "pool" => drop(lease),
        "exit" => {
            drop(lease);
            std::process::exit(0);
        }
        // The client outlives its runtime, and another takes over.
        "static" => {
            let _ = OUTLIVES.set(locks.clone());
            drop((lease, own));
            let next = runtime(flavour)?;
            let refused = next.block_on(async { timeout(LATE, locks.mutex("c").try_lock()).await });
            println!("asked: {}", refused.is_ok_and(|refused| refused.is_err()));
            return Ok(());
        }
        // On a runtime, and outside of any.
        "shutdown" => {
            drop(lease);
            let report = own.block_on(locks.shutdown());
            println!("report: {} {:?}", report.left, report.left_labels);
        }
        "shutdown-without" => {
            drop(lease);
            // The ends of its threads would say what is left at that time.
            let own = (flavour == "many").then_some(own);
            let report = without_runtime(locks.shutdown());
            drop(own);
            println!("report: {} {:?}", report.left, report.left_labels);
            return Ok(());
        }
        _ => return Err("how: main, pool, exit, static, shutdown or shutdown-without".into()),
    }
    drop(own);
    let why = "no thread panics or logs after the end of the runtime";
    runtime("one")?.block_on(pass(LATE, why));
    Ok(())
}
