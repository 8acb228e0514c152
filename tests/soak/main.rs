//! Processes acquire locks of all kinds on six deployments, while servers, links and the processes
//! themselves fail. A seed mixes the faults. Afterwards `leasehold-history` checks what the
//! processes wrote down.
//!
//! ```sh
//! ./tests/run soak           # ten minutes, a new seed
//! ./tests/run soak 3 4711    # three minutes, this seed
//! ```
//!
//! The seed decides which faults come in which order, and what the processes ask for. It does not
//! decide which of two processes is first, so a second run with one seed is another run.

mod arguments;
mod clock;
mod director;
mod journal;
mod ledger;
mod links;
mod processes;
mod stalls;
mod worker;
mod worlds;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use leasehold_history::{Figures, History, Judged, Verdict, check};

use self::arguments::{Arguments, Command};
use self::director::Plan;
use self::ledger::Ledger;
use self::worlds::World as _;
use self::worlds::cluster::Slots;
use self::worlds::durable::Durable;
use self::worlds::forgetful::Forgetful;
use self::worlds::quiet::Quiet;
use self::worlds::quorum::Quorum;
use self::worlds::sentinel::Replicas;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Within so many nanoseconds a request is in its server's queue: its process may have to connect first, on
/// a busy machine.
const QUEUED: u64 = 1_200_000_000;

/// No more violations are printed: one mistake causes many.
const SHOWN: usize = 20;

fn main() -> Result<ExitCode, Failure> {
    match Command::parse(std::env::args().skip(1))? {
        Command::Worker(worker) => worker.run().map(|()| ExitCode::SUCCESS),
        Command::Check(folder) => report(&folder),
        Command::Soak(arguments) => soak(&arguments),
    }
}

/// Runs, checks and prints. A history without violations is removed.
fn soak(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let seed = arguments.seed.unwrap_or(now.as_secs());
    let folder = std::env::temp_dir().join(format!("leasehold-soak-{seed}-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let time = arguments.time;
    say(&format!("seed {seed}, {} s, histories in {}", time.as_secs(), folder.display()))?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
    runtime.block_on(run(&folder, seed, arguments))?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    let code = report(&folder)?;
    if code == ExitCode::SUCCESS && !arguments.is_kept {
        fs::remove_dir_all(&folder)?;
    } else {
        say(&format!("the histories are kept: soak check {}", folder.display()))?;
    }
    Ok(code)
}

/// Runs all deployments at the same time.
async fn run(folder: &Path, seed: u64, arguments: &Arguments) -> Result<(), Failure> {
    let until = Instant::now() + arguments.time;
    let mut rng = Rng::with_seed(seed);
    let mut plan = |name: &str| {
        let rng = rng.fork();
        let wanted = arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
        let folder = folder.join(name);
        wanted.then_some(Plan { folder, rng, until, is_planted: arguments.is_planted })
    };
    tokio::try_join!(
        director::run::<Durable>(plan("durable")),
        director::run::<Forgetful>(plan("forgetful")),
        director::run::<Replicas>(plan("sentinel")),
        director::run::<Slots>(plan("cluster")),
        director::run::<Quorum>(plan("quorum")),
        director::run::<Quiet>(plan("quiet")),
    )?;
    Ok(())
}

/// The histories in a folder, with the names of their deployments.
fn read_all(folder: &Path) -> Result<Vec<(String, History)>, Failure> {
    let mut all = Vec::new();
    for world in folders(folder)? {
        let mut history = History::default();
        for file in folders(&world)? {
            if file.extension().is_some_and(|end| end == "history") {
                history.read(&fs::read_to_string(file)?);
            }
        }
        let name = world.file_name().unwrap_or_default().to_string_lossy().into_owned();
        all.push((name, history));
    }
    Ok(all)
}

/// What is in a folder, by name.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut paths: Vec<_> = entries.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    Ok(paths)
}

/// Prints the violations, and a line of figures for each deployment and for all.
fn report(folder: &Path) -> Result<ExitCode, Failure> {
    let (mut total, mut wrong, histories) = (Figures::default(), 0, read_all(folder)?);
    let mut all_judged = Judged::default();
    for (name, history) in &histories {
        let figures = history.figures();
        let has_queue = name != Quorum::CLIENT;
        let Verdict { wrong: mut violations, judged } = check(history, has_queue.then_some(QUEUED));
        if figures.get("granted") == 0 {
            violations.push("nothing was granted, which proves nothing".to_owned());
        }
        let ledger = Ledger::find(&folder.join(name)).map(|ledger| ledger.report()).transpose()?;
        let (text, of_ledger) = ledger.unzip();
        violations.extend(of_ledger.unwrap_or_default());
        say(&format!("{name}: {figures}, {} violations", violations.len()))?;
        say(&format!("  judged: {judged}"))?;
        if let Some(text) = text {
            say(&format!("  ledger: {text}"))?;
        }
        for violation in violations.iter().take(SHOWN) {
            say(&format!("  {violation}"))?;
        }
        wrong += violations.len();
        total += &figures;
        all_judged += &judged;
    }
    say(&format!("judged: {all_judged}"))?;
    say(&format!("all: {total}, {wrong} violations"))?;
    let is_good = wrong == 0 && !histories.is_empty();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints a line. A reader that went away is no reason to stop.
fn say(line: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout().lock(), "{line}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
