//! The texts of errors, and who may read them.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::*;
use crate::core::limit_override::{LimitOf, LimitOverride};
use crate::core::lock_key::LockKey;
use crate::core::no_majority::NoMajority;
use crate::core::rate::Rate;

/// As a driver's: it prints its source, and returns it as well.
#[derive(Debug)]
struct Twice(std::io::Error);

impl fmt::Display for Twice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Twice {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

fn all() -> Vec<LockError> {
    use LockError::{
        Busy, Closed, Done, InvalidOption, Lost, NoRuntime, NotFenced, NotInstalled, Quorum,
        RateLimited, ShutDown, Store, TicketEnded, TimedOut, Unsupported, WouldDeadlock, WrongKind,
    };
    let key = || LockKey::new("order:42").unwrap();
    let failed = "redis-1:6379: connection refused";
    let answers = [("redis-1:6379", failed), ("redis-2:6379", "granted")];
    let no_majority = NoMajority::of(answers.map(|(a, b)| (a.into(), b.into())).into_iter());
    vec![
        Busy {
            key: key(),
            retry_after: Duration::from_secs(1),
            kept: false,
            held_by_caller: false,
            is_semaphore: false,
        },
        TimedOut {
            key: key(),
            waited: Duration::from_secs(1),
            held_by_caller: false,
            held_by_client: false,
            is_semaphore: false,
        },
        Lost { key: key(), reason: LossReason::Expired },
        TicketEnded { key: key(), reason: LossReason::Taken },
        Store {
            step: Step::Acquire,
            what: "`order:42`".into(),
            outcome: Outcome::NotRun,
            is_passing: true,
            cause: Box::new(Twice(std::io::Error::other("connection refused"))),
            label: None,
        },
        Done {
            key: key(),
            completed: std::time::UNIX_EPOCH,
            until: std::time::UNIX_EPOCH,
            retry_after: Duration::from_secs(1),
        },
        RateLimited { key: key(), rate: Rate::per_second(1), retry_after: Duration::from_secs(1) },
        LockError::invalid_key("", "it is empty"),
        InvalidOption { option: "keys", problem: "`order:42` is named twice".into() },
        InvalidOption { option: "ttl", problem: "it is zero".into() },
        WrongKind { key: key() },
        WouldDeadlock { key: key() },
        Closed {
            key: key(),
            weight: 1,
            set: Box::new(LimitOverride {
                of: LimitOf::Label("order".into()),
                limit: 0,
                by: "ann".into(),
                why: Some("incident 42".into()),
                at: std::time::UNIX_EPOCH,
            }),
        },
        NotFenced { key: key() },
        NotInstalled,
        NoRuntime,
        Quorum {
            step: Step::Renew,
            what: "`order:42`".into(),
            is_passing: true,
            cause: Box::new(no_majority),
            label: None,
        },
        Unsupported { what: "a semaphore" },
        ShutDown,
    ]
}

#[test]
fn a_chain_says_the_cause_once() {
    for error in all() {
        let mut chain = String::new();
        let mut next: Option<&dyn Error> = Some(&error);
        while let Some(error) = next {
            let text = error.to_string();
            assert!(!chain.contains(&text), "{text:?} is said again: {chain}");
            chain = format!("{chain}: {text}");
            next = error.source();
        }
        assert_eq!(chain.contains("connection refused"), error.is_store_failure(), "{chain}");
    }
}

#[test]
fn one_line_says_the_cause() {
    for error in all() {
        let (whole, quiet) = (error.to_string(), Quiet(&error).to_string());
        for text in [whole, quiet] {
            assert_eq!(text.contains("connection refused"), error.is_store_failure(), "{text}");
        }
    }
}

/// In logs above debug.
#[test]
fn a_quiet_text_does_not_name_the_lock() {
    for error in all() {
        let quiet = Quiet(&error).to_string();
        assert!(!quiet.contains("order:42") && !quiet.is_empty(), "{error:?}: {quiet}");
    }
}

#[test]
fn a_store_that_fails_is_told_from_a_held_lock() {
    let failures = all().iter().filter(|error| error.is_store_failure()).count();
    assert_eq!(failures, 2);
    assert!(all().iter().all(|it| !(it.is_store_failure() && it.is_held_by_another())));
}
