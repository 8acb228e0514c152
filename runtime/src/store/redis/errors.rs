//! Classifies errors of the driver and the server: may the command have run, may a retry
//! help, and is the connection still of use?

use std::fmt;
use std::time::Duration;

use redis::{ErrorKind, RedisError, RedisResult, Value};
use tokio::time::timeout;

use super::script_errors;
use crate::core::error::Outcome;
use crate::store::StoreError;

/// The state of a connection, as a command's answer shows it, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LinkOutcome {
    /// The server answered, perhaps with an error.
    Answered,
    /// No answer came in time.
    Silent,
    /// The connection is of no more use.
    Broken,
}

/// With these a server refuses a command before it runs, and a retry may help.
const PASSING: [&str; 7] =
    ["LOADING", "BUSY", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF", "OOM"];

/// With these a server refuses a command before it runs, and no retry helps.
const LASTING: [&str; 6] = ["NOSCRIPT", "NOAUTH", "WRONGPASS", "CROSSSLOT", "MOVED", "ASK"];

/// With these words a proxy, or a managed server whose quota is used up, refuses a command before it runs;
/// and whether a retry may help.
const REFUSED_BY_OTHERS: [(&str, bool); 5] = [
    ("max number of clients", true),
    ("no upstream host", true),
    ("max daily request limit exceeded", false),
    ("max requests limit exceeded", false),
    ("max request size exceeded", false),
];

const MOVING: &str = "the lock's slot is migrating to another node; if the migration is stuck, run \
                      `redis-cli --cluster fix`";

/// Classifies the error of a command.
pub(super) fn classify(error: RedisError) -> (LinkOutcome, StoreError) {
    let error = script_errors::of_command(error);
    if let Some(is_passing) = refused_by_others(&error) {
        return (LinkOutcome::Answered, refused(error, is_passing));
    }
    match error.code() {
        // The server is a replica: after a failover the address may lead to the new master.
        Some("READONLY" | "MASTERDOWN") => (LinkOutcome::Broken, refused(error, true)),
        Some(code) if PASSING.contains(&code) => (LinkOutcome::Answered, refused(error, true)),
        Some(code) if LASTING.contains(&code) => (LinkOutcome::Answered, refused(error, false)),
        // Only a script that has written nothing can be killed.
        Some("ERR") if says(&error, "Script killed") => {
            (LinkOutcome::Answered, refused(error, true))
        }
        // The user may not call the script at all.
        Some("NOPERM") if !says(&error, "script") => (LinkOutcome::Answered, refused(error, false)),
        // A script that failed halfway, for lack of a right or at a key of another type, has
        // written what came before. Where that was is in the text, but not what the script had
        // written by then. And a proxy may answer anything.
        Some(_) => {
            let error = StoreError { outcome: Outcome::Unknown, ..refused(error, false) };
            (LinkOutcome::Answered, error)
        }
        None if error.kind() == ErrorKind::AuthenticationFailed => {
            (LinkOutcome::Broken, refused(error, false))
        }
        None => (LinkOutcome::Broken, unknown(error)),
    }
}

/// Classifies the answer to a command.
pub(super) fn classify_answer(
    answer: RedisResult<Value>,
) -> (LinkOutcome, Result<Value, StoreError>) {
    match answer.and_then(Value::extract_error) {
        Ok(answer) => (LinkOutcome::Answered, Ok(answer)),
        Err(error) => {
            let (outcome, error) = classify(error);
            (outcome, Err(error))
        }
    }
}

/// Classifies an error again for a command on a cluster. If the slot still migrates after some
/// attempts, a later retry may help.
#[cfg(feature = "cluster")]
pub(super) fn on_cluster(error: StoreError) -> StoreError {
    match redis_error(&error).map(|it| (it.code(), it)) {
        Some((Some("MOVED" | "ASK"), refusal)) => {
            let (error_of, advice) = (refusal.clone(), Some(MOVING));
            let source = Box::new(Detailed { server: None, error: error_of, advice });
            StoreError { source, is_passing: true, ..error }
        }
        // The script has emptied a key, so the server takes it for one that has migrated. The
        // writes before that stand. At the next attempt the slot has migrated.
        Some((Some("ERR"), refusal)) if says(refusal, "non local key") => unknown(refusal.clone()),
        _ => error,
    }
}

/// The error of the server or the driver, without what we add.
pub(super) fn redis_error(error: &StoreError) -> Option<&RedisError> {
    let detailed = || Some(&error.source.downcast_ref::<Detailed>()?.error);
    error.source.downcast_ref().or_else(detailed)
}

/// The same error, whose text also names the server.
pub(super) fn at_server(server: &str, error: StoreError) -> StoreError {
    let StoreError { outcome, is_passing, is_shut_down, source } = error;
    let source = match source.downcast::<Detailed>() {
        Ok(detailed) => Box::new(Detailed { server: Some(server.to_owned()), ..*detailed }),
        Err(source) => match source.downcast::<RedisError>() {
            Ok(error) => {
                Box::new(Detailed { server: Some(server.to_owned()), error: *error, advice: None })
            }
            Err(source) => return StoreError { outcome, is_passing, is_shut_down, source },
        },
    };
    StoreError { outcome, is_passing, is_shut_down, source }
}

/// Classifies an error from before the command was sent.
pub(super) fn not_run(error: RedisError) -> StoreError {
    let is_lasting = matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM" | "DENIED"))
        || error.kind() == ErrorKind::AuthenticationFailed;
    refused(error, !is_lasting)
}

/// The error of a command that had no answer in time.
pub(super) fn timed_out() -> StoreError {
    unknown(no_answer())
}

/// What no server has said.
pub(super) fn no_answer() -> RedisError {
    let text = "no answer in time; is the server overloaded, or cut off?";
    std::io::Error::new(std::io::ErrorKind::TimedOut, text).into()
}

/// Ends work that has had no answer within `limit`.
pub(super) async fn in_time<T>(
    limit: Duration,
    work: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    timeout(limit, work).await.unwrap_or_else(|_| Err(no_answer()))
}

/// The error of a command that we did not send; a retry may help.
pub(super) fn not_sent(problem: &str) -> StoreError {
    StoreError {
        outcome: Outcome::NotRun,
        is_passing: true,
        is_shut_down: false,
        source: problem.into(),
    }
}

/// The error of a command after the runtime of the connections has ended.
pub(super) fn shutdown() -> StoreError {
    let error = unknown((ErrorKind::Io, "the client has ended").into());
    StoreError { is_passing: false, is_shut_down: true, ..error }
}

/// The error of a command that may have run; a retry may help.
fn unknown(error: RedisError) -> StoreError {
    let source = Box::new(error);
    StoreError { outcome: Outcome::Unknown, is_passing: true, is_shut_down: false, source }
}

/// The error of a command that the server refused before it ran.
fn refused(error: RedisError, is_passing: bool) -> StoreError {
    StoreError {
        outcome: Outcome::NotRun,
        is_passing,
        is_shut_down: false,
        source: match advice(&error) {
            Some(advice) => Box::new(Detailed { server: None, error, advice: Some(advice) }),
            None => Box::new(error),
        },
    }
}

/// An error, with what its own text does not say: which server it is about, and what to do.
#[derive(Debug)]
struct Detailed {
    server: Option<String>,
    error: RedisError,
    advice: Option<&'static str>,
}

impl fmt::Display for Detailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(server) = &self.server {
            write!(f, "{server}: ")?;
        }
        self.error.fmt(f)?;
        self.advice.map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

/// Its text contains the driver's error, which is therefore no source.
impl std::error::Error for Detailed {}

/// Whether a retry may help, if a proxy or a managed server has refused the command before it ran.
fn refused_by_others(error: &RedisError) -> Option<bool> {
    // A proxy's error may have no code: then its first word is taken for one.
    let text = format!("{} {}", error.code()?, error.detail().unwrap_or_default());
    let found = REFUSED_BY_OTHERS.iter().find(|(words, _)| text.contains(words));
    found.map(|(_, is_passing)| *is_passing)
}

/// Returns true if the server lacks a command, or its user a right. A quota that is used up is neither.
pub(super) fn is_lacking(error: &RedisError) -> bool {
    matches!(error.code(), Some("NOPERM" | "NOPROTO" | "ERR")) && refused_by_others(error).is_none()
}

fn says(error: &RedisError, words: &str) -> bool {
    error.detail().is_some_and(|text| text.contains(words))
}

/// Advice for an error whose own text does not say what to do.
pub(super) fn advice(error: &RedisError) -> Option<&'static str> {
    Some(match error.code() {
        Some("NOAUTH") => {
            "the server asks for a password; put it into the URL: redis://:PASSWORD@host"
        }
        Some("WRONGPASS") => "the user name or the password in the URL is wrong",
        Some("NOPERM") => "the user may not do this; docs/keys.md lists the rights it needs",
        Some("ERR") if says(error, "The user executing the script can't") => {
            "docs/keys.md lists the rights that the user needs"
        }
        Some("MOVED" | "ASK" | "CROSSSLOT") => {
            "this is a node of a cluster; name two of its nodes in the URL, redis://host,host, \
             with the feature `cluster`, or allow the user +info"
        }
        Some("TRYAGAIN") => MOVING,
        Some("CLUSTERDOWN") => {
            "the cluster lacks nodes, or some slots have no node; see CLUSTER INFO"
        }
        Some("READONLY" | "MASTERDOWN") => {
            "the server is a replica; give the master's address, or that of the sentinels"
        }
        Some("NOREPLICAS") => {
            "fewer replicas follow than its min-replicas-to-write; start one, or lower that"
        }
        Some("MISCONF") => {
            "the server takes no writes, since it could not save to its disk; is that full?"
        }
        Some("BUSY") => "another client's script has run for very long; SCRIPT KILL ends it",
        Some("ERR") if says(error, "compiling script") => {
            "is the server older than Redis 6.2? docs/guide/servers.md lists the servers that work"
        }
        Some("ERR") if says(error, "max number of clients") => {
            "the server accepts no more clients; raise its maxclients"
        }
        Some(_) if refused_by_others(error) == Some(false) => {
            "the server's provider allows no more; wait until the quota is renewed, or raise it"
        }
        Some("OOM") => {
            "the server's memory is full; raise maxmemory, or find out which keys fill it; held locks \
             can still be renewed and released"
        }
        None if error.kind() == ErrorKind::AuthenticationFailed => {
            "the user name or the password in the URL is wrong"
        }
        _ if error.is_connection_refusal() => "is the server running, and is this its address?",
        // Only an error of the system has a source; ours have none.
        _ if error.is_connection_dropped() && std::error::Error::source(error).is_some() => {
            "the server closed the connection; has it reached maxclients, or does only one of the \
             two speak TLS? rediss:// is with TLS, redis:// without"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
