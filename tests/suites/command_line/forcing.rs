//! Freeing locks by force.

use std::io::{BufRead, Read, Write};
use std::process::Stdio;

use leasehold::{LockKey, Locks, LossReason};
use leasehold_tests::server::Server;
use serde_json::Value;

use super::choosing::on_terminal;
use super::{tell, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_freed_on_demand() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let lease = locks.mutex("order:42").lock().await.unwrap();
    let old = lease.fence().unwrap().get();

    // There is no terminal to ask on.
    let refused = tell(&server, &["force", "order:42"]);
    assert_eq!((refused.code, lease.is_held()), (125, true), "{refused:?}");
    assert!(refused.err.contains("--yes"), "{refused:?}");
    let other = tell(&server, &["force", "order:42", "--yes", "--prefix", "shop"]);
    assert_eq!((other.code, lease.is_held()), (1, true), "{other:?}");

    let forced = tell(&server, &["force", "order:42", "--yes", "--reason", "TICKET-7: stuck"]);
    assert_eq!(forced.code, 0, "{forced:?}");
    assert_eq!(lease.lost().await, LossReason::Forced);
    let token = forced.out.lines().find_map(|line| line.strip_prefix("fencing token: "));
    assert!(token.unwrap().parse::<u64>().unwrap() > old, "{forced:?}");
    assert!(forced.out.contains("TICKET-7: stuck"), "{forced:?}");
    assert!(forced.err.contains("holder"), "it shows the holder first: {forced:?}");

    let again = tell(&server, &["force", "order:42", "--yes"]);
    assert_eq!((again.code, &*again.out), (1, ""), "{again:?}");
    assert!(again.err.contains("nobody holds"), "{again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_says_what_was_forced() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let semaphore = locks.semaphore("reports", 3);
    let _permits = (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap());
    let forced = tell(&server, &["--json", "force", "reports", "--yes", "--reason", "a \"test\""]);
    assert_eq!((forced.code, &*forced.err), (0, ""));
    let said: Value = serde_json::from_str(&forced.out).unwrap();
    assert_eq!((&said["held"], &said["reason"]), (&2.into(), &"a \"test\"".into()));
    assert!(said["fence"].as_u64().is_some_and(|fence| fence > 0), "{said}");
    let again = tell(&server, &["--json", "force", "reports", "--yes"]);
    let said: Value = serde_json::from_str(again.err.lines().last().unwrap()).unwrap();
    assert_eq!((again.code, &said["error"]), (1, &"not_held".into()));
}

/// As `ls` shows it. A service may use such a name by `LockKey::new`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_with_braces_is_shown_and_freed() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let name = "report:{eu}:x";
    let lease = locks.mutex(LockKey::new(name).unwrap()).lock().await.unwrap();
    assert!(tell(&server, &["ls"]).out.contains(name));
    assert!(tell(&server, &["show", name]).out.contains("held by 1"));
    assert_eq!(tell(&server, &["force", name, "--yes"]).code, 0);
    assert_eq!(lease.lost().await, LossReason::Forced);
}

/// The key that it prints is the one that is in the way, also with braces in the name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_of_a_foreign_value_is_printed() {
    let server = Server::start();
    let mut redis = server.redis().await;
    for (name, key) in [
        ("order:42", "leasehold:lock:{order:42}"),
        ("report:{eu}:x", "leasehold:lock:report:{eu}:x"),
    ] {
        redis::cmd("SET").arg(&[key, "foreign"]).exec_async(&mut redis).await.unwrap();
        let shown = tell(&server, &["show", name]).out;
        assert!(shown.contains(&format!("redis-cli DEL '{key}'")), "{shown}");
    }
}

/// A healthy permit stays when another one hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_holder_of_several_is_freed() {
    let server = Server::start();
    let pool = async |service: &str| {
        let locks = Locks::builder().service(service).connect(&server.url()).await.unwrap();
        locks.semaphore("pool", 3)
    };
    let hangs = pool("hangs").await.acquire_many(2).await.unwrap();
    let works = pool("works").await.owner("worker-7").acquire().await.unwrap();
    until("clients have names", || tell(&server, &["show", "pool"]).out.matches('@').count() == 2);

    let nobody = tell(&server, &["force", "pool", "--holder", "nobody@", "--yes"]);
    assert_eq!(nobody.code, 1, "{nobody:?}");
    assert!(nobody.err.contains("no holder of `pool` is `nobody@`"), "{nobody:?}");
    for part in ["", "hang", "hangs@"] {
        let told = tell(&server, &["force", "pool", "--holder", part, "--yes"]);
        assert_eq!((told.code, hangs.is_held(), works.is_held()), (1, true, true), "{told:?}");
    }
    let why = ["--reason", "TICKET-7"];
    let forced =
        tell(&server, &[&["force", "pool", "--holder", "hangs", "--yes"], &why[..]].concat());
    assert!(forced.out.contains("pool: taken from 1 holder (TICKET-7)"), "{forced:?}");
    assert!(forced.err.contains("End the former holder, too: hangs@"), "{forced:?}");
    assert!(!forced.err.contains("too: works@"), "it is healthy: {forced:?}");
    assert_eq!(hangs.lost().await, LossReason::Forced);
    assert!(works.is_held());

    // Who did it stays to be seen.
    let shown = tell(&server, &["show", "pool"]).out;
    let line = shown.lines().find(|line| line.contains("taken by force from 1 holder"));
    let line = line.unwrap_or_else(|| panic!("{shown}"));
    assert!(line.ends_with(": TICKET-7"), "{line}");
    let by = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_default();
    assert!(line.contains(&format!(", by {by}")), "{line}");
    let forced = tell(&server, &["force", "pool", "--holder", "worker-7", "--yes"]);
    assert_eq!((forced.code, works.lost().await), (0, LossReason::Forced), "{forced:?}");
}

/// The question counts what is taken, and names each process once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_question_says_what_is_taken() {
    let server = Server::start();
    let locks = Locks::builder().service("hangs").connect(&server.url()).await.unwrap();
    let pool = locks.semaphore("pool", 3);
    let first = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    let other = Locks::builder().service("works").connect(&server.url()).await.unwrap();
    let second = other.semaphore("pool", 3).acquire().await.unwrap();
    until("clients have names", || tell(&server, &["show", "pool"]).out.matches('@').count() == 3);
    let mut force = on_terminal(&server, &["force", "pool", "--holder", "hangs"]);
    let mut force = force.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    force.stdin.as_mut().unwrap().write_all(b"n\n").unwrap();
    let told = force.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout);
    let question = &told[told.find("Take `pool`").unwrap_or_else(|| panic!("{told}"))..];
    assert!(question.starts_with("Take `pool` from 2 of its 3 holders, in:"), "{question}");
    assert_eq!((question.matches("hangs@").count(), question.matches("works@").count()), (1, 0));
    assert!(first.0.is_held() && first.1.is_held() && second.is_held(), "nothing was done");
}

/// The question may stand for minutes. Whoever has the lock since was not in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_was_not_in_the_question_loses_nothing() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let seen = locks.mutex("order:42").owner("seen").lock().await.unwrap();
    let mut force = on_terminal(&server, &["force", "order:42"]);
    let mut force = force.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut told = std::io::BufReader::new(force.stdout.take().unwrap());
    let mut question = Vec::new();
    while !question.ends_with(b"[y/N] ") {
        told.read_until(b' ', &mut question).unwrap();
    }
    seen.release().await.unwrap();
    let innocent = locks.mutex("order:42").lock().await.unwrap();
    force.stdin.as_mut().unwrap().write_all(b"y\n").unwrap();
    let mut rest = String::new();
    told.read_to_string(&mut rest).unwrap();
    assert!(
        rest.contains("those holders of `order:42` hold it no more: nothing was done"),
        "{rest}"
    );
    force.wait().unwrap();
    innocent.renew().await.unwrap();
}
