//! `limit`: limits that an operator sets.

use std::time::Duration;

use leasehold::{LockError, LockKey, Locks, Wait};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;
use serde_json::Value;
use tokio::time::timeout;

use super::tell;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_is_set_listed_and_unset() {
    let server = Server::start();
    let none = tell(&server, &["limit", "ls"]);
    assert_eq!((none.code, none.out.lines().count()), (0, 1), "{none:?}");
    assert!(none.err.contains("no limit is set under the prefix `leasehold`"), "{none:?}");

    let locks = Locks::connect(&server.url()).await.unwrap();
    let pool = locks.semaphore("render", 8).wait(Wait::Forever);
    let held = pool.acquire_many(8).await.unwrap();
    let waiter = tokio::spawn({
        let pool = pool.clone();
        async move { pool.acquire().await.map(drop) }
    });
    let why = ["--by", "ann", "--why", "incident \u{1b}[2J42"];
    let closed = tell(&server, &[&["limit", "set", "render", "0"][..], &why].concat());
    assert_eq!((closed.code, &*closed.out), (0, "render: closed, nobody gets in\n"), "{closed:?}");
    let shown = tell(&server, &["show", "render"]);
    assert!(shown.out.contains("closed, set for `render` by ann"), "{shown:?}");
    let error = timeout(MINUTE, waiter).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(&error, LockError::Closed { .. }), "{error}");
    assert!(error.to_string().contains("ann"), "{error}");
    held.release().await.unwrap();
    // Nobody holds it, and still nobody gets in.
    let shown = tell(&server, &["show", "render"]);
    assert!(shown.out.contains("closed, set for"), "{shown:?}");
    assert!(!shown.err.contains("prefixes"), "it is not the prefix: {shown:?}");

    let set = tell(&server, &["limit", "set", "tenant:{id}", "2", "--label"]);
    assert_eq!((set.code, &*set.out), (0, "tenant:{id}: at most 2\n"), "{set:?}");
    let tenant = LockKey::new("tenant:acme").unwrap().with_label("tenant:{id}");
    let tenant = locks.semaphore(tenant, 9);
    until("the limit is known", async || tenant.try_acquire_many(3).await.is_err()).await;
    let _held = tenant.try_acquire_many(2).await.unwrap();

    let all = tell(&server, &["limit", "ls"]).out;
    let row = |of: &str| all.lines().find(|line| line.contains(of)).expect("a row");
    assert!(row("label tenant:{id}").starts_with("2  "), "{all}");
    let render = row("render");
    assert!(render.starts_with("0  ") && render.contains("ann"), "{all}");
    assert!(
        render.ends_with(r"incident \u{1b}[2J42") || render.ends_with("incident  [2J42"),
        "{all}"
    );
    let shown = tell(&server, &["show", "tenant:acme"]).out;
    assert!(shown.contains("limit 2, set for label `tenant:{id}` by "), "{shown}");
    let lines = tell(&server, &["limit", "ls", "--json"]).out;
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((&first["label"], &first["limit"]), (&"tenant:{id}".into(), &2.into()), "{lines}");
    let listed = tell(&server, &["ls", "--json", "tenant:*"]).out;
    let listed: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    assert_eq!(listed["limit"]["limit"], 2);

    let unset = tell(&server, &["limit", "unset", "render"]);
    assert_eq!((unset.code, &*unset.out), (0, "render: the limit of the code holds again\n"));
    until("the limit is gone", async || pool.try_acquire().await.is_ok()).await;
    let again = tell(&server, &["limit", "unset", "render", "--json"]);
    let said: Value = serde_json::from_str(&again.err).unwrap();
    assert_eq!((again.code, &said["error"]), (1, &"not_set".into()), "{again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_a_limit_is_refused_with_words() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let _mutex = locks.mutex("order").lock().await.unwrap();
    let _heavy = locks.semaphore("render", 5).acquire_many(4).await.unwrap();
    for (of, limit, what) in [
        ("order", "3", "only semaphores have a limit"),
        ("render", "3", "holds 4 of it"),
        ("render", "-1", "not in"),
        ("render", "4294967296", "not in"),
        ("", "3", "empty"),
    ] {
        let told = tell(&server, &["limit", "set", "--", of, limit]);
        assert!(told.code == 125 && told.err.contains(what), "{of} {limit}: {told:?}");
    }
    assert!(locks.limits().list().await.unwrap().is_empty());
    // A command under permits that are closed does not run.
    locks.limits().name("cron").by("ann").set(0).await.unwrap();
    let told = tell(&server, &["run", "cron", "--permits", "2", "--", "true"]);
    assert!(told.code == 120 && told.err.contains("ann has set the limit"), "{told:?}");
}
