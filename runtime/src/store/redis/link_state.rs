//! The state of one connection: its name on the server, and whether it still answers.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::script::Form;

/// The state of one connection.
#[derive(Debug, Default)]
pub(super) struct LinkState {
    /// Its name on the server, if the user may ask for it.
    pub(super) name: OnceLock<LinkName>,
    /// It carries hints.
    pub(super) carries_hints: bool,
    /// Since when the server is up, if that is known.
    pub(super) up_since: OnceLock<Option<Instant>>,
    pub(super) is_abandoned: AtomicBool,
    /// The server refuses scripts with flags.
    refuses_flags: AtomicBool,
    /// When the oldest command without an answer was sent; 0 if all are answered.
    pub(super) silent_since: AtomicU64,
    /// When the last answer came.
    pub(super) answered: AtomicU64,
}

impl LinkState {
    pub(super) fn new(carries_hints: bool) -> Self {
        Self { carries_hints, ..Self::default() }
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed)
    }

    /// The form in which the server takes scripts, as far as is known.
    pub(super) fn form(&self) -> Form {
        if self.refuses_flags.load(Ordering::Relaxed) { Form::Plain } else { Form::Flagged }
    }

    /// From now on, scripts are sent without flags on this connection. The next one may lead to
    /// another server.
    pub(super) fn leave_out_flags(&self) {
        self.refuses_flags.store(true, Ordering::Relaxed);
    }

    /// The latest time at which the server may have started; `None` if it did not say.
    pub(super) fn up_since(&self) -> Option<Instant> {
        self.up_since.get().copied().flatten()
    }
}

/// A connection's name on a server. The number alone is not enough: after a restart the
/// server gives the same number to another client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkName {
    pub(super) id: String,
    pub(super) address: String,
    /// The server that gave it: another server has names of its own.
    pub(super) server: String,
}

impl LinkName {
    /// Reads it from the answer to `CLIENT INFO`.
    pub(super) fn parse(info: &str, server: &str) -> Option<Self> {
        let field = |name| info.split(' ').find_map(|field| field.strip_prefix(name));
        let (id, address) = (field("id=")?.to_owned(), field("addr=")?.to_owned());
        Some(Self { id, address, server: server.to_owned() })
    }
}
