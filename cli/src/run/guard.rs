//! The process that starts the command, and ends it in time, whatever becomes of the tool.
//!
//! It is the first of the command's process group. The tool tells it each new deadline of the
//! lease. It ends the group before the deadline, also if the tool is stopped; and at once if the
//! tool says so, or is gone.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::signal::unix::{SignalKind, signal};

use super::super::failure::{Failure, code};
use super::clock;
use super::group::Group;
use super::signals::{PASSED_ON, Signals};
use super::wire::{Begin, Pace, ToGuard, ToTool};

/// Timers stop while the machine is suspended; the lease goes on.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);
/// How often it looks whether the group is empty.
const SHORT: Duration = Duration::from_millis(5);
/// How long killed processes may take to go.
const DYING: Duration = Duration::from_secs(2);

/// Runs a command for the tool that started this process.
pub(in super::super) async fn guard(command: &[OsString]) -> Result<u8, Failure> {
    // It passes these on to its own group, and outlives them.
    let mut signals = Signals::handle(&PASSED_ON)?;
    let mut suspend = Signals::handle(&[Signal::TSTP])?;
    let mut ended = signal(SignalKind::child())?;
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let told = (&control).write_all(ToTool::Ready.to_string().as_bytes());
    let (begin, input) = told.and_then(|()| Begin::receive(&control)).map_err(|error| {
        let text = format!("`leasehold run` starts this command: {error}");
        Failure::new(code::FAILED, text)
    })?;
    become_subreaper();
    let terminal = if begin.has_terminal { input.try_clone().ok() } else { None };
    let group = Group::of_guard(begin.tool, terminal);
    control.set_nonblocking(true)?;
    let writer = control.try_clone()?;
    let reader = tokio::net::UnixStream::from_std(control)?;
    let Some((program, arguments)) = command.split_first() else { return Ok(code::FAILED) };
    let started = Command::new(program).args(arguments).stdin(Stdio::from(input)).spawn();
    let child = match started {
        Ok(child) => child,
        Err(error) => {
            let mut group = group;
            group.leave();
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            let code = if is_missing { code::NOT_FOUND } else { code::NOT_STARTED };
            say(&writer, &ToTool::Failed(code, error.to_string()));
            return Ok(code);
        }
    };
    say(&writer, &ToTool::Started);
    let pid = Pid::from_child(&child);
    let Begin { deadline, pace, .. } = begin;
    let mut guard =
        Guard { group, pid, pace, deadline, writer, phase: Phase::Running, has_ended: false };
    let mut lines = BufReader::new(reader).lines();
    let mut is_alone = false;
    while guard.step() {
        tokio::select! {
            line = lines.next_line(), if !is_alone => {
                if let Ok(Some(line)) = line {
                    guard.hear(&line);
                } else {
                    // The tool is gone.
                    is_alone = true;
                    guard.stop();
                }
            }
            _ = ended.recv() => {}
            _ = signals.recv() => {}
            // The lease would end while the command sleeps.
            _ = suspend.recv() => guard.group.signal(Signal::CONT),
            () = tokio::time::sleep(guard.sleep()) => {}
        }
    }
    Ok(0)
}

/// Processes that lose their parent become this one's children, so that somebody waits for them
/// in a container, too.
fn become_subreaper() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[derive(Debug)]
struct Guard {
    group: Group,
    /// The command's process.
    pid: Pid,
    pace: Pace,
    deadline: Duration,
    writer: UnixStream,
    phase: Phase,
    /// The command has ended; others of its group may be left.
    has_ended: bool,
}

/// What the group was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// It had TERM, and gets KILL then.
    Stopping(Duration),
    /// It had KILL, and should be gone by then.
    Killed(Duration),
}

impl Guard {
    /// Does what is due. False if nothing is left to guard.
    fn step(&mut self) -> bool {
        let was_stopped = self.phase != Phase::Running;
        if let Some(code) = self.reap() {
            self.has_ended = true;
            say(&self.writer, &ToTool::Ended { code, was_stopped });
            self.group.leave();
        }
        if self.has_ended && self.group.is_empty() {
            say(&self.writer, &ToTool::Over(true));
            return false;
        }
        let now = clock::now();
        match self.phase {
            Phase::Running if self.has_ended || now >= self.due() => self.stop(),
            Phase::Stopping(until) if now >= until => {
                self.group.leave();
                // If it could not leave, because the tool is gone, this is its own end.
                self.group.signal(Signal::KILL);
                self.phase = Phase::Killed(now + DYING);
            }
            Phase::Killed(until) if now >= until => {
                say(&self.writer, &ToTool::Over(false));
                return false;
            }
            _ => {}
        }
        true
    }

    /// Reads a line of the tool's.
    fn hear(&mut self, line: &str) {
        match ToGuard::read(line) {
            Some(ToGuard::Deadline(at)) => self.deadline = self.deadline.max(at),
            Some(ToGuard::Stop) => self.stop(),
            None => {}
        }
    }

    /// Ends the group: TERM now, KILL after the grace, or when the lease ends.
    fn stop(&mut self) {
        if self.phase == Phase::Running {
            self.group.signal(Signal::TERM);
            // A stopped process gets its TERM when it goes on.
            self.group.signal(Signal::CONT);
            let last = self.deadline.saturating_sub(self.pace.margin);
            self.phase = Phase::Stopping((clock::now() + self.pace.grace).min(last));
        }
    }

    /// When something is to be done next, unless something happens before.
    fn due(&self) -> Duration {
        match self.phase {
            Phase::Running => self.deadline.saturating_sub(self.pace.margin + self.pace.grace),
            Phase::Stopping(until) | Phase::Killed(until) => until,
        }
    }

    fn sleep(&self) -> Duration {
        let looks = self.has_ended || matches!(self.phase, Phase::Killed(_));
        let longest = if looks { SHORT } else { LONGEST_SLEEP };
        self.due().saturating_sub(clock::now()).min(longest)
    }

    /// Waits for the processes that have ended, and gives the exit code if the command has.
    fn reap(&self) -> Option<u8> {
        let mut code = None;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.pid {
                code = exit_code(status);
            }
        }
        code
    }
}

/// A process's exit code, as shells have it.
fn exit_code(status: WaitStatus) -> Option<u8> {
    let signal = status.terminating_signal().map(|signal| 128 + signal);
    let code = status.exit_status().or(signal)?;
    Some(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Tells the tool. If it is gone, nobody listens.
fn say(mut to: &UnixStream, said: &ToTool) {
    let _ = to.write(said.to_string().as_bytes());
}
