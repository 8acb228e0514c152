//! What an error of the driver or the server means: whether the command may
//! have run, whether asking again may help, and what it says of the connection.

use redis::{ErrorKind, RedisError, RedisResult, Value};

use crate::core::error::Outcome;
use crate::store::StoreError;

/// What a command says of the connection it was sent on; the greater the worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// The server answered, be it with an error.
    Answered,
    /// No answer in time.
    Silent,
    /// The connection is of no use any more.
    Broken,
}

/// Errors with which a server refuses a command before it runs, for now.
const PASSING: [&str; 6] = ["LOADING", "BUSY", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF"];

/// Errors with which a server refuses a command before it runs, for good.
const LASTING: [&str; 7] = ["NOSCRIPT", "NOAUTH", "WRONGPASS", "OOM", "CROSSSLOT", "MOVED", "ASK"];

const MOVING: &str = "the lock's slot is on its way to another node; if it stays half way, \
                      `redis-cli --cluster fix` ends that";

/// Sorts an error that a command met.
pub(super) fn sort(error: RedisError) -> (Fault, StoreError) {
    match error.code() {
        // It is a replica: after a failover the address may lead to the new master.
        Some("READONLY" | "MASTERDOWN") => (Fault::Broken, refused(error, true)),
        Some(code) if PASSING.contains(&code) => (Fault::Answered, refused(error, true)),
        Some(code) if LASTING.contains(&code) => (Fault::Answered, refused(error, false)),
        // Only a script that has written nothing can be killed.
        Some("ERR") if says(&error, "Script killed") => (Fault::Answered, refused(error, true)),
        // The user may not call it at all.
        Some("NOPERM") if !says(&error, "script") => (Fault::Answered, refused(error, false)),
        // A script that failed in its middle, be it for want of a right or at a key of
        // another type, has done what came before; and a proxy may say anything.
        Some(_) => {
            let error = StoreError { outcome: Outcome::Unknown, ..refused(error, false) };
            (Fault::Answered, error)
        }
        None if error.kind() == ErrorKind::AuthenticationFailed => {
            (Fault::Broken, refused(error, false))
        }
        None => (Fault::Broken, unknown(error)),
    }
}

/// Sorts what a command was answered.
pub(super) fn sorted(answer: RedisResult<Value>) -> (Fault, Result<Value, StoreError>) {
    match answer.and_then(Value::extract_error) {
        Ok(answer) => (Fault::Answered, Ok(answer)),
        Err(error) => {
            let (fault, error) = sort(error);
            (fault, Err(error))
        }
    }
}

/// What an error of a command says on a cluster. A slot that was still moving after some
/// tries has moved a little later.
#[cfg(feature = "cluster")]
pub(super) fn in_cluster(error: StoreError) -> StoreError {
    match of(&error).map(|it| (it.code(), it)) {
        Some((Some("MOVED" | "ASK"), refusal)) => {
            let source = Box::new(Advised { error: refusal.clone(), advice: MOVING });
            StoreError { source, is_passing: true, ..error }
        }
        // A key that the script has emptied is gone to the slot's new node for all that
        // the server knows. What came before is done; by the next time the slot has moved.
        Some((Some("ERR"), refusal)) if says(refusal, "non local key") => unknown(refusal.clone()),
        _ => error,
    }
}

/// What the server said, or the driver.
pub(super) fn of(error: &StoreError) -> Option<&RedisError> {
    let advised = || Some(&error.source.downcast_ref::<Advised>()?.error);
    error.source.downcast_ref().or_else(advised)
}

/// An error that was met before the command was sent.
pub(super) fn not_run(error: RedisError) -> StoreError {
    let is_lasting = matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM" | "DENIED"))
        || error.kind() == ErrorKind::AuthenticationFailed;
    refused(error, !is_lasting)
}

/// The command was sent, and had no answer in time.
pub(super) fn silent() -> StoreError {
    unknown((ErrorKind::Io, "no answer in time; is it overloaded, or cut off?").into())
}

/// The command was not sent, for a reason of our own that passes.
pub(super) fn not_yet(problem: &str) -> StoreError {
    StoreError {
        outcome: Outcome::NotRun,
        is_passing: true,
        is_shut_down: false,
        source: problem.into(),
    }
}

/// The runtime that drives the connections has ended.
pub(super) fn shutdown() -> StoreError {
    let error = unknown((ErrorKind::Io, "the client has ended").into());
    StoreError { is_passing: false, is_shut_down: true, ..error }
}

/// The command may have run, and may be sent again.
fn unknown(error: RedisError) -> StoreError {
    let source = Box::new(error);
    StoreError { outcome: Outcome::Unknown, is_passing: true, is_shut_down: false, source }
}

fn refused(error: RedisError, is_passing: bool) -> StoreError {
    StoreError {
        outcome: Outcome::NotRun,
        is_passing,
        is_shut_down: false,
        source: match advice(&error) {
            Some(advice) => Box::new(Advised { error, advice }),
            None => Box::new(error),
        },
    }
}

/// An error, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{error}; {advice}")]
struct Advised {
    error: RedisError,
    advice: &'static str,
}

fn says(error: &RedisError, words: &str) -> bool {
    error.detail().is_some_and(|text| text.contains(words))
}

/// What to do, where the server's own words do not say it.
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
            "the cluster lacks nodes, or has given its slots to none; see CLUSTER INFO"
        }
        Some("READONLY" | "MASTERDOWN") => {
            "the server is a replica; give the master's address, or that of the sentinels"
        }
        Some("NOREPLICAS") => {
            "fewer replicas follow than its min-replicas-to-write; start one, or lower that"
        }
        Some("MISCONF") => "it takes no writes, since it could not save to its disk; is that full?",
        Some("BUSY") => "somebody's script runs for very long; SCRIPT KILL ends it",
        Some("ERR") if says(error, "compiling script") => {
            "is the server older than Redis 7.0 or Valkey 7.2?"
        }
        Some("ERR") if says(error, "max number of clients") => {
            "the server has room for no more clients; its maxclients says for how many"
        }
        Some("OOM") => {
            "its memory is full; raise maxmemory; held locks can still be renewed and released"
        }
        None if error.kind() == ErrorKind::AuthenticationFailed => {
            "the user name or the password in the URL is wrong"
        }
        _ if error.is_connection_refusal() => "is the server running, and is this its address?",
        // An error of the system's, and none of our own.
        _ if error.is_connection_dropped() && std::error::Error::source(error).is_some() => {
            "the server closed the connection; has it no room for more clients (maxclients), or \
             does one of the two speak TLS and the other not?"
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
    fn what_a_server_says_is_sorted() {
        use Fault::{Answered, Broken};
        use Outcome::{NotRun, Unknown};
        for (line, fault, outcome, is_passing) in [
            ("LOADING Redis is loading the dataset in memory", Answered, NotRun, true),
            ("BUSY Redis is busy running a script.", Answered, NotRun, true),
            ("READONLY You can't write against a read only replica.", Broken, NotRun, true),
            ("NOREPLICAS Not enough good replicas to write.", Answered, NotRun, true),
            ("OOM command not allowed when used memory > 'maxmemory'.", Answered, NotRun, false),
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
            let (met, error) = sort(said(line));
            assert_eq!(
                (met, error.outcome, error.is_passing),
                (fault, outcome, is_passing),
                "{line}"
            );
        }
    }

    #[cfg(feature = "cluster")]
    #[test]
    fn on_a_cluster_a_slot_that_moves_is_no_end() {
        let sorted = |error| {
            let StoreError { outcome, is_passing, .. } = in_cluster(error);
            (outcome, is_passing)
        };
        for moving in ["MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381"] {
            let error = in_cluster(sort(said(moving)).1);
            assert_eq!((error.outcome, error.is_passing), (Outcome::NotRun, true), "{moving}");
            let told = error.source.to_string();
            assert!(told.contains("half way") && !told.contains("this is a node"), "{told}");
        }
        let cut_short = "ERR user_script: Script attempted to access a non local key in a cluster";
        assert_eq!(sorted(sort(said(cut_short)).1), (Outcome::Unknown, true));
        // What was met on the way to a node says nothing of the command.
        let full = not_run(said("ERR max number of clients reached"));
        assert_eq!(sorted(full), (Outcome::NotRun, true));
        assert_eq!(sorted(sort(said("ERR something else")).1), (Outcome::Unknown, false));
    }

    #[test]
    fn what_to_do_is_said_where_the_server_does_not() {
        for (line, words) in [
            ("NOAUTH Authentication required.", "asks for a password"),
            ("MOVED 3999 127.0.0.1:6381", "node of a cluster"),
            ("TRYAGAIN Multiple keys request during rehashing of slot", "half way"),
            (
                "ERR Error compiling script (new function): user_script:1: unexpected symbol",
                "older than",
            ),
            ("OOM command not allowed when used memory > 'maxmemory'.", "memory is full"),
        ] {
            let text = sort(said(line)).1.source.to_string();
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn a_connection_that_ends_may_have_run_the_command() {
        let ended = RedisError::from(std::io::Error::from(std::io::ErrorKind::UnexpectedEof));
        let (fault, error) = sort(ended.clone());
        assert_eq!(
            (fault, error.outcome, error.is_passing),
            (Fault::Broken, Outcome::Unknown, true)
        );
        let error = not_run(ended);
        assert_eq!((error.outcome, error.is_passing), (Outcome::NotRun, true));
        assert!(!not_run(said("WRONGPASS invalid username-password pair")).is_passing);
    }
}
