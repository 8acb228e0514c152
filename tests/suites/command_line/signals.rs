//! Signals to the tool.

use leasehold::Locks;
use leasehold_tests::process::Process;
use leasehold_tests::server::{Server, signal};
use leasehold_tests::waiting;

use super::{until, with};

/// True if this process ignores a signal, and so does all that it starts: under `nohup`, HUP.
fn is_ignored(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).unwrap());
    mask & (1 << (number - 1)) != 0
}

#[test]
fn signals_are_passed_on() {
    let server = Server::start();
    let signals = [("TERM", 15), ("INT", 2), ("HUP", 1), ("QUIT", 3), ("USR1", 10), ("USR2", 12)];
    for (name, _) in signals.into_iter().filter(|&(_, number)| !is_ignored(number)) {
        let script =
            format!("trap 'echo {name}; exit 9' {name}; echo ready; while :; do sleep 0.02; done");
        let mut process =
            Process::start(&mut with(&server, &["run", "k", "--", "sh", "-c", &script]));
        assert_eq!(process.line().as_deref(), Some("ready"));
        signal(&format!("-{name}"), &process.pid());
        assert_eq!(process.rest(), [name]);
        assert_eq!(process.code(), 9, "{name}");
    }
    // A command without a trap dies of it.
    let mut process =
        Process::start(&mut with(&server, &["run", "k", "--", "sh", "-c", "echo; sleep 600"]));
    process.line();
    signal("-TERM", &process.pid());
    assert_eq!(process.code(), 143);
}

/// `nohup` lets its command ignore HUP, and the tool leaves it at that.
#[cfg(target_os = "linux")]
#[test]
fn an_ignored_signal_is_ignored() {
    let server = Server::start();
    let tool = with(&server, &[]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", r#"trap '' HUP; exec "$@""#, "sh"]).arg(tool.get_program());
    command.env("REDIS_URL", server.url());
    let mut process = Process::start(command.args([
        "run",
        "k",
        "--",
        "sh",
        "-c",
        "echo ready; kill -HUP $$; echo on; read x",
    ]));
    assert_eq!(process.line().as_deref(), Some("ready"));
    signal("-HUP", &process.pid());
    assert_eq!(process.line().as_deref(), Some("on"));
    assert_eq!(process.code(), 1, "`read` finds the end of its input");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_is_interrupted_leaves_the_queue() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let lease = locks.mutex("k").lock().await.unwrap();
    let mut process =
        Process::start(&mut with(&server, &["run", "k", "--wait", "forever", "--", "echo", "ran"]));
    waiting::until("it waits", async || locks.inspect("k").await.unwrap().waiting > 0).await;
    // Whoever runs the tests in the background may have made them ignore INT.
    signal("-TERM", &process.pid());
    assert!(process.rest().is_empty());
    assert_eq!(process.code(), 143);
    assert_eq!(locks.inspect("k").await.unwrap().waiting, 0);
    lease.release().await.unwrap();
    until("another runs", || {
        super::tell(&server, &["run", "k", "--wait", "10s", "--", "true"]).code == 0
    });
}
