//! Counts the server's instructions for each script, and ours for a request under the layer, with
//! callgrind.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold_tests::server::free_port;
use redis::Cmd;
use redis::aio::MultiplexedConnection;

use self::Call::{
    EmptyScript, MutexAcquire, MutexRelease, MutexRenew, SemaphoreAcquire, SemaphoreRelease, SetNx,
};
use super::layer;
use crate::bench::{Bench, progress};
use crate::crew::ourselves;
use crate::failure::Failure;
use crate::machine::said_by;
use crate::script;
use crate::server;
use crate::stats::real;
use crate::table::{Table, Target};
use crate::worker::LayerCalls;

const TTL_MS: u64 = 30_000;

/// A command that is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    SetNx,
    EmptyScript,
    MutexAcquire,
    MutexRenew,
    MutexRelease,
    SemaphoreAcquire,
    SemaphoreRelease,
}

/// The calls to measure. The last one counts, as the difference to a run without it.
const COUNTED: [(&str, &[Call]); 7] = [
    ("SET NX PX", &[SetNx]),
    ("an empty script", &[EmptyScript]),
    ("mutex/acquire", &[MutexAcquire]),
    ("mutex/renew", &[MutexAcquire, MutexRenew]),
    ("mutex/release", &[MutexAcquire, MutexRelease]),
    ("semaphore/acquire", &[SemaphoreAcquire]),
    ("semaphore/release", &[SemaphoreAcquire, SemaphoreRelease]),
];

pub(crate) async fn run(bench: &mut Bench, title: String) -> Result<(), Failure> {
    let mut table = Table::new(title, &["call", "instructions"]);
    if said_by("valgrind", &["--version"]) == "not there" {
        table.note("not run: there is no valgrind");
        return bench.add(table);
    }
    let times = bench.pick(300, 2000);
    let mut counts: Vec<(&[Call], u64)> = Vec::new();
    for calls in [&[] as &[Call]].into_iter().chain(COUNTED.map(|(_, calls)| calls)) {
        progress!("run {} of {}", counts.len() + 1, COUNTED.len() + 1);
        counts.push((calls, count(bench, calls, times).await?));
    }
    let of = |calls: &[Call]| counts.iter().find(|(of, _)| *of == calls).map(|&(_, count)| count);
    for (name, calls) in COUNTED {
        let (with, without) = (of(calls), of(&calls[..calls.len() - 1]));
        let (with, without) = with.zip(without).ok_or("a run is missing")?;
        let each = real(usize::try_from(with.saturating_sub(without))?) / real(times);
        table.row([name.to_owned(), format!("{each:.0}")]);
    }
    table.note(format!(
        "{times} calls on as many keys, each of which was locked and released before."
    ));
    bench.add(table)?;
    of_layer(bench)
}

/// The instructions of our process for a request. They don't depend on what else the machine does, so
/// they show a change that no measured time would.
fn of_layer(bench: &mut Bench) -> Result<(), Failure> {
    let head = ["a call, in memory", "instructions", "beside tower", "target"];
    let mut table = Table::new("instructions: a request under the layer", &head);
    let times = bench.pick(2000, 10_000);
    let mut counts = Vec::new();
    for name in layer::NAMES {
        progress!("calls of {name}");
        let more = count_calls(bench, name, 2 * times)? - count_calls(bench, name, times)?;
        counts.push((name, real(usize::try_from(more)?) / real(times)));
    }
    let tower = counts.iter().find(|(name, _)| *name == layer::TOWER).ok_or("tower is missing")?.1;
    for (name, count) in counts {
        let aim = match name {
            layer::OURS => Some(4.6),
            layer::LINGERING => Some(3.5),
            _ => None,
        };
        let judge = |aim| Target::AtMost(aim).judge(count / tower);
        table.row([
            name.to_owned(),
            format!("{count:.0}"),
            format!("{:.2}", count / tower),
            aim.map(judge).unwrap_or_default(),
        ]);
    }
    table.note("The difference between runs with so many calls and with twice as many.");
    bench.add(table)
}

/// The instructions of a whole process that calls a layer so often.
fn count_calls(bench: &Bench, layer: &str, calls: usize) -> Result<u64, Failure> {
    let mut work = ourselves("layer-calls")?;
    work.args(LayerCalls { layer: layer.to_owned(), calls }.arguments());
    let file = bench.folder.join("callgrind.out");
    if !under_callgrind(&work, &file).status()?.success() {
        return Err("the calls failed".into());
    }
    total(&file)
}

/// The same command, with its instructions counted.
fn under_callgrind(command: &Command, file: &Path) -> Command {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", &format!("--callgrind-out-file={}", file.display())])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    valgrind
}

/// The instructions that callgrind has counted.
fn total(file: &Path) -> Result<u64, Failure> {
    let profile = std::fs::read_to_string(file)?;
    let total = profile.lines().find_map(|line| line.strip_prefix("totals: "));
    Ok(total.ok_or("callgrind wrote no total")?.trim().parse()?)
}

/// The instructions of a server's whole life, with these calls for each of some keys.
async fn count(bench: &Bench, calls: &[Call], times: usize) -> Result<u64, Failure> {
    let (port, file) = (free_port(), bench.folder.join("callgrind.out"));
    let mut server = Command::new("redis-server");
    server
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        // Work that runs by time and not by calls is kept small.
        .args(["--save", "", "--hz", "1", "--dynamic-hz", "no"]);
    let mut valgrind = under_callgrind(&server, &file).spawn()?;
    let worked = work(&format!("redis://127.0.0.1:{port}/"), calls, times).await;
    if worked.is_err() {
        valgrind.kill()?;
    }
    valgrind.wait()?;
    worked?;
    total(&file)
}

async fn work(url: &str, calls: &[Call], times: usize) -> Result<(), Failure> {
    let mut redis = patient(url).await?;
    let scripts = Scripts::load(&redis).await?;
    let warm_up = [MutexAcquire, MutexRelease, SemaphoreAcquire, SemaphoreRelease];
    for (pass, calls) in [&warm_up as &[Call], calls].into_iter().enumerate() {
        for call in calls {
            for n in 0..times {
                scripts.command(*call, pass, n).exec_async(&mut redis).await?;
            }
        }
    }
    // The server answers by closing the connection.
    let _ = redis::cmd("SHUTDOWN").arg("NOSAVE").exec_async(&mut redis).await;
    Ok(())
}

/// A server under valgrind takes seconds to start.
async fn patient(url: &str) -> Result<MultiplexedConnection, Failure> {
    for _ in 0..300 {
        if let Ok(redis) = server::connect(url).await {
            return Ok(redis);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    server::connect(url).await
}

/// The hashes of the scripts.
struct Scripts {
    empty: String,
    mutex: [String; 3],
    semaphore: [String; 2],
}

impl Scripts {
    async fn load(redis: &MultiplexedConnection) -> Result<Self, Failure> {
        let load = async |body| script::load(redis, body).await.map(|hash| hash.to_string());
        Ok(Self {
            empty: load("return 1").await?,
            mutex: [
                load(&script::MUTEX_ACQUIRE.body).await?,
                load(&script::MUTEX_RENEW.body).await?,
                load(&script::MUTEX_RELEASE.body).await?,
            ],
            semaphore: [
                load(&script::SEMAPHORE_ACQUIRE.body).await?,
                load(&script::SEMAPHORE_RELEASE.body).await?,
            ],
        })
    }

    /// A call for one key, by the only request for it in this pass.
    fn command(&self, call: Call, pass: usize, n: usize) -> Cmd {
        let id = script::id(&format!("callgrind{pass}"), n as u64);
        let (mutex, semaphore) = (&format!("mutex-{n}"), &format!("semaphore-{n}"));
        let eval = |hash: &String, keys: Vec<String>| {
            let mut eval = redis::cmd("EVALSHA");
            eval.arg(hash).arg(keys.len()).arg(keys);
            eval
        };
        let mut command = match call {
            SetNx => {
                let mut set = redis::cmd("SET");
                set.arg(format!("plain-{n}")).arg(id).arg("NX").arg("PX").arg(TTL_MS);
                return set;
            }
            EmptyScript => return eval(&self.empty, Vec::new()),
            MutexAcquire => eval(&self.mutex[0], script::MUTEX_ACQUIRE.keys(mutex)),
            MutexRenew => eval(&self.mutex[1], script::MUTEX_RENEW.keys(mutex)),
            MutexRelease => eval(&self.mutex[2], script::MUTEX_RELEASE.keys(mutex)),
            SemaphoreAcquire => eval(&self.semaphore[0], script::SEMAPHORE_ACQUIRE.keys(semaphore)),
            SemaphoreRelease => eval(&self.semaphore[1], script::SEMAPHORE_RELEASE.keys(semaphore)),
        };
        command.arg(id);
        match call {
            MutexAcquire => command.arg(TTL_MS).arg(""),
            MutexRenew => command.arg(TTL_MS),
            MutexRelease => &mut command,
            SemaphoreAcquire => command.arg(TTL_MS).arg(8).arg("").arg(script::WAKE),
            _ => command.arg(script::WAKE),
        };
        command
    }
}
