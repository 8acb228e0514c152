//! What an error of the driver or the server means: whether the command may
//! have run, whether asking again may help, and what it says of the connection.

use redis::{ErrorKind, RedisError};

use crate::Outcome;
use crate::store::StoreError;

/// What a command says of the connection it was sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The server answered, be it with an error.
    Answered,
    /// No answer in time.
    Silent,
    /// The connection is of no use any more.
    Broken,
}

/// Errors with which a server refuses a command before it runs, for now.
const PASSING: [&str; 8] = [
    "LOADING",
    "BUSY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "READONLY",
    "NOREPLICAS",
    "MISCONF",
];

/// Sorts an error that a command met.
pub(super) fn sort(error: RedisError) -> (Fault, StoreError) {
    match error.code() {
        // After a failover the address may lead to the new master.
        Some("READONLY") => (Fault::Broken, refused(error, true)),
        Some(code) => {
            let is_passing = PASSING.contains(&code);
            (Fault::Answered, refused(error, is_passing))
        }
        None if error.kind() == ErrorKind::AuthenticationFailed => {
            (Fault::Broken, refused(error, false))
        }
        None => {
            let source = Box::new(error);
            (
                Fault::Broken,
                StoreError {
                    outcome: Outcome::Unknown,
                    is_passing: true,
                    is_shut_down: false,
                    source,
                },
            )
        }
    }
}

/// An error that was met before the command was sent.
pub(super) fn not_run(error: RedisError) -> StoreError {
    let is_lasting = matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM"))
        || error.kind() == ErrorKind::AuthenticationFailed;
    refused(error, !is_lasting)
}

/// The command was sent, and had no answer in time.
pub(super) fn silent() -> StoreError {
    let source = Box::new(RedisError::from((ErrorKind::Io, "no answer in time")));
    StoreError { outcome: Outcome::Unknown, is_passing: true, is_shut_down: false, source }
}

/// The runtime that drives the connections has ended.
pub(super) fn shut_down() -> StoreError {
    let source = Box::new(RedisError::from((ErrorKind::Io, "the client has ended")));
    StoreError { outcome: Outcome::Unknown, is_passing: false, is_shut_down: true, source }
}

fn refused(error: RedisError, is_passing: bool) -> StoreError {
    StoreError {
        outcome: Outcome::NotRun,
        is_passing,
        is_shut_down: false,
        source: match advice(&error) {
            Some(advice) => format!("{error}; {advice}").into(),
            None => Box::new(error),
        },
    }
}

/// What to do, where the server's own words do not say it.
pub(super) fn advice(error: &RedisError) -> Option<&'static str> {
    Some(match error.code() {
        Some("NOAUTH") => {
            "the server asks for a password; put it into the URL: redis://:PASSWORD@host"
        }
        Some("WRONGPASS") => "the user name or the password in the URL is wrong",
        Some("NOPERM") => "the user may not do this; docs/keys.md lists the rights it needs",
        Some("OOM") => "the server's memory is full; held locks can still be renewed and released",
        None if error.kind() == ErrorKind::AuthenticationFailed => {
            "the user name or the password in the URL is wrong"
        }
        _ if error.is_connection_refusal() => "is the server running, and is this its address?",
        _ => return None,
    })
}
