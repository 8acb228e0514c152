//! Nothing that a program logs contains a password or the name of a lock.
//!
//! Another process connects in all ways, right and wrong, and meets all faults after that. The
//! test reads all that this process could write down: every event and span of every crate, down
//! to TRACE, the driver's log, all metrics, the texts of errors, the `Debug` of clients, locks
//! and leases, and the answers of the layer.
//!
//! Nothing of it contains a password. The name of a lock may be personal. No event above DEBUG,
//! no metric, no client and no answer of the layer contains it. Errors do, because their caller
//! asked for the lock by this name, and so do the lock and the lease.

use std::process::Command;

use leasehold_tests::process::Process;
use leasehold_tests::secrets::{KEY, has};

/// The common part of all passwords.
const SECRET: &str = "canary-password";

/// The part of the name that a template would insert.
const NAME: &str = KEY;

/// True if this line may contain the name of the lock.
fn may_name_the_lock(line: &str) -> bool {
    let quiet = ["error ", "lock ", "event DEBUG", "event TRACE", "span DEBUG", "span TRACE"];
    // The driver logs its commands and answers.
    quiet.iter().chain(&["log DEBUG", "log TRACE"]).any(|kind| line.starts_with(kind))
}

/// Log lines that must appear, or the test proves nothing.
const PROVOKED: [&str; 30] = [
    "password in the URL is wrong",
    "asks for a password",
    "is the server running",
    "no answer in time",
    "not connected to the lock store yet",
    "redis://host:port",
    "settings put locks at risk",
    "the connection to the lock store failed",
    "the lock store failed; retrying until it answers",
    "leases could not be renewed",
    "a lease was lost",
    "a lock's key had no expiry",
    "a lock was taken from its holders by force",
    "a lease could not be",
    "leader election: lock store unavailable",
    "a job did not run",
    "a run is skipped",
    "a request is refused",
    "a request does not say what to lock",
    "a server of the quorum is unreachable",
    "may have lost locks",
    "of 3 servers have to agree",
    "replicas have it",
    "option sentinel_password",
    "no node of the lock store's cluster reports the slots",
    "TimedOut",
    "Busy",
    "Lost",
    "ShutDown",
    "leasehold_lost_total",
];

#[test]
fn logs_and_errors_contain_no_password_and_no_lock_name() {
    let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"));
    let mut worker = Process::start(worker.args(["-", "secrets"]));
    let said = worker.rest();
    assert!(worker.is_success(), "{:#?}", said.last_chunk::<20>());
    for line in &said {
        assert!(!has(line, SECRET), "a password: {line}");
        assert!(may_name_the_lock(line) || !has(line, NAME), "a lock's name: {line}");
    }
    for provoked in PROVOKED {
        assert!(said.iter().any(|line| line.contains(provoked)), "{provoked:?} is not met with");
    }
    for kind in ["event DEBUG leasehold", "metric ", "client ", "lock ", "body "] {
        assert!(said.iter().any(|line| line.starts_with(kind)), "nothing is heard of: {kind}");
    }
    let named = said.iter().filter(|line| line.starts_with("event DEBUG") && has(line, NAME));
    assert!(named.count() > 0, "the name is said where it may be");
}
