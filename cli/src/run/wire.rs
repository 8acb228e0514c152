//! What the tool and its guard say to each other, over a pair of sockets: a line each.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::Pid;

/// The first message to the guard. The user's input goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begin {
    /// When the lease ends, by the clock that both have.
    pub(super) deadline: Duration,
    pub(super) pace: Pace,
    /// The tool's process group.
    pub(super) tool: Pid,
    /// The input is a terminal, and the command's group is in its foreground.
    pub(super) has_terminal: bool,
}

/// How a command is ended before its lease is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// The time between TERM and KILL.
    pub(super) grace: Duration,
    /// How long before the deadline the last process is killed: signals take time.
    pub(super) margin: Duration,
}

impl Pace {
    /// For leases that last so long, unless they are renewed.
    pub(super) fn of(lasts: Duration, grace: Option<Duration>) -> Self {
        let margin = (lasts / 20).clamp(Duration::from_millis(10), Duration::from_millis(500));
        let grace = grace.unwrap_or((lasts / 4).min(Duration::from_secs(5)));
        Self { grace, margin }
    }
}

impl Begin {
    /// Sends it, and this input.
    pub(super) fn send(&self, to: impl AsFd, input: BorrowedFd<'_>) -> io::Result<()> {
        let Self { deadline, pace, tool, has_terminal } = self;
        let line = format!(
            "{} {} {} {} {}\n",
            deadline.as_nanos(),
            pace.grace.as_nanos(),
            pace.margin.as_nanos(),
            tool.as_raw_nonzero(),
            u8::from(*has_terminal),
        );
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        let inputs = [input];
        with.push(SendAncillaryMessage::ScmRights(&inputs));
        let sent = sendmsg(to, &[IoSlice::new(line.as_bytes())], &mut with, SendFlags::empty())?;
        if sent == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Waits for it, and for the input.
    pub(super) fn receive(from: impl AsFd) -> io::Result<(Self, OwnedFd)> {
        let mut line = [0; 256];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut with = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = recvmsg(from, &mut [IoSliceMut::new(&mut line)], &mut with, flags)?;
        let input = with.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        let text = std::str::from_utf8(&line[..got.bytes]).ok();
        let begin = text.and_then(Self::read);
        begin.zip(input).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn read(line: &str) -> Option<Self> {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let (deadline, grace, margin) = (next()?, next()?, next()?);
        let (tool, terminal) = (next()?, next()?);
        Some(Self {
            deadline: Duration::from_nanos(deadline),
            pace: Pace { grace: Duration::from_nanos(grace), margin: Duration::from_nanos(margin) },
            tool: Pid::from_raw(i32::try_from(tool).ok()?)?,
            has_terminal: terminal != 0,
        })
    }
}

/// What the tool tells its guard later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ToGuard {
    /// The lease was renewed, and ends then.
    Deadline(Duration),
    /// The lease is lost.
    Stop,
}

impl ToGuard {
    /// `None` for a line that was cut off, because the guard was stopped for long.
    pub(super) fn read(line: &str) -> Option<Self> {
        if line == "stop" {
            return Some(Self::Stop);
        }
        let at = line.strip_prefix("deadline ")?.parse().ok()?;
        Some(Self::Deadline(Duration::from_nanos(at)))
    }
}

impl fmt::Display for ToGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline(at) => writeln!(f, "deadline {}", at.as_nanos()),
            Self::Stop => writeln!(f, "stop"),
        }
    }
}

/// What the guard tells the tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ToTool {
    /// The guard outlives the signals that it passes on.
    Ready,
    /// The command runs.
    Started,
    /// The command can't be started: the exit code, and why.
    Failed(u8, String),
    /// The command has ended, with this exit code.
    Ended {
        code: u8,
        /// The guard had told it to, because of the lease.
        was_stopped: bool,
    },
    /// No process of its group is left; false if one could not be killed.
    Over(bool),
}

impl ToTool {
    pub(super) fn read(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        Some(match word {
            "ready" => Self::Ready,
            "started" => Self::Started,
            "failed" => {
                let (code, text) = rest.split_once(' ')?;
                Self::Failed(code.parse().ok()?, text.to_owned())
            }
            "ended" => {
                let (code, was_stopped) = rest.split_once(' ')?;
                Self::Ended { code: code.parse().ok()?, was_stopped: was_stopped.parse().ok()? }
            }
            "over" => Self::Over(rest.parse().ok()?),
            _ => return None,
        })
    }
}

impl fmt::Display for ToTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => writeln!(f, "ready"),
            Self::Started => writeln!(f, "started"),
            Self::Failed(code, text) => writeln!(f, "failed {code} {}", text.replace('\n', " ")),
            Self::Ended { code, was_stopped } => writeln!(f, "ended {code} {was_stopped}"),
            Self::Over(is_all) => writeln!(f, "over {is_all}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for said in [
            ToTool::Ready,
            ToTool::Started,
            ToTool::Failed(127, "No such file".to_owned()),
            ToTool::Ended { code: 7, was_stopped: true },
            ToTool::Over(true),
        ] {
            assert_eq!(ToTool::read(said.to_string().trim_end()), Some(said));
        }
        for said in [ToGuard::Deadline(Duration::from_nanos(42)), ToGuard::Stop] {
            assert_eq!(ToGuard::read(said.to_string().trim_end()), Some(said));
        }
        assert_eq!(ToGuard::read("deadline 12deadline 34"), None);
    }
}
