//! Counts the server's instructions for each script, with callgrind.

use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold_tests::server::free_port;
use redis::Cmd;
use redis::aio::MultiplexedConnection;

use self::Call::{
    EmptyScript, MutexAcquire, MutexRelease, MutexRenew, SemaphoreAcquire, SemaphoreRelease, SetNx,
};
use crate::bench::{Bench, progress};
use crate::failure::Failure;
use crate::machine::said_by;
use crate::script;
use crate::server;
use crate::stats::real;
use crate::table::Table;

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
    bench.add(table)
}

/// The instructions of a server's whole life, with these calls for each of some keys.
async fn count(bench: &Bench, calls: &[Call], times: usize) -> Result<u64, Failure> {
    let (port, file) = (free_port(), bench.folder.join("callgrind.out"));
    let mut valgrind = Command::new("valgrind")
        .args(["--tool=callgrind", &format!("--callgrind-out-file={}", file.display())])
        .args(["redis-server", "--bind", "127.0.0.1", "--port", &port.to_string()])
        // Work that runs by time and not by calls is kept small.
        .args(["--save", "", "--hz", "1", "--dynamic-hz", "no"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let worked = work(&format!("redis://127.0.0.1:{port}/"), calls, times).await;
    if worked.is_err() {
        valgrind.kill()?;
    }
    valgrind.wait()?;
    worked?;
    let profile = std::fs::read_to_string(&file)?;
    let total = profile.lines().find_map(|line| line.strip_prefix("totals: "));
    Ok(total.ok_or("callgrind wrote no total")?.trim().parse()?)
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
