//! The systems the project grew from: `tests/seeds.md` has the table, and each
//! row that is marked there has its tests, by name.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
#[cfg(feature = "servers")]
use std::time::Duration;

#[cfg(feature = "servers")]
use leasehold::{LockError, Locks};
#[cfg(feature = "servers")]
use leasehold_tests::process::{Process, example};
#[cfg(feature = "servers")]
use leasehold_tests::server::Server;

/// A row that is marked must have every test it names.
#[test]
fn marked_rows_have_their_tests() {
    let this = std::env::current_exe().expect("a test runs");
    let listed =
        Command::new(this).args(["--list", "--format", "terse"]).output().expect("it runs");
    let listed = String::from_utf8(listed.stdout).expect("UTF-8");
    let tests: HashSet<_> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    assert!(tests.contains("seeds::marked_rows_have_their_tests"), "the list is read rightly");

    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds.md");
    let page = std::fs::read_to_string(page).expect("tests/seeds.md is there");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|row| row.split(" | ").collect())
        .filter(|row: &Vec<_>| row[0].parse::<u32>().is_ok())
        .collect();
    assert_eq!(rows.len(), 24, "one row for each system");

    let mut marked = 0;
    for row in rows {
        let [number, mark, .., shown_by] = row[..] else { panic!("{row:?}: too few columns") };
        assert!(["✓", "–"].contains(&mark), "row {number}: {mark:?} is no mark");
        if mark == "✓" {
            marked += 1;
            assert_has_tests(number, shown_by, &tests);
        }
    }
    assert!(marked > 0);
}

fn assert_has_tests(number: &str, shown_by: &str, tests: &HashSet<&str>) {
    let is_path = |name: &&str| name.contains("::") && !name.contains(' ');
    let names: Vec<_> = shown_by.split('`').filter(is_path).collect();
    assert!(!names.is_empty(), "row {number} names no test");
    // Those that need servers are not compiled without the feature.
    for name in names.into_iter().filter(|_| cfg!(feature = "servers")) {
        let is_it = |test: &&str| {
            test.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        assert!(tests.iter().any(is_it), "row {number} is marked, and there is no test `{name}`");
    }
}

#[cfg(feature = "servers")]
#[tokio::test]
async fn key_without_expiry_is_repaired() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut redis = server.redis().await;
    // A client of another make, which died between SETNX and EXPIRE.
    let lock = "leasehold:lock:{a}";
    let somebody = "0b6a71b2-e6f7-4ad3-8a1e-2f6d3a7f0b11";
    redis::cmd("SETNX").arg(lock).arg(somebody).exec_async(&mut redis).await.unwrap();

    for acquired in [
        locks.mutex("a").ttl(Duration::from_millis(400)).try_lock().await,
        locks.semaphore("a", 3).ttl(Duration::from_millis(400)).try_acquire().await,
    ] {
        let Err(LockError::Busy { retry_after, .. }) = acquired else { panic!("{acquired:?}") };
        assert!(retry_after <= Duration::from_millis(400), "{retry_after:?}");
    }
    let value: String = redis::cmd("GET").arg(lock).query_async(&mut redis).await.unwrap();
    assert_eq!(value, somebody, "it is given an expiry, and is otherwise left alone");
    let lease = locks.mutex("a").wait(Duration::from_secs(5)).lock().await.unwrap();
    lease.release().await.unwrap();
}

#[cfg(feature = "servers")]
#[tokio::test]
async fn script_flush_is_survived() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut redis = server.redis().await;
    let storm = tokio::spawn(async move {
        let mut flushes = 0;
        loop {
            redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut redis).await.unwrap();
            flushes += 1;
            if flushes % 100 == 0 {
                tokio::task::yield_now().await;
            }
        }
    });
    for n in 0..500 {
        let lease = locks.mutex(format!("a:{n}")).lock().await.unwrap();
        let permit = locks.semaphore(format!("s:{n}"), 2).acquire().await.unwrap();
        lease.release().await.unwrap();
        permit.release().await.unwrap();
    }
    assert!(!storm.is_finished());
    storm.abort();
    let forgotten: String = {
        let mut redis = server.redis().await;
        redis::cmd("INFO").arg("commandstats").query_async(&mut redis).await.unwrap()
    };
    assert!(forgotten.contains("cmdstat_eval:"), "the storm made the server forget: {forgotten}");
}

#[cfg(feature = "servers")]
#[test]
fn one_of_n_draws() {
    let server = Server::start();
    let mut drawn = 0;
    for round in ["at once", "a little late"] {
        let processes: Vec<_> = (0..8)
            .map(|_| Process::start(example("scheduled_job").env("REDIS_URL", server.url())))
            .collect();
        for mut process in processes {
            let line = process.line().expect("it says what it did");
            match &*line {
                "skipped: another server draws, or has just drawn" => {}
                line if line.starts_with("drawn: ") => drawn += 1,
                line => panic!("{line}"),
            }
            assert!(process.is_success());
        }
        assert_eq!(drawn, 1, "started {round}");
    }
}
