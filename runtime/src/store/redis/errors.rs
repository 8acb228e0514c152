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

const MOVING: &str = "the lock's slot is migrating to another node; if the migration is stuck, run \
                      `redis-cli --cluster fix`";

/// Classifies the error of a command.
pub(super) fn classify(error: RedisError) -> (LinkOutcome, StoreError) {
    let error = script_errors::of_command(error);
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
        // written what came before. And a proxy may answer anything.
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
mod tests {
    use super::*;

    /// An error as the server sends it.
    fn said(line: &str) -> RedisError {
        let reply = format!("-{line}\r\n");
        redis::parse_redis_value(reply.as_bytes()).unwrap().extract_error().unwrap_err()
    }

    #[test]
    fn errors_of_a_server_are_classified() {
        use LinkOutcome::{Answered, Broken};
        use Outcome::{NotRun, Unknown};
        for (line, link, outcome, is_passing) in [
            ("LOADING Redis is loading the dataset in memory", Answered, NotRun, true),
            ("BUSY Redis is busy running a script.", Answered, NotRun, true),
            ("READONLY You can't write against a read only replica.", Broken, NotRun, true),
            ("NOREPLICAS Not enough good replicas to write.", Answered, NotRun, true),
            ("OOM command not allowed when used memory > 'maxmemory'.", Answered, NotRun, true),
            ("MASTERDOWN Link with MASTER is down", Broken, NotRun, true),
            ("CLUSTERDOWN Hash slot not served", Answered, NotRun, true),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Answered, NotRun, true),
            ("MISCONF Redis is configured to save RDB snapshots", Answered, NotRun, true),
            ("ERR Script killed by user with SCRIPT KILL...", Answered, NotRun, true),
            ("CROSSSLOT Keys in request don't hash to the same slot", Answered, NotRun, false),
            ("ASK 3999 127.0.0.1:6381", Answered, NotRun, false),
            ("NOAUTH Authentication required.", Answered, NotRun, false),
            ("NOPERM this user has no permissions", Answered, NotRun, false),
            ("NOPERM ACL failure in script: No permissions", Answered, Unknown, false),
            ("ERR The user executing the script can't run this", Answered, Unknown, false),
            ("ERR increment or decrement would overflow", Answered, Unknown, false),
            ("WRONGTYPE Operation against a key", Answered, Unknown, false),
            ("SOMETHING else", Answered, Unknown, false),
            ("ERR user_script:3: attempt to index a nil value", Answered, Unknown, false),
        ] {
            let (met, error) = classify(said(line));
            assert_eq!(
                (met, error.outcome, error.is_passing),
                (link, outcome, is_passing),
                "{line}"
            );
        }
    }

    #[cfg(feature = "cluster")]
    #[test]
    fn on_a_cluster_a_migrating_slot_is_a_passing_error() {
        let classified = |error| {
            let StoreError { outcome, is_passing, .. } = on_cluster(error);
            (outcome, is_passing)
        };
        for moving in ["MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381"] {
            let error = on_cluster(classify(said(moving)).1);
            assert_eq!((error.outcome, error.is_passing), (Outcome::NotRun, true), "{moving}");
            let told = error.source.to_string();
            assert!(told.contains("is migrating") && !told.contains("this is a node"), "{told}");
        }
        let cut_short = "ERR user_script: Script attempted to access a non local key in a cluster";
        assert_eq!(classified(classify(said(cut_short)).1), (Outcome::Unknown, true));
        // An error from before the command was sent.
        let full = not_run(said("ERR max number of clients reached"));
        assert_eq!(classified(full), (Outcome::NotRun, true));
        assert_eq!(classified(classify(said("ERR something else")).1), (Outcome::Unknown, false));
    }

    #[test]
    fn errors_come_with_advice() {
        for (line, words) in [
            ("NOAUTH Authentication required.", "asks for a password"),
            ("MOVED 3999 127.0.0.1:6381", "node of a cluster"),
            ("TRYAGAIN Multiple keys request during rehashing of slot", "is migrating"),
            (
                "ERR Error compiling script (new function): user_script:1: unexpected symbol",
                "older than",
            ),
            ("OOM command not allowed when used memory > 'maxmemory'.", "memory is full"),
        ] {
            let text = classify(said(line)).1.source.to_string();
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn a_connection_that_ends_may_have_run_the_command() {
        let ended = RedisError::from(std::io::Error::from(std::io::ErrorKind::UnexpectedEof));
        let (link, error) = classify(ended.clone());
        assert_eq!(
            (link, error.outcome, error.is_passing),
            (LinkOutcome::Broken, Outcome::Unknown, true)
        );
        let error = not_run(ended);
        assert_eq!((error.outcome, error.is_passing), (Outcome::NotRun, true));
        assert!(!not_run(said("WRONGPASS invalid username-password pair")).is_passing);
    }
}
