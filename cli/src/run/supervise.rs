//! The tool's side of a running command: it keeps the guard informed, passes signals on, and kills
//! the command itself if the guard fails to.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::Duration;

use leasehold::{Lease, LossReason};
use rustix::process::{Pid, Signal, getpgrp, kill_process_group};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net;

use super::clock;
use super::group::hand_terminal_to;
use super::signals::Signals;
use super::wire::{Begin, Pace, ToGuard, ToTool};

/// How a command ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// With this exit code.
    Exited(u8),
    /// It was ended, because the lease was lost, or about to end.
    Stopped(Option<LossReason>),
    /// It was not started: the exit code, and why.
    NotStarted(u8, String),
    /// The guard ended first. The command was killed.
    Unguarded,
}

/// A guard, and the command that it runs.
#[derive(Debug)]
pub(super) struct Guarded {
    guard: Child,
    /// The group of both.
    group: Pid,
    lines: Lines<BufReader<net::UnixStream>>,
    /// The same socket. It does not block either.
    writer: UnixStream,
    pace: Pace,
    /// When the lease ends, as the guard knows it.
    deadline: Duration,
    state: State,
    ended: Option<(u8, bool)>,
    /// Not all of the group could be killed.
    pub(super) has_rest: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Starting,
    Running,
    Killed,
}

impl Guarded {
    /// Takes over a guard that has just been started, with its end of the pair.
    pub(super) fn new(guard: Child, control: UnixStream, pace: Pace) -> io::Result<Self> {
        control.set_nonblocking(true)?;
        let writer = control.try_clone()?;
        let reader = net::UnixStream::from_std(control)?;
        Ok(Self {
            group: Pid::from_child(&guard),
            guard,
            lines: BufReader::new(reader).lines(),
            writer,
            pace,
            deadline: Duration::ZERO,
            state: State::Starting,
            ended: None,
            has_rest: false,
        })
    }

    /// Waits until the command and its group have ended.
    pub(super) async fn supervise(&mut self, lease: &Lease, signals: &mut Signals) -> Ending {
        let mut pending = Vec::new();
        let mut lost = None;
        let mut failed = None;
        loop {
            self.follow(lease);
            let sleep = self.sleep();
            tokio::select! {
                biased;
                line = self.lines.next_line() => match said(line) {
                    Some(ToTool::Ready) => {
                        if lost.is_some() || self.begin().is_err() {
                            self.signal(Signal::KILL);
                            break;
                        }
                    }
                    Some(ToTool::Started) => {
                        self.state = State::Running;
                        for signal in pending.drain(..) {
                            self.signal(signal);
                        }
                    }
                    Some(ToTool::Failed(code, text)) => {
                        failed = Some(Ending::NotStarted(code, text));
                    }
                    Some(ToTool::Ended { code, was_stopped }) => {
                        self.ended = Some((code, was_stopped));
                    }
                    Some(ToTool::Over(is_all)) => self.has_rest = !is_all,
                    None => break,
                },
                reason = lease.lost(), if lost.is_none() && self.ended.is_none() => {
                    lost = Some(reason);
                    if self.state != State::Starting {
                        self.tell(&ToGuard::Stop);
                    }
                }
                signal = signals.recv() => match self.state {
                    State::Starting => pending.push(signal),
                    _ => self.signal(signal),
                },
                () = tokio::time::sleep(sleep) => {}
            }
        }
        // The guard has ended. Nothing of the group may outlive the lock.
        if failed.is_none() && (self.ended.is_none() || self.has_rest) {
            self.signal(Signal::KILL);
        }
        let _ = self.guard.wait();
        match (failed, self.ended, lost) {
            (Some(failed), ..) => failed,
            (_, Some((code, false)), None) => Ending::Exited(code),
            (_, Some(_), reason) => Ending::Stopped(reason),
            (_, None, Some(reason)) => Ending::Stopped(Some(reason)),
            (_, None, None) if self.state == State::Killed => Ending::Stopped(None),
            (_, None, None) => Ending::Unguarded,
        }
    }

    /// Lets the guard start the command.
    fn begin(&self) -> io::Result<()> {
        let has_terminal = hand_terminal_to(self.group);
        let (deadline, pace) = (self.deadline, self.pace);
        let begin = Begin { deadline, pace, tool: getpgrp(), has_terminal };
        begin.send(&self.writer, std::os::fd::AsFd::as_fd(&io::stdin()))
    }

    /// Tells the guard a new deadline. After the last, kills the group: the guard may be stopped.
    fn follow(&mut self, lease: &Lease) {
        // Read first: what is added to it may only be too short.
        let now = clock::now();
        let deadline = now + lease.remaining();
        if lease.is_held() && deadline > self.deadline + Duration::from_millis(1) {
            self.deadline = deadline;
            if self.state != State::Starting {
                self.tell(&ToGuard::Deadline(deadline));
            }
        }
        if self.state != State::Killed && self.ended.is_none() && now >= self.last() {
            self.state = State::Killed;
            self.signal(Signal::KILL);
        }
    }

    /// When this process kills the group itself: after the guard should have, before the lease
    /// ends.
    fn last(&self) -> Duration {
        self.deadline.saturating_sub(self.pace.margin / 2)
    }

    fn sleep(&self) -> Duration {
        let longest = (self.pace.grace / 4).clamp(Duration::from_millis(5), Duration::from_secs(1));
        let left = self.last().saturating_sub(clock::now());
        if self.state == State::Killed { longest } else { left.min(longest) }
    }

    /// Sends a signal to the group. Its id is not given away before `guard` was waited for.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
    }

    /// A guard that is stopped reads nothing: what does not fit is not sent.
    fn tell(&self, said: &ToGuard) {
        let _ = (&self.writer).write(said.to_string().as_bytes());
    }
}

/// What the guard says. `None` after its end.
fn said(line: io::Result<Option<String>>) -> Option<ToTool> {
    line.ok().flatten().as_deref().and_then(ToTool::read)
}

/// Starts the guard of a command.
pub(super) fn start_guard(mut command: Command, pace: Pace) -> io::Result<Guarded> {
    let (ours, theirs) = UnixStream::pair()?;
    let guard = command.stdin(std::os::fd::OwnedFd::from(theirs)).spawn()?;
    // It has the guard's end of the pair, which would hide that the guard has ended.
    drop(command);
    Guarded::new(guard, ours, pace)
}
