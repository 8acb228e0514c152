//! `jobs` and `run-again`.

use std::time::Duration;

use leasehold::{LockError, Locks};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;
use serde_json::Value;

use super::tell;

const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);
const SHORT: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_listed_with_what_is_wrong() {
    let server = Server::start();
    let none = tell(&server, &["jobs"]);
    assert_eq!((none.code, none.out.lines().count()), (0, 1), "{none:?}");
    assert!(none.err.contains("no job has run under the prefix `leasehold`"), "{none:?}");

    let locks = Locks::connect(&server.url()).await.unwrap();
    let good = locks.mutex("good").once_per(YEAR);
    good.lock().await.unwrap().complete().await.unwrap();
    let fails = locks.mutex("fails\u{202e}").once_per(YEAR);
    fails.lock().await.unwrap().release().await.unwrap();
    fails.lock().await.unwrap().release().await.unwrap();
    let listed = tell(&server, &["jobs"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    let row = |of: &str| listed.out.lines().find(|line| line.starts_with(of)).expect("a row");
    assert!(row("good").ends_with("done") && row("good").contains("366d00h"), "{listed:?}");
    assert!(row("fails").contains("2 runs without success in the last "), "{listed:?}");
    assert!(row("fails").ends_with("; due") && !listed.out.contains('\u{202e}'), "{listed:?}");

    let late = locks.mutex("late").once_per(SHORT);
    late.lock().await.unwrap().complete().await.unwrap();
    until("it is overdue", async || locks.inspect("late").await.unwrap().job.unwrap().is_overdue())
        .await;
    let overdue = tell(&server, &["jobs", "l*"]);
    assert_eq!((overdue.code, overdue.out.lines().count()), (1, 2), "{overdue:?}");
    assert!(overdue.out.contains("overdue, ") && overdue.out.contains(" missed; due"));
    assert_eq!(tell(&server, &["jobs", "g*"]).code, 0);
    let lines = tell(&server, &["jobs", "--json"]);
    let all: Vec<Value> =
        lines.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.code, &all[0]["name"]), (1, &"late".into()), "{all:?}");
    assert_eq!((&all[1]["failed_runs"], &all[1]["last_success"]), (&2.into(), &Value::Null));
    assert!(all[1]["failing_since"].is_string() && all[2]["tick_seconds"] == 366.0 * 86_400.0);
}

/// No run begins until the clock is where it was, so "done" would be no answer.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_success_in_the_future_is_told() {
    let server = Server::start_skewed();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let minutely = locks.mutex("minutely").once_per(Duration::from_secs(60));
    minutely.lock().await.unwrap().complete().await.unwrap();
    server.jump_back(Duration::from_secs(3 * 60 * 60));
    let listed = tell(&server, &["jobs"]);
    assert_eq!(listed.code, 1, "{listed:?}");
    assert!(listed.out.contains("does not run for 2h5"), "{listed:?}");
    assert!(listed.out.contains("set back; `leasehold run-again` lets it run"), "{listed:?}");
    let again = tell(&server, &["run-again", "minutely"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(tell(&server, &["jobs"]).code, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_work_runs_again() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let nightly = locks.mutex("nightly").once_per(YEAR);
    nightly.lock().await.unwrap().complete().await.unwrap();
    let shown = tell(&server, &["show", "nightly"]).out;
    assert!(shown.contains("to run it again: leasehold run-again 'nightly'"), "{shown}");
    let why = ["--by", "ann", "--why", "wrong totals"];
    let again = tell(&server, &[&["run-again", "nightly"][..], &why].concat());
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.out.starts_with("nightly: its success of 20"), "{again:?}");
    let running = nightly.try_lock().await.unwrap();
    let shown = tell(&server, &["show", "nightly"]).out;
    assert!(
        shown.contains("to run again, for ann, ") && shown.contains(": wrong totals"),
        "{shown}"
    );
    let unknown = tell(&server, &["run-again", "nightlyy"]);
    assert_eq!((unknown.code, unknown.err.contains("Is that its name?")), (1, true), "{unknown:?}");
    let again = tell(&server, &["run-again", "nightly", "--json"]);
    let said: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!((&said["completed"], &said["is_running"]), (&Value::Null, &true.into()));
    running.complete().await.unwrap();
    let shown = tell(&server, &["show", "nightly"]).out;
    assert!(shown.contains("has run again, for "), "{shown}");
    assert!(matches!(nightly.try_lock().await, Err(LockError::Done { .. })));
}

/// The command that is shown works where it is pasted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_to_run_a_job_again_is_whole() {
    let server = Server::start();
    let locks = Locks::builder().prefix("bil'ling").connect(&server.url()).await.unwrap();
    let shown = async |name: &str| {
        let job = locks.mutex(name).once_per(Duration::from_secs(3600));
        job.lock().await.unwrap().complete().await.unwrap();
        tell(&server, &["--prefix", "bil'ling", "show", "--", name]).out
    };
    let whole = r"to run it again: leasehold run-again --prefix='bil'\''ling' -- '-x y'";
    let seen = shown("-x y").await;
    assert!(seen.contains(whole), "{seen}");
    let pasted = ["run-again", "--prefix", "bil'ling", "--", "-x y"];
    assert_eq!(tell(&server, &pasted).code, 0);
    // Nobody can paste what is not shown.
    let seen = shown("a\u{202e}b").await;
    assert!(
        !seen.contains("run-again 'a") && seen.contains("as `show --json` prints it"),
        "{seen}"
    );
}
