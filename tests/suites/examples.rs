//! Examples as processes: work that succeeds once, a database that checks tokens, payments that a
//! client may send again, and a gateway whose streams are limited.

mod ai_gateway;
mod idempotency;

use std::collections::{BTreeMap, BTreeSet};

use leasehold_tests::process::{Process, example, first};
use leasehold_tests::server::Server;

fn start(name: &str, server: &Server) -> Process {
    Process::start(example(name).env("REDIS_URL", server.url()))
}

/// How often each line was printed.
fn counted(lines: impl IntoIterator<Item = String>) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for line in lines {
        *all.entry(line).or_default() += 1;
    }
    all
}

/// Two servers run the example for ten seconds, and start its job at the same times. Gives the ticks
/// that had a report: one each, whichever of the two sent it.
fn sent_once(name: &str, server: &Server) -> BTreeSet<u64> {
    let mut processes = [start(name, server), start(name, server)];
    let reports = counted(processes.iter_mut().flat_map(Process::rest));
    assert!(processes.iter_mut().all(Process::is_success));

    assert!(reports.values().all(|&count| count == 1), "{reports:?}");
    let tick = |line: &String| {
        let tick = line.strip_prefix("report ").and_then(|it| it.strip_suffix(" is sent"));
        tick.unwrap_or_else(|| panic!("{line}")).parse::<u64>().expect("a number")
    };
    let sent: BTreeSet<_> = reports.keys().map(tick).collect();
    // It is due five times. A machine under load may be late for some.
    assert!((1..=6).contains(&sent.len()), "{sent:?}");
    sent
}

/// The marks in the store.
async fn marks(server: &Server) -> BTreeSet<String> {
    let mut keys = redis::cmd("KEYS");
    keys.arg("leasehold:done:*").query_async(&mut server.redis().await).await.unwrap()
}

/// With `REDIS_URL` set, the first programs of the README lock on that server. In memory:
/// `examples/quickstart/output.rs`.
#[tokio::test]
async fn the_readmes_programs_lock_on_a_server() {
    let server = Server::start();
    let mut quickstart = Process::start(first("quickstart").env("REDIS_URL", server.url()));
    let lines = quickstart.rest();
    assert!(quickstart.is_success(), "{lines:?}");
    assert_eq!(lines[0], "Locking on the Redis server of REDIS_URL.");
    assert_eq!(lines.iter().filter(|line| line.ends_with("has charged it")).count(), 1);
    let mut five_minutes = Process::start(first("five_minutes").env("REDIS_URL", server.url()));
    assert_eq!(five_minutes.rest(), ["invoice 42 is locked"]);
    assert!(five_minutes.is_success());
}

/// Each tick that was due has a mark of its own.
#[tokio::test]
async fn a_cron_job_sends_one_report_for_each_tick() {
    let server = Server::start();
    let sent = sent_once("cron_job", &server);
    let expected: BTreeSet<_> =
        sent.iter().map(|tick| format!("leasehold:done:{{report:{tick}}}")).collect();
    assert_eq!(marks(&server).await, expected);
}

/// The ticks of `once_per` share one mark.
#[tokio::test]
async fn a_worker_of_apalis_sends_one_report_for_each_tick() {
    let server = Server::start();
    let sent = sent_once("apalis_job", &server);
    assert!(sent.iter().all(|tick| tick % 2 == 0), "{sent:?}");
    assert_eq!(marks(&server).await, ["leasehold:done:{report}".to_owned()].into());
}

/// Four processes get the same messages at the same time, and one of the two messages twice.
/// A process that starts later finds both handled.
#[test]
fn a_message_that_arrives_again_is_handled_once() {
    let server = Server::start();
    let mut processes: Vec<_> = (0..4).map(|_| start("message_handler", &server)).collect();
    let lines = counted(processes.iter_mut().flat_map(Process::rest));
    assert!(processes.iter_mut().all(Process::is_success));
    let expected =
        [("handled: one", 1), ("handled: two", 1), ("skipped: one", 7), ("skipped: two", 3)];
    assert_eq!(lines, expected.map(|(line, count)| (line.to_owned(), count)).into());

    let mut late = start("message_handler", &server);
    assert_eq!(late.rest(), ["skipped: one", "skipped: two", "skipped: one"]);
    assert!(late.is_success());
}

#[test]
fn a_transfer_is_made_once_and_loses_no_money() {
    let server = Server::start();
    let mut process = start("transfer", &server);
    let lines = process.rest();
    assert!(process.is_success(), "{lines:?}");
    assert_eq!(lines, ["60 payments were made, 60 were sent again; the accounts have 400 in all"]);
}

/// Holders that are stopped past their leases cost nothing where the database checks tokens, and
/// additions where it does not.
#[test]
fn a_database_that_checks_tokens_loses_nothing() {
    let server = Server::start();
    let mut process = start("fenced_sql", &server);
    let lines = process.rest();
    assert!(process.is_success(), "{lines:?}");
    let numbers = |line: &String| -> Vec<u64> {
        line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
    };
    let [checked, control] = &lines[..] else { panic!("{lines:?}") };
    let [added, says, refused] = numbers(checked)[..] else { panic!("{checked}") };
    assert!(added == says && refused > 0, "{checked}");
    let [added, says] = numbers(control)[..] else { panic!("{control}") };
    assert!(added > says, "{control}");
}
