//! One lock in trouble among many is found, and an outage hides nothing that was known.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leasehold::{Locks, Wait};
use leasehold_tests::cluster::Cluster;
use leasehold_tests::process::tool;
use leasehold_tests::server::Server;
use leasehold_tests::waiting;
use serde_json::Value;

use super::{Told, on, tell, told, until, with};

/// The names in the first column.
fn names(told: &Told) -> Vec<&str> {
    told.out.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_opens_with_trouble() {
    let server = Server::start_skewed();
    let client = async |service: &str| {
        Locks::builder().service(service).connect(&server.url()).await.unwrap()
    };
    let (billing, search) = (client("billing").await, client("search").await);
    let _old = billing.mutex("c:old").note("TICKET-7").lock().await.unwrap();
    server.jump(Duration::from_millis(20));
    let _new = search.mutex("b:new").owner("worker-7").lock().await.unwrap();
    // The server knows a semaphore's times in milliseconds alone.
    server.jump(Duration::from_millis(20));
    let _wanted = search.semaphore("d:wanted", 1).acquire().await.unwrap();
    let waiter = billing.semaphore("d:wanted", 1).wait(Wait::Forever);
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    waiting::until("it waits", async || search.inspect("d:wanted").await.unwrap().waiting > 0)
        .await;
    until("clients have names", || tell(&server, &["ls"]).out.matches('@').count() == 3);

    let all = tell(&server, &["ls"]);
    assert_eq!(names(&all), ["d:wanted", "c:old", "b:new"], "{all:?}");
    for said in ["3 locks, 1 waiting", "longest hold", "longest wait"] {
        assert!(all.err.contains(said), "{said}: {all:?}");
    }
    let chosen = |arguments: &[&str]| {
        let told = tell(&server, &[&["ls"], arguments].concat());
        assert_eq!(told.code, 0, "{told:?}");
        names(&told).join(" ")
    };
    assert_eq!(chosen(&["--sort", "name"]), "b:new c:old d:wanted");
    assert_eq!(chosen(&["--sort", "held", "?:[a-z]*"]), "");
    assert_eq!(chosen(&["--sort", "held"]), "c:old b:new d:wanted");
    assert_eq!(chosen(&["--sort", "waiting", "--limit", "1"]), "d:wanted");
    assert_eq!(chosen(&["--waiting"]), "d:wanted");
    assert_eq!(chosen(&["--holder", "billing@"]), "c:old");
    assert_eq!(chosen(&["--holder", "TICKET"]), "c:old");
    assert_eq!(chosen(&["--holder", "worker-7"]), "b:new");
    assert_eq!(chosen(&["--waiter", "billing@"]), "d:wanted");
    assert_eq!(chosen(&["--kind", "semaphore"]), "d:wanted");
    assert_eq!(chosen(&["--idle"]), "");
    assert_eq!(chosen(&["--held-longer-than", "1ms", "c:*"]), "c:old");
    let none = tell(&server, &["ls", "--held-longer-than", "1h"]);
    assert!(none.err.contains("none of the locks that you chose"), "{none:?}");
    let some = tell(&server, &["ls", "--limit", "1"]);
    assert!(some.err.contains("2 not shown"), "{some:?}");

    let json = tell(&server, &["ls", "--json", "--sort", "name", "--limit", "2"]).out;
    let rows: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&rows[0]["name"], rows.len()), (&"b:new".into(), 2));
    let json = tell(&server, &["ls", "--json", "--waiting"]).out;
    assert_eq!(json.lines().count(), 1, "{json}");
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefixes_are_listed() {
    let server = Server::start();
    let mut leases = Vec::new();
    for prefix in ["billing", "search:eu"] {
        let locks = Locks::builder().prefix(prefix).connect(&server.url()).await.unwrap();
        leases.push(locks.mutex("a:lock:b").lock().await.unwrap());
    }
    assert_eq!(tell(&server, &["prefixes"]).out, "billing\nsearch:eu\n");
    let json = tell(&server, &["prefixes", "--json"]).out;
    assert_eq!(json.lines().next(), Some(r#"{"prefix":"billing"}"#));
    assert!(tell(&server, &["ls"]).err.contains("leasehold prefixes"));
}

/// Its own locks are missing, and that is said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_hides_no_lock_of_the_others() {
    // Nobody takes over, and nobody says so for a while.
    let cluster = Cluster::start_with(0, Duration::from_secs(600)).await;
    let locks = Locks::connect(&cluster.url()).await.unwrap();
    let mut leases = Vec::new();
    for number in 0..60 {
        leases.push(locks.mutex(format!("order:{number}")).ttl(Duration::from_secs(600)));
    }
    let leases = futures_util::future::join_all(leases.iter().map(leasehold::Mutex::lock)).await;
    assert!(leases.iter().all(Result::is_ok));
    cluster.nodes()[0].kill().await;
    let ls = |arguments: &[&str]| {
        told(tool().env("REDIS_URL", cluster.url()).args(arguments).stdin(Stdio::null()))
    };
    let told = ls(&["ls", "--sort", "name"]);
    let seen = names(&told).len();
    assert!((20..60).contains(&seen), "{seen}: {told:?}");
    assert_eq!(told.code, 123, "{told:?}");
    assert!(told.err.contains("some locks are missing"), "{told:?}");
    let json = ls(&["ls", "--json"]);
    assert_eq!((json.out.lines().count(), json.code), (seen, 123), "{json:?}");
}

/// Runs the tool on a terminal, and reads what it shows.
pub(super) fn on_terminal(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    let spawn = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    command.args(["-c", spawn]).arg(tool().get_program()).args(arguments);
    command.env("REDIS_URL", server.url()).env_remove("LEASEHOLD_PREFIX");
    command
}

/// False if the tool has ended, as it does where the first connection takes too long.
fn shows(what: &str, watch: &mut Child) -> bool {
    let (mut part, mut seen) = ([0; 4096], String::new());
    loop {
        let length = watch.stdout.as_mut().unwrap().read(&mut part).unwrap();
        seen += &String::from_utf8_lossy(&part[..length]);
        // One look after the other.
        let last = seen.rsplit("\x1b[H").nth(1).unwrap_or_default();
        if length == 0 || last.contains(what) && last.contains("order:42") {
            return length > 0;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_leaves_the_last_table() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let _lease = locks.mutex("order:42").ttl(Duration::from_secs(600)).lock().await.unwrap();
    let start = || {
        let mut watch = on_terminal(&server, &["watch", "--interval", "50ms"]);
        watch.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut watch = start();
    while !shows("1 lock", &mut watch) {
        watch = start();
    }
    let frozen = server.freeze().await;
    assert!(shows("ago\u{1b}[K\r\nthe lock store", &mut watch));
    drop(frozen);
    assert!(shows("1 lock", &mut watch));
    watch.kill().unwrap();
    let _ = watch.wait();
}

/// A program that reads it learns of the outage, and of its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_goes_on_after_an_outage() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let _lease = locks.mutex("order:42").ttl(Duration::from_secs(600)).lock().await.unwrap();
    let mut watch = leasehold_tests::process::Process::start(
        with(&server, &["watch", "--json", "--interval", "50ms"]).stdin(Stdio::null()),
    );
    let mut next = |field: &str| {
        until(field, || {
            let line: Value = serde_json::from_str(&watch.line().expect("it goes on")).unwrap();
            !line[field].is_null()
        });
    };
    next("lock");
    let frozen = server.freeze().await;
    next("error");
    drop(frozen);
    next("lock");
    drop(on(&server));
}
