//! What errors of servers and proxies mean.

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
        ("ERR no upstream host", Answered, NotRun, true),
        ("no upstream host", Answered, NotRun, true),
        (
            "ERR max daily request limit exceeded. Limit: 10000, Usage: 10000. See https://…",
            Answered,
            NotRun,
            false,
        ),
        ("ERR max requests limit exceeded. Limit: 500000, Usage: 500000.", Answered, NotRun, false),
        ("ERR max request size exceeded. Limit: 1048576 bytes", Answered, NotRun, false),
        ("upstream failure", Answered, Unknown, false),
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
        assert_eq!((met, error.outcome, error.is_passing), (link, outcome, is_passing), "{line}");
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
        ("ERR max daily request limit exceeded. Limit: 1, Usage: 1.", "quota"),
    ] {
        let text = classify(said(line)).1.source.to_string();
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_quota_is_no_lack_of_a_command() {
    for (line, is_lack) in [
        ("NOPERM this user has no permissions to run the 'info' command", true),
        ("NOPROTO sorry, this protocol version is not supported.", true),
        ("ERR unknown command 'HELLO'", true),
        ("ERR max number of clients reached", false),
        ("ERR max daily request limit exceeded. Limit: 1, Usage: 1.", false),
        ("LOADING Redis is loading the dataset in memory", false),
    ] {
        assert_eq!(is_lacking(&said(line)), is_lack, "{line}");
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
