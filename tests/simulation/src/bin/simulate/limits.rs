//! What a world may take of the machine, which a thread watches without the world's knowledge; and
//! what all of them took.

use std::process::exit;
use std::thread::{sleep, spawn};
use std::time::Duration;

/// In pages of four kilobytes: four gigabytes. The longest worlds take one.
const MOST_PAGES: u64 = 1 << 20;

/// The real time that a world may take, in seconds: many times what it needs on a busy machine.
fn most_seconds(simulated: u64) -> u64 {
    300 + 20 * simulated
}

/// Ends this process if its world takes too much.
pub(crate) fn watch(seconds: u64) {
    spawn(move || {
        // The world's clock stands still, so this counts for itself.
        for _ in 0..most_seconds(seconds) {
            sleep(Duration::from_secs(1));
            if pages().is_some_and(|pages| pages > MOST_PAGES) {
                end(&format!("the world takes more than {} MB", MOST_PAGES / 256));
            }
        }
        end(&format!("the world is not over after {} s", most_seconds(seconds)));
    });
}

fn end(problem: &str) -> ! {
    println!("VIOLATION {problem}");
    exit(1)
}

/// The memory of this process, where the system says that.
fn pages() -> Option<u64> {
    std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()
}

/// The processor time of the children that have ended, in seconds, where the system says that.
pub(crate) fn processor_time() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program stands first, and may have spaces. Then: state, 12 numbers, and these.
    let (_, numbers) = stat.rsplit_once(')')?;
    let mut ticks = numbers.split_whitespace().skip(13).map(str::parse);
    let (user, system): (u32, u32) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    // Linux counts these in hundredths of a second, whatever its own clock.
    Some((f64::from(user) + f64::from(system)) / 100.0)
}
