//! The process group of a command: its signals, its terminal, and whether it is empty.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpgrp, kill_process_group, setpgid, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The group of the guard and its command.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: Pid,
    /// The tool's group.
    tool: Pid,
    /// The terminal, if the group is in its foreground.
    terminal: Option<OwnedFd>,
    has_left: bool,
}

impl Group {
    /// The group of this process, which is its first.
    pub(super) fn of_guard(tool: Pid, terminal: Option<OwnedFd>) -> Self {
        Self { id: getpgrp(), tool, terminal, has_left: false }
    }

    /// Sends a signal to each process of the group.
    pub(super) fn signal(&self, signal: Signal) {
        // It may be empty.
        let _ = kill_process_group(self.id, signal);
    }

    /// Gives the terminal back, and goes over to the tool's group, so that this process neither
    /// dies of the group's KILL nor counts as one of its processes. The group's id stays this
    /// process's, so nobody else gets it. It fails if the tool is gone.
    pub(super) fn leave(&mut self) {
        if self.has_left {
            return;
        }
        if let Some(terminal) = self.terminal.take() {
            // Only the foreground group may give it away. A shell that was killed may have put
            // another group there.
            if tcgetpgrp(&terminal) == Ok(self.id) {
                let _ = tcsetpgrp(&terminal, self.tool);
            }
        }
        self.has_left = setpgid(None, Some(self.tool)).is_ok();
    }

    /// True if no process of the group is left. False if this process belongs to it.
    pub(super) fn is_empty(&self) -> bool {
        self.has_left && test_kill_process_group(self.id) == Err(Errno::SRCH)
    }
}

/// Puts a group in the foreground of the terminal, if this process may: its input and its output
/// are a terminal's, and its own group is in the foreground. Otherwise Ctrl-C goes to the tool,
/// which passes it on.
pub(super) fn hand_terminal_to(group: Pid) -> bool {
    use std::io::IsTerminal;

    let input = io::stdin();
    input.is_terminal()
        && io::stdout().is_terminal()
        && tcgetpgrp(&input) == Ok(getpgrp())
        && tcsetpgrp(&input, group).is_ok()
}
