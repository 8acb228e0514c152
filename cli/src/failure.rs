//! Why a command of the tool failed, and its exit code.

use std::io;

use leasehold::LockError;
use serde_json::json;

use super::text::{plain, short, tell};

/// The exit codes. The documentation lists them: docs/guide/command-line.md.
pub(super) mod code {
    pub(crate) const NOTHING_DONE: u8 = 1;
    pub(crate) const HELD: u8 = 120;
    pub(crate) const LOST: u8 = 121;
    pub(crate) const DONE: u8 = 122;
    pub(crate) const STORE: u8 = 123;
    pub(crate) const FAILED: u8 = 125;
    pub(crate) const NOT_STARTED: u8 = 126;
    pub(crate) const NOT_FOUND: u8 = 127;
}

/// Why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The exit code, its name in JSON, and a text for people.
    Said { code: u8, name: &'static str, text: String },
    /// Nobody reads the output any more: no failure, `head` has seen enough.
    ClosedPipe,
}

impl Failure {
    pub(super) fn new(code: u8, text: impl Into<String>) -> Self {
        let name = match code {
            code::NOTHING_DONE => "not_held",
            code::HELD => "held",
            code::LOST => "lost",
            code::DONE => "done",
            code::STORE => "store",
            code::NOT_STARTED => "not_started",
            code::NOT_FOUND => "not_found",
            _ => "failed",
        };
        Self::Said { code, name, text: text.into() }
    }

    /// Says this, too.
    #[cfg(unix)]
    pub(super) fn add(&mut self, more: &str) {
        if let Self::Said { text, .. } = self {
            text.push_str(more);
        }
    }

    /// Says it on stderr, and gives the exit code.
    pub(super) fn report(&self, json: bool) -> u8 {
        match self {
            Self::Said { code, name, text } if json => {
                tell(&json!({ "error": name, "message": text, "exit_code": code }).to_string());
                *code
            }
            Self::Said { code, text, .. } => {
                tell(&format!("leasehold: {}", plain(text)));
                *code
            }
            Self::ClosedPipe => 0,
        }
    }

    #[cfg(unix)]
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Said { code, .. } => *code,
            Self::ClosedPipe => 0,
        }
    }

    /// The command has succeeded, and it is not known whether that counts.
    pub(super) fn not_recorded(error: &LockError) -> Self {
        Self::new(code::LOST, text(error))
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        let code = match &error {
            LockError::Busy { .. } | LockError::TimedOut { .. } | LockError::Closed { .. } => {
                code::HELD
            }
            LockError::Lost { .. } => code::LOST,
            LockError::Done { .. } => code::DONE,
            LockError::Store { .. } | LockError::Quorum { .. } => code::STORE,
            _ => code::FAILED,
        };
        Self::new(code, text(&error))
    }
}

/// An error in the words of this tool, where the library speaks of its own options.
fn text(error: &LockError) -> String {
    match error {
        LockError::Busy { key, retry_after, kept, held_by_caller: false, .. } => {
            let (left, why) = (short(*retry_after), "without --wait, a call does not wait");
            if *kept {
                return format!("`{key}` is kept for another {left}, and nobody holds it; {why}");
            }
            format!(
                "`{key}` is held by others; {why}; a holder that does not renew its lease loses it \
                 within {left}"
            )
        }
        LockError::TimedOut { key, waited, held_by_caller: false, .. } => {
            format!("`{key}` was held by others, or others were ahead, for {}", short(*waited))
        }
        LockError::Done { key, retry_after, .. } => format!(
            "the work of `{key}` has succeeded, and counts as done for another {}; `leasehold show` \
             says how to let it run again",
            short(*retry_after)
        ),
        LockError::Store { .. } | LockError::Quorum { .. } => {
            format!("{error}; check --url or REDIS_URL, and ask `leasehold doctor`")
        }
        _ => error.to_string(),
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::ClosedPipe;
        }
        Self::new(code::FAILED, error.to_string())
    }
}
