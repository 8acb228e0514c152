//! The finding about a server that does not answer as a server for locks does.

use redis::{ErrorKind, RedisError};

use super::super::errors;
use super::names;
use super::report::sentence;
use crate::store::{Diagnosis, Finding, NO_LOCKS, Severity, StoreError, UNREACHABLE, short};

/// The one finding about a server that can't be asked.
pub(in super::super) fn unreachable(server: &str, error: &StoreError) -> Diagnosis {
    let Some(error) = errors::redis_error(error) else {
        return Diagnosis::unreachable(server, error);
    };
    let (check, remedy) = kind(error);
    let remedy = sentence(errors::advice(error).unwrap_or(remedy));
    Diagnosis::of(Finding {
        severity: Severity::Problem,
        check,
        server: server.to_owned(),
        found: short(&error.to_string()),
        meaning: NO_LOCKS.to_owned(),
        remedy,
    })
}

/// What was checked, and what to do if the error's own advice does not say it.
fn kind(error: &RedisError) -> (&'static str, &'static str) {
    let says = |words| error.to_string().contains(words);
    match error.code() {
        Some("NOAUTH" | "WRONGPASS") => (names::LOGIN, "correct the password in the URL"),
        Some("NOPERM") => (names::RIGHTS, "docs/keys.md lists the rights that the user needs"),
        Some("LOADING") => (names::LOADING, LOADING),
        Some("BUSY") => (names::SCRIPT_RUNS, "`SCRIPT KILL` ends the script"),
        Some("READONLY" | "MASTERDOWN") => (names::ROLE, "give the address of a master"),
        Some("CLUSTERDOWN") => (names::CLUSTER_STATE, "see `CLUSTER INFO`"),
        _ if says("max number of clients") => (names::MAX_CLIENTS, "raise `maxclients`"),
        _ if says("is a replica") => (names::ROLE, "give the address of a master"),
        _ if error.kind() == ErrorKind::AuthenticationFailed => {
            (names::LOGIN, "correct the user name and the password in the URL")
        }
        _ if matches!(error.kind(), ErrorKind::Parse | ErrorKind::UnexpectedReturnType) => {
            (names::NOT_REDIS, "something else listens there: correct the host or the port")
        }
        _ => (
            UNREACHABLE,
            "check that the server runs and is not overloaded, and that this machine reaches it",
        ),
    }
}

pub(super) const LOADING: &str = "wait until it has read its data from disk; `INFO persistence` \
                                  says how long that takes";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_first_word_says_which_check_it_is() {
        for (line, check) in [
            ("NOAUTH Authentication required.", "login"),
            ("LOADING Redis is loading the dataset in memory", "loading"),
            ("BUSY Redis is busy running a script.", "busy-script"),
            ("ERR max number of clients reached", "max-clients"),
            ("ERR what", "unreachable"),
        ] {
            let reply = format!("-{line}\r\n");
            let error = redis::parse_redis_value(reply.as_bytes()).unwrap().extract_error();
            let found = unreachable("h:1", &errors::not_run(error.unwrap_err())).findings;
            assert_eq!(found[0].check, check, "{found:?}");
        }
        let found = unreachable("h:1", &errors::not_sent("not connected yet")).findings;
        assert_eq!((found[0].check, &*found[0].found), (UNREACHABLE, "not connected yet"));
    }
}
