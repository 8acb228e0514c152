//! The cost of leases for a process, run in one of its own so that nothing else is measured.

use std::io::Read;
use std::time::Duration;

use futures_util::future::try_join_all;
use leasehold::{LockError, Locks, Wait};
use leasehold_tests::kinds::EVERY_KIND;
use leasehold_tests::waiting::until;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::Failure;

/// The number of leases that are acquired at the same time.
const AT_ONCE: usize = 64;

/// The memory that this process has on the machine, in bytes: `VmRSS`, so with all that
/// allocators and stacks keep.
fn memory() -> Result<usize, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kib = line.trim().strip_suffix(" kB").ok_or("no kB")?;
    Ok(kib.parse::<usize>()? * 1024)
}

/// The processor time that all threads of this process have used, in hundredths of a
/// second.
fn ticks() -> Result<u64, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name, in parentheses, may have spaces; user and system time are the 14th and
    // 15th field.
    let (_, rest) = stat.rsplit_once(')').ok_or("no name")?;
    let fields: Vec<_> = rest.split_whitespace().collect();
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}

/// The names of this process's threads.
fn threads() -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        // One may end meanwhile.
        names.extend(std::fs::read_to_string(task?.path().join("comm")).ok());
    }
    Ok(names.into_iter().map(|name| name.trim().to_owned()).collect())
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Holds this many mutexes until the input ends. Then prints how many were lost, their cost, and
/// the numbers of threads and tasks.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn many(url: &str, count: usize, ttl_ms: u64) -> Result<(), Failure> {
    let locks = Locks::connect(url).await?;
    let mutex = |n: usize| {
        let mutex = locks.mutex(format!("many:{n}")).ttl(Duration::from_millis(ttl_ms));
        async move { mutex.lock().await }
    };
    // First come the costs that do not grow with the number of leases.
    for lease in try_join_all((0..AT_ONCE).map(mutex)).await? {
        lease.release().await?;
    }
    let (memory_before, tasks_before, threads_before) = (memory()?, tasks(), threads()?.len());
    let mut leases = Vec::with_capacity(count);
    for first in (0..count).step_by(AT_ONCE) {
        let last = count.min(first + AT_ONCE);
        leases.extend(try_join_all((first..last).map(mutex)).await?);
    }
    println!("ready");
    let ticks_before = ticks()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("ticks {}", ticks()? - ticks_before);
    println!("lost {}", leases.iter().filter(|lease| !lease.is_held()).count());
    println!("bytes {}", memory()?.saturating_sub(memory_before) / count);
    println!("tasks {}", tasks().saturating_sub(tasks_before));
    let threads = threads()?;
    println!("threads {}", threads.len().saturating_sub(threads_before));
    println!("keepers {}", threads.iter().filter(|name| *name == "leasehold").count());
    // The test has seen enough: 50,000 releases are not waited for.
    std::process::exit(0);
}

/// Waits until all of it is done. Returns the memory after the first tenth.
async fn memory_after(
    mut work: JoinSet<Result<(), LockError>>,
    before: usize,
) -> Result<usize, Failure> {
    while let Some(done) = work.join_next().await {
        done??;
    }
    if before == 0 { memory() } else { Ok(before) }
}

/// Prints the growth of the memory since the first tenth, and the number of tasks that are left.
/// Then waits for the end of the input, with its clients still there.
async fn say(memory_before: usize, tasks_before: usize) -> Result<(), Failure> {
    println!("grown {}", memory()?.saturating_sub(memory_before));
    // The task that ends a turn lives until then.
    until("the tasks have ended", async || tasks() <= tasks_before).await;
    println!("tasks {}", tasks().saturating_sub(tasks_before));
    super::ready();
    Ok(())
}

/// Acquires and releases this many locks, of all kinds, each under a new name.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn cycles(url: &str, count: usize) -> Result<(), Failure> {
    let locks = Locks::connect(url).await?;
    let tasks_before = tasks();
    let mut memory_before = 0;
    let tenth = count / 10;
    for range in [0..tenth, tenth..count] {
        let mut work = JoinSet::new();
        for task in 0..AT_ONCE {
            let (locks, numbers) = (locks.clone(), range.clone().skip(task).step_by(AT_ONCE));
            work.spawn(async move {
                for n in numbers {
                    let kind = EVERY_KIND[n % EVERY_KIND.len()];
                    let ttl = Duration::from_secs(30);
                    let guard = kind.lock(&locks, &format!("cycle:{n}"), ttl).await?;
                    guard.release().await?;
                }
                Ok(())
            });
        }
        memory_before = memory_after(work, memory_before).await?;
    }
    say(memory_before, tasks_before).await
}

/// Lets this many mutexes linger for a moment, each under a new name.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn lingered(url: &str, count: usize) -> Result<(), Failure> {
    let locks = Locks::connect(url).await?;
    let (tasks_before, tenth, mut memory_before) = (tasks(), count / 10, 0);
    for range in [0..tenth, tenth..count] {
        let mut work = JoinSet::new();
        for task in 0..AT_ONCE {
            let (locks, numbers) = (locks.clone(), range.clone().skip(task).step_by(AT_ONCE));
            work.spawn(async move {
                for n in numbers {
                    let mutex = locks.mutex(format!("once:{n}")).linger(Duration::from_millis(5));
                    for _ in 0..3 {
                        mutex.lock().await?.release().await?;
                    }
                }
                Ok(())
            });
        }
        memory_before = memory_after(work, memory_before).await?;
    }
    say(memory_before, tasks_before).await
}

/// Two clients, each of four tasks, take turns at one mutex, this many times in all.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn contended(url: &str, count: usize) -> Result<(), Failure> {
    let clients = [Locks::connect(url).await?, Locks::connect(url).await?];
    let tasks_before = tasks();
    let mut memory_before = 0;
    for turns in [count / 10, count - count / 10] {
        let mut work = JoinSet::new();
        for task in 0..8 {
            let mutex = clients[task % 2].mutex("contended").wait(Wait::Forever);
            work.spawn(async move {
                for _ in 0..turns / 8 {
                    mutex.lock().await?.release().await?;
                }
                Ok(())
            });
        }
        memory_before = memory_after(work, memory_before).await?;
    }
    say(memory_before, tasks_before).await
}
