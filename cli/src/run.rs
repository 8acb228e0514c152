//! `run`: a command under a lock.
//!
//! The tool holds the lock. A second process, the guard, runs the command and ends it before the
//! lease does, even if the tool is stopped or killed. See docs/guide/command-line.md.

mod acquire;
mod clock;
mod group;
mod guard;
mod server_clock;
mod signals;
mod supervise;
mod wire;

use std::convert::Infallible;
use std::env;
use std::ffi::OsStr;
use std::future::pending;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use leasehold::{Lease, LockError, LockKind, Locks, LossReason};
use leasehold_console::RUN;

use self::acquire::acquire;
pub(super) use self::guard::guard;
use self::signals::{PASSED_ON, Signals};
use self::supervise::{Ending, start_guard};
use self::wire::Pace;
use super::args::{Run, Server, Waiting};
use super::failure::{Failure, code};
use super::text::{client, counted, plain, short, tell, warn};

/// How long a call waits before it says who holds the lock.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs a command under a lock, and gives the exit code.
pub(super) async fn run(server: &Server, run: &Run, json: bool) -> Result<u8, Failure> {
    let pace = pace(run)?;
    let mut signals = Signals::handle(&PASSED_ON)?;
    let locks = connect(server, run).await?;
    let call = SystemTime::now();
    let acquired = tokio::select! {
        acquired = acquire(&locks, run) => acquired,
        never = say_who_holds(&locks, run, json) => match never {},
        signal = signals.recv() => {
            // Its place in the queue goes to the next.
            locks.shutdown().await;
            return Ok(u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX));
        }
    };
    if let Some(text) = server_clock::warning(run, call, &acquired) {
        // Also if the call is quiet: nobody else would tell.
        warn(&text, json);
    }
    let lease = match acquired {
        Ok(lease) => lease,
        Err(error) => {
            let is_quiet = run.quiet && (error.is_held_by_another() || error.is_done());
            let is_held = error.is_held_by_another();
            let mut failure = Failure::from(error);
            if is_quiet {
                return Ok(failure.code());
            }
            if is_held && let Some(holder) = holder(&locks, run).await {
                failure.add(&format!("; {holder}"));
            }
            return Err(failure);
        }
    };
    if lease.remaining() < (pace.grace + pace.margin) * 2 {
        // A grant that a release has offered lasts for a second, until it is confirmed.
        lease.renew().await?;
    }
    let command = guard_command(server, run, &lease);
    let mut guarded = start_guard(command, pace).map_err(|error| {
        Failure::new(code::FAILED, format!("the guard of the command can't be started: {error}"))
    })?;
    let ending = guarded.supervise(&lease, &mut signals).await;
    if guarded.has_rest {
        warn("a process of the command could not be killed", json);
    }
    finish(run, lease, ending, json).await
}

/// Says, once the call has waited for a while, who holds the lock.
async fn say_who_holds(locks: &Locks, run: &Run, json: bool) -> Infallible {
    tokio::time::sleep(PATIENCE).await;
    if let Some(holder) = holder(locks, run).await.filter(|_| !run.quiet) {
        let text = format!("waiting for `{}`: {holder}", run.key);
        if json {
            tell(&serde_json::json!({ "waiting": run.key, "message": text }).to_string());
        } else {
            tell(&format!("leasehold: {}", plain(&text)));
        }
    }
    pending().await
}

/// Who has held the lock longest. `None` if nobody does, or the store does not say.
async fn holder(locks: &Locks, run: &Run) -> Option<String> {
    let lock = locks.inspect(run.key.as_str()).await.ok()?;
    if lock.kind == Some(LockKind::Foreign) {
        return Some("it is not a lock: `leasehold show` says what to do".to_owned());
    }
    let holder = lock.longest_holder()?;
    let others = match lock.held - 1 {
        0 => String::new(),
        others => format!(" and {}", counted(others, "other")),
    };
    let time = holder.held_for.map_or_else(String::new, |time| format!(" for {}", short(time)));
    let note = holder.note.as_ref().map_or_else(String::new, |note| format!(" ({note})"));
    Some(format!("held by {}{others}{time}{note}", client(holder.client.as_ref())))
}

/// A call that waits outlives an outage; one that does not says at once what is wrong.
async fn connect(server: &Server, run: &Run) -> Result<Locks, Failure> {
    if run.wait == Waiting::For(Duration::ZERO) {
        return server.connect(&service(run)).await;
    }
    server.connect_lazy(&service(run))
}

/// What `ls` shows as the holder's service: the command's name, and that this tool runs it.
fn service(run: &Run) -> String {
    let program = run.command.first().map(Path::new).and_then(Path::file_name);
    format!("{RUN}{}", program.unwrap_or(OsStr::new("?")).to_string_lossy())
}

fn pace(run: &Run) -> Result<Pace, Failure> {
    let lasts = run.max_hold.map_or(run.ttl, |most| most.min(run.ttl));
    if run.grace.is_some_and(|grace| grace > lasts / 2) {
        let text = "`--grace` is at most half of `--ttl` and of `--max-hold`: between TERM and \
                    KILL the lock is not renewed";
        return Err(Failure::new(code::FAILED, text));
    }
    Ok(Pace::of(lasts, run.grace))
}

/// The guard: this program once more, first of a process group of its own.
fn guard_command(server: &Server, run: &Run, lease: &Lease) -> Command {
    // An update may have replaced the file meanwhile.
    let program = env::current_exe().ok().filter(|path| path.exists());
    let mut command = Command::new(program.unwrap_or_else(|| PathBuf::from("/proc/self/exe")));
    command.arg0("leasehold").arg("guard").arg("--").args(&run.command).process_group(0);
    let deadline = SystemTime::now() + lease.remaining();
    command
        .env("LEASEHOLD_KEY", &run.key)
        .env("LEASEHOLD_PREFIX", &server.prefix)
        .env("LEASEHOLD_DEADLINE", humantime::format_rfc3339_millis(deadline).to_string());
    // The command may itself run under another lock.
    match lease.fence() {
        Ok(fence) => command.env("LEASEHOLD_FENCE", fence.to_string()),
        Err(_) => command.env_remove("LEASEHOLD_FENCE"),
    };
    match lease.tick() {
        Some(tick) => {
            let began = humantime::format_rfc3339_millis(tick.began).to_string();
            command.env("LEASEHOLD_TICK", began)
        }
        None => command.env_remove("LEASEHOLD_TICK"),
    };
    command
}

/// Releases the lock, and gives the exit code.
async fn finish(run: &Run, lease: Lease, ending: Ending, json: bool) -> Result<u8, Failure> {
    let code = match ending {
        Ending::Exited(code) => code,
        Ending::Stopped(reason) => {
            let why = why(run, &lease, reason);
            // It may still be held, for as long as the grace.
            let _ = lease.release().await;
            let text = format!("`{}` was lost: {why}; the command was ended", run.key);
            return Err(Failure::new(code::LOST, text));
        }
        Ending::NotStarted(code, text) => {
            let _ = lease.release().await;
            let program = run.command.first().map(|it| it.to_string_lossy()).unwrap_or_default();
            return Err(Failure::new(code, format!("{program}: {text}")));
        }
        Ending::Unguarded => {
            let _ = lease.release().await;
            let text = "the guard process was killed, and the command with it";
            return Err(Failure::new(code::FAILED, text));
        }
    };
    if code == 0 && (run.once.is_some() || run.once_per.is_some() || run.schedule.is_some()) {
        // Its success is the reason for the lock, so that it is not recorded is a failure.
        return match lease.complete().await {
            Ok(()) => Ok(0),
            // Whatever the reason: whoever runs it again runs the work twice.
            Err(error) => {
                warn("the command has succeeded, but that does not count as done", json);
                Err(Failure::not_recorded(&error))
            }
        };
    }
    match lease.release().await {
        // The command had ended before that.
        Ok(_) | Err(LockError::Lost { .. }) => {}
        Err(error) => {
            warn(&format!("the lock was not released, and its TTL ends it: {error}"), json);
        }
    }
    Ok(code)
}

fn why(run: &Run, lease: &Lease, reason: Option<LossReason>) -> String {
    match reason {
        Some(reason) => reason.to_string(),
        None if run.max_hold.is_some() && lease.is_held() => LossReason::MaxHold.to_string(),
        None => LossReason::Expired.to_string(),
    }
}
