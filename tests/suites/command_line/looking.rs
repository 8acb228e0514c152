//! What the tool shows of locks, and what it serves.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use leasehold::Locks;
use leasehold_tests::process::Process;
use leasehold_tests::server::{Server, signal};
use leasehold_tests::waiting;
use serde_json::Value;

use super::{Folder, tell, told, until, with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_are_listed_and_shown() {
    let server = Server::start();
    let none = tell(&server, &["ls"]);
    assert_eq!((none.code, none.out.lines().count()), (0, 1), "{none:?}");
    assert!(none.err.contains("`leasehold`"), "it says the prefix: {none:?}");

    let locks = Locks::builder().service("billing").connect(&server.url()).await.unwrap();
    let mutex = locks.mutex("order:42").owner("worker-7").note("TICKET-7");
    let lease = mutex.lock().await.unwrap();
    let _permits = locks.semaphore("reports", 3).acquire_many(2).await.unwrap();
    let other = Locks::connect(&server.url()).await.unwrap();
    let waiter = tokio::spawn(async move { other.mutex("order:42").lock().await.map(drop) });
    waiting::until("it waits", async || locks.inspect("order:42").await.unwrap().waiting > 0).await;
    // A client introduces itself in the background.
    until("the client has a name", || tell(&server, &["ls"]).out.matches("billing@").count() == 2);

    let all = tell(&server, &["ls"]).out;
    let row = all.lines().find(|line| line.starts_with("order:42 ")).expect("a row");
    for text in ["mutex", &format!("billing@{}", ""), "worker-7", "TICKET-7"] {
        assert!(row.contains(text), "{row}");
    }
    assert_eq!(row.split_whitespace().nth(4), Some("1"), "one waits: {row}");
    assert!(row.contains(&format!(":{}", std::process::id())), "{row}");
    let some = tell(&server, &["ls", "rep*"]).out;
    assert_eq!((some.lines().count(), some.contains(" sem 2/3 ")), (2, true), "{some}");

    let shown = tell(&server, &["show", "order:42"]).out;
    let fence = lease.fence().unwrap().to_string();
    for text in ["held by 1, 1 waiting", "worker-7", "TICKET-7", &fence, "waiter", "held for"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let free = tell(&server, &["show", "nobody"]);
    assert_eq!(
        (free.code, free.out.contains("free under the prefix `leasehold`, 0 waiting")),
        (0, true),
        "{free:?}"
    );

    let lines = tell(&server, &["ls", "--json"]).out;
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let order = rows.iter().find(|row| row["name"] == "order:42").unwrap();
    assert_eq!(order["holders"][0]["note"], "TICKET-7");
    let shown: Value =
        serde_json::from_str(&tell(&server, &["show", "--json", "order:42"]).out).unwrap();
    assert_eq!((&shown["waiting"], shown["holders"][0]["fence"].to_string()), (&1.into(), fence));

    let mut watch = Process::start(&mut with(&server, &["watch", "--interval", "50ms", "order:*"]));
    assert!(watch.line().unwrap().contains("1 lock, 1 waiting, longest hold"));
    assert!(watch.line().unwrap().starts_with("NAME"));
    assert!(watch.line().unwrap().starts_with("order:42"));
    signal("-TERM", &watch.pid());
    assert_eq!(watch.code(), 0);
    let mut watch = Process::start(&mut with(&server, &["watch", "--json", "order:*"]));
    let seen: Value = serde_json::from_str(&watch.line().unwrap()).unwrap();
    assert_eq!(seen["lock"]["name"], "order:42");
    drop(lease);
    waiter.await.unwrap().unwrap();
}

/// Names, notes and services are chosen by others. No terminal obeys them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_texts_do_no_harm() {
    const EVIL: &str = "x\u{1b}]0;owned\u{7}\u{1b}[2J\r\u{9b}31m\u{202e}y\u{200b}";
    let server = Server::start();
    let locks = Locks::builder().service(EVIL).connect(&server.url()).await.unwrap();
    let name = "order:\u{202e}24\u{2066}";
    let _lease = locks.mutex(name).note(EVIL).owner("o\u{202e}o").lock().await.unwrap();
    until("the client has a name", || tell(&server, &["ls"]).out.contains('@'));

    let mut watch = Process::start(&mut with(&server, &["watch", "--interval", "10ms"]));
    let watched = (0..3).filter_map(|_| watch.line()).collect::<Vec<_>>().join("\n");
    let forced = tell(&server, &["force", name, "--yes", "--reason", EVIL]);
    let error = tell(&server, &["force", name, "--yes"]);
    let missing = tell(&server, &["run", "k", "--", EVIL]);
    let listed = {
        let _lease = locks.mutex(name).note(EVIL).owner("o\u{202e}o").lock().await.unwrap();
        [tell(&server, &["ls"]).out, tell(&server, &["show", name]).out]
    };
    let texts =
        [&listed[0], &listed[1], &watched, &forced.out, &forced.err, &error.err, &missing.err];
    for text in texts {
        let is_evil =
            |c: char| c != '\n' && (c.is_control() || "\u{202e}\u{2066}\u{200b}".contains(c));
        assert!(!text.contains(is_evil), "{text:?}");
        assert!(text.contains(r"\u{"), "it hides what it was: {text:?}");
    }
    let _lease = locks.mutex(name).lock().await.unwrap();
    let json = tell(&server, &["ls", "--json"]).out;
    assert!(!json.contains('\u{1b}'), "{json:?}");
    let lock: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&lock["name"], &lock["holders"][0]["client"]["service"]),
        (&name.into(), &EVIL.into())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_pipe_ends_a_list_quietly() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut leases = Vec::new();
    for number in 0..400 {
        // More than a pipe holds.
        let name = format!("{number}:{}", "x".repeat(300));
        leases.push(locks.mutex(name).lock().await.unwrap());
    }
    for arguments in [&["ls"][..], &["ls", "--json"], &["watch", "--interval", "1ms"]] {
        let mut child = with(&server, arguments);
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert_eq!((ended.status.code(), &*ended.stderr), (Some(0), &b""[..]), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn colours_are_for_terminals() {
    let server = Server::start();
    assert!(!tell(&server, &["ls"]).out.contains('\u{1b}'));
    // The tool takes its output for a terminal.
    let forced = told(with(&server, &["ls"]).env("CLICOLOR_FORCE", "1"));
    assert!(forced.out.contains("\u{1b}["), "{forced:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_is_served_to_this_machine_alone() {
    let server = Server::start();
    let refused = tell(&server, &["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.code, 125);
    assert!(refused.err.contains("--allow-remote"), "{refused:?}");

    let mut serve = Process::start(&mut with(&server, &["serve", "--listen", "127.0.0.1:0"]));
    let address = serve.line().expect("it says its address");
    let address = address.strip_prefix("http://").and_then(|it| it.strip_suffix('/')).unwrap();
    assert!(TcpStream::connect(address).is_ok(), "{address}");
    signal("-TERM", &serve.pid());
    assert_eq!(serve.code(), 0);
}

#[test]
fn the_doctor_answers() {
    let server = Server::start();
    let told = tell(&server, &["doctor", "--json"]);
    let diagnosis: Value = serde_json::from_str(&told.out).unwrap();
    let findings = diagnosis["findings"].as_array().unwrap();
    let is_bad = findings.iter().any(|finding| finding["severity"] == "problem");
    assert_eq!(told.code, i32::from(is_bad), "{told:?}");
    assert_eq!(tell(&server, &["doctor"]).code, told.code);
    assert_eq!(tell(&server, &["doctor", "--strict"]).code, i32::from(!findings.is_empty()));
}

/// What the doctor finds comes with its meaning and what mends it, also if no server is there.
#[tokio::test]
async fn the_doctor_says_what_mends_it() {
    let server = Server::start();
    let found = tell(&server, &["doctor", "--strict"]);
    assert_eq!(found.code, 1, "{found:?}");
    for part in ["warning: persistence on 127.0.0.1:", "means:", "fix:", "appendonly yes"] {
        assert!(found.out.contains(part), "{part}: {found:?}");
    }
    server.kill().await;
    let away = tell(&server, &["doctor"]);
    assert_eq!(away.code, 1, "{away:?}");
    assert!(away.out.contains("problem: unreachable"), "{away:?}");
    let json: Value = serde_json::from_str(&tell(&server, &["doctor", "--json"]).out).unwrap();
    assert_eq!(json["findings"][0]["check"], "unreachable", "{json}");
}

#[test]
fn completions_and_pages_are_made() {
    let server = Server::start();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = tell(&server, &["completions", shell]);
        assert_eq!(script.code, 0, "{shell}");
        assert!(script.out.contains("leasehold") && script.out.contains("doctor"), "{shell}");
    }
    let page = tell(&server, &["man"]).out;
    assert!(page.contains(".TH leasehold") && page.contains("121"), "{page}");
    let folder = Folder::new();
    assert_eq!(tell(&server, &["man", "--out", folder.0.to_str().unwrap()]).code, 0);
    assert!(folder.read("leasehold-run.1").contains("max\\-hold"));
    // A password in the environment is on no page.
    let mut help = with(&server, &["help"]);
    let told = told(help.env("REDIS_URL", "redis://:sesame@localhost/"));
    assert!(told.out.contains("REDIS_URL") && !told.out.contains("sesame"), "{told:?}");
}

/// The one that hangs, and not the one whose lease ends first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_names_the_holder_that_has_held_longest() {
    let server = Server::start_skewed();
    let pool = async |service: &str| {
        let locks = Locks::builder().service(service).connect(&server.url()).await.unwrap();
        locks.semaphore("pool", 2)
    };
    let hangs = pool("hangs").await.ttl(Duration::from_secs(60)).note("old").acquire().await;
    server.jump(Duration::from_millis(50));
    let works = pool("works").await.ttl(Duration::from_secs(5)).note("new").acquire().await;
    let listed = tell(&server, &["ls"]).out;
    let row = listed.lines().nth(1).expect("a row");
    assert!(row.contains("hangs@") && row.contains(" +1") && row.ends_with("old"), "{listed}");
    drop((hangs, works));
}

/// As during a deployment that changes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_that_differ_are_named() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let _all = locks.semaphore("pool", 4).acquire_many(4).await.unwrap();
    let mut waiting = Vec::new();
    assert!(tell(&server, &["show", "pool"]).out.contains("  permits  4 of 4 are held\n"));
    assert!(tell(&server, &["ls"]).out.contains(" sem 4/4 "));
    for (limit, said) in
        [(4, "4 of 4 are held"), (8, "4 are held; callers disagree on the limit: 4 and 8")]
    {
        let other = Locks::connect(&server.url()).await.unwrap();
        waiting.push(tokio::spawn(async move {
            other.semaphore("pool", limit).wait(leasehold::Wait::Forever).acquire_many(4).await
        }));
        until("it waits", || tell(&server, &["show", "pool"]).out.contains(said));
    }
    assert!(tell(&server, &["ls"]).out.contains(" sem 4/4-8 "));
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

/// A process that is stopped renews nothing, whatever its lease says now.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_has_fallen_silent_is_shown_as_such() {
    let server = Server::start_skewed();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let lease = locks.mutex("order:42").ttl(Duration::from_secs(150)).lock().await.unwrap();
    let shown = || tell(&server, &["show", "order:42"]).out;
    until("its process is known", || shown().contains("its process    heard of"));
    let client = locks.inspect("order:42").await.unwrap().holders[0].client.clone().unwrap().id;
    let mut redis = server.redis().await;
    let key = format!("leasehold:client:{{{client}}}");
    // Its last word for now: it is to last for longer than this lease.
    let left = redis::cmd("PTTL").arg(&key).to_owned();
    let left = async || left.query_async::<u64>(&mut redis.clone()).await.unwrap();
    waiting::until("it is said", async || left().await >= 200_000).await;
    // As if it had said so, and got the lock, two minutes ago.
    server.jump(Duration::from_secs(120));
    let silent = shown();
    assert!(silent.contains("stopped, dead or cut off from Redis"), "{silent}");
    assert!(silent.contains("last heard of 2m0"), "{silent}");
    redis::cmd("DEL").arg(&key).exec_async(&mut redis).await.unwrap();
    assert!(shown().contains("its process    not known"));
    drop(lease);
}

/// Whoever is called after five minutes still learns whose the lock is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_is_known_for_as_long_as_its_leases() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let _short = locks.mutex("short").lock().await.unwrap();
    until("it has a name", || tell(&server, &["ls"]).out.contains('@'));
    let client = locks.inspect("short").await.unwrap().holders[0].client.clone().unwrap().id;
    let _long = locks.mutex("long").ttl(Duration::from_secs(600)).lock().await.unwrap();
    let mut redis = server.redis().await;
    let left = redis::cmd("PTTL").arg(format!("leasehold:client:{{{client}}}")).to_owned();
    waiting::until("it is known for longer", async || {
        left.query_async::<u64>(&mut redis).await.unwrap() > 600_000
    })
    .await;
    assert!(tell(&server, &["show", "long"]).out.contains("its process    heard of 0."));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_was_set_back_is_named() {
    let server = Server::start_skewed();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let _lease = locks.mutex("order:42").lock().await.unwrap();
    server.jump_back(Duration::from_secs(3_600));
    let shown = tell(&server, &["show", "order:42"]).out;
    assert!(shown.contains("the server's clock was set back, by 59m5"), "{shown}");
    assert!(!shown.contains("    held for"), "nobody knows it: {shown}");
}

/// Whoever waits learns what for, and a refusal says by whom.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_says_who_holds_the_lock() {
    let server = Server::start();
    let locks = Locks::builder().service("billing").connect(&server.url()).await.unwrap();
    let _lease = locks.mutex("backup").note("TICKET-7").lock().await.unwrap();
    until("the client has a name", || tell(&server, &["ls"]).out.contains("billing@"));
    let said = |told: &super::Told| {
        assert_eq!(told.code, 120, "{told:?}");
        let by = told.err.find("held by billing@").expect("a name");
        assert!(told.err[by..].contains("(TICKET-7)"), "{told:?}");
    };
    said(&tell(&server, &["run", "backup", "--", "true"]));
    let waited = tell(&server, &["run", "backup", "--wait", "3s", "--", "true"]);
    said(&waited);
    assert!(waited.err.starts_with("leasehold: waiting for `backup`: held by"), "{waited:?}");
    let quiet = tell(&server, &["run", "backup", "--quiet", "--wait", "3s", "--", "true"]);
    assert_eq!((quiet.code, &*quiet.err), (120, ""));
}

#[test]
fn who_forgets_the_dashes_is_told() {
    let server = Server::start();
    let told = tell(&server, &["run", "backup", "pg_dump"]);
    assert_eq!(told.code, 125);
    assert!(told.err.contains("tip: put `--` before the command"), "{told:?}");
    let help = tell(&server, &["run", "--help"]).out;
    for text in ["Global options:", "Exit codes:", "120"] {
        assert!(help.contains(text), "{help}");
    }
}
