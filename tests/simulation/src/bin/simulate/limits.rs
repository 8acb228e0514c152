//! What a world may take of the machine, which a thread watches without the world's knowledge; and
//! what all of them took.

use std::process::exit;
use std::thread::{sleep, spawn};
use std::time::Duration;

/// In pages of four kilobytes: four gigabytes. The longest worlds take one.
const MOST_PAGES: u64 = 1 << 20;

/// The processor time that a world may take, in seconds: many times what it needs.
fn most_seconds(simulated: u64) -> f64 {
    f64::from(u32::try_from(300 + 20 * simulated).unwrap_or(u32::MAX))
}

/// In so many seconds, even a world beside many others has some of the processor; one that waits for itself
/// has none.
const STANDS_STILL: u32 = 600;
const LEAST: f64 = 0.2;

/// Ends this process if its world takes too much.
pub(crate) fn watch(seconds: u64) {
    spawn(move || {
        let mut before = 0.0;
        // The world's clock stands still, so this counts for itself.
        for passed in 1.. {
            sleep(Duration::from_secs(1));
            if pages().is_some_and(|pages| pages > MOST_PAGES) {
                end(&format!("the world takes more than {} MB", MOST_PAGES / 256));
            }
            let used = processor_time(Of::This).unwrap_or_else(|| f64::from(passed));
            if used > most_seconds(seconds) {
                end(&format!("the world is not over after {used} s of processor time"));
            }
            if passed % STANDS_STILL == 0 {
                if used < before + LEAST {
                    end(&format!("the world stands still for {STANDS_STILL} s"));
                }
                before = used;
            }
        }
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

/// Whose processor time.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    This,
    /// Those that have ended.
    Children,
}

/// The processor time of this process or of its children, in seconds, where the system says that.
pub(crate) fn processor_time(of: Of) -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program stands first, and may have spaces. Then: state, 10 numbers, and these.
    let (_, numbers) = stat.rsplit_once(')')?;
    let first = 11 + 2 * usize::from(matches!(of, Of::Children));
    let mut ticks = numbers.split_whitespace().skip(first).map(str::parse);
    let (user, system): (u32, u32) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    // Linux counts these in hundredths of a second, whatever its own clock.
    Some((f64::from(user) + f64::from(system)) / 100.0)
}
