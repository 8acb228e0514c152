//! Nothing works without the lock: whatever dies, a command has ended when another has its lock.

use std::process::Command;

use leasehold::{Forced, Locks};
use leasehold_tests::process::Process;
use leasehold_tests::server::{Server, signal};

use super::{Folder, tell, told, until, with};

/// Ignores TERM, and works: the file grows.
const WORK: &str = "trap '' TERM; while :; do echo work >> work; sleep 0.01; done";

/// Ends well if nobody works any more.
const LOOK: &str = "a=$(wc -c < work); sleep 0.3; b=$(wc -c < work); echo $a $b; [ $a = $b ]";

/// Starts this script under the lock, and waits until it works.
fn start(server: &Server, folder: &Folder, options: &[&str], script: &str) -> Process {
    let mut command = with(server, &["run", "k"]);
    command.args(options).args(["--", "sh", "-c", script]).current_dir(&folder.0);
    let process = Process::start(&mut command);
    until("it works", || !folder.read("work").is_empty());
    process
}

/// The next holder finds nobody at work.
fn next_is_alone(server: &Server, folder: &Folder) {
    let mut next = with(server, &["run", "k", "--wait", "1m", "--", "sh", "-c", LOOK]);
    let told = told(next.current_dir(&folder.0));
    assert_eq!(told.code, 0, "someone works without the lock: {told:?}");
}

/// Nobody works, whoever has the lock: the file does not grow while another grows by the same work.
fn nobody_works(folder: &Folder) {
    let (before, beside) = (folder.read("work").len(), Folder::new());
    let mut another = Command::new("sh");
    let mut another = Process::start(another.args(["-c", WORK]).current_dir(&beside.0));
    until("another works", || beside.read("work").lines().count() > 20);
    another.kill();
    assert_eq!(folder.read("work").len(), before, "someone works without the lock");
}

#[test]
fn the_tool_is_killed() {
    let (server, folder) = (Server::start(), Folder::new());
    let mut process = start(&server, &folder, &["--ttl", "2s"], WORK);
    process.kill();
    next_is_alone(&server, &folder);
}

/// The command does not go on until the lease ends.
#[test]
fn the_tool_is_killed_long_before_the_lease_ends() {
    let (server, folder) = (Server::start(), Folder::new());
    let polite =
        "trap 'echo bye > bye; exit' TERM; while :; do echo work >> work; sleep 0.01; done";
    let mut process = start(&server, &folder, &["--ttl", "1h"], polite);
    process.kill();
    until("the command has TERM", || folder.read("bye") == "bye\n");
    nobody_works(&folder);
}

#[test]
fn the_tool_is_stopped_for_longer_than_the_lease_lasts() {
    let (server, folder) = (Server::start(), Folder::new());
    let mut process = start(&server, &folder, &["--ttl", "2s"], WORK);
    signal("-STOP", &process.pid());
    next_is_alone(&server, &folder);
    signal("-CONT", &process.pid());
    assert_eq!(process.code(), 121);
}

#[test]
fn the_guard_is_killed() {
    let (server, folder) = (Server::start(), Folder::new());
    let script = format!("echo $PPID > guard; {WORK}");
    let mut process = start(&server, &folder, &[], &script);
    signal("-KILL", folder.read("guard").trim());
    assert_eq!(process.code(), 125);
    nobody_works(&folder);
    next_is_alone(&server, &folder);
}

#[test]
fn the_guard_is_stopped() {
    let (server, folder) = (Server::start(), Folder::new());
    let script = format!("echo $PPID > guard; {WORK}");
    let mut process = start(&server, &folder, &["--ttl", "3s", "--max-hold", "3s"], &script);
    signal("-STOP", folder.read("guard").trim());
    next_is_alone(&server, &folder);
    assert_eq!(process.code(), 121);
}

#[tokio::test]
async fn redis_is_killed() {
    let (server, folder) = (Server::start(), Folder::new());
    let mut process = start(&server, &folder, &["--ttl", "2s"], WORK);
    server.kill().await;
    assert_eq!(process.code(), 121);
    nobody_works(&folder);
}

/// Nothing says that the connection is of no use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_silent() {
    let (server, folder) = (Server::start(), Folder::new());
    let mut process = start(&server, &folder, &["--ttl", "2s"], WORK);
    let frozen = server.freeze().await;
    assert_eq!(process.code(), 121);
    nobody_works(&folder);
    drop(frozen);
    next_is_alone(&server, &folder);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_is_taken_by_force() {
    let (server, folder) = (Server::start(), Folder::new());
    let locks = Locks::connect(&server.url()).await.unwrap();
    // It has a chance to end by itself.
    let polite = "trap 'echo bye; exit 0' TERM; echo work >> work; while :; do sleep 0.01; done";
    let mut process = start(&server, &folder, &[], polite);
    assert!(matches!(locks.force_release("k").await, Ok(Forced::Released { .. })));
    assert_eq!(process.rest(), ["bye"]);
    assert_eq!(process.code(), 121);

    let mut process = start(&server, &folder, &["--grace", "100ms"], WORK);
    until("it holds the lock", || tell(&server, &["show", "k"]).out.contains("held by 1"));
    assert!(matches!(locks.force_release("k").await, Ok(Forced::Released { .. })));
    assert_eq!(process.code(), 121);
    nobody_works(&folder);
}

/// Whoever frees its lock by force lets two work. So they are told how to end it.
#[test]
fn an_operator_is_told_how_to_end_the_command() {
    let (server, folder) = (Server::start(), Folder::new());
    let mut process = start(&server, &folder, &["--grace", "100ms"], WORK);
    let listed = tell(&server, &["ls"]).out;
    assert!(listed.contains("leasehold run sh@"), "{listed}");
    let shown = tell(&server, &["show", "k"]).out;
    let pid = process.pid();
    for line in [format!("kill {pid}; kill -CONT {pid}\n"), format!("pkill -KILL -P {pid}\n")] {
        assert!(shown.contains(&line), "{shown}");
    }
    let forced = tell(&server, &["force", "k", "--yes"]);
    let warned = forced.err.find("its command works on").expect(&forced.err);
    assert!(forced.err.find("to end it").is_some_and(|told| told < warned), "{}", forced.err);
    assert_eq!(process.code(), 121);
}

/// A tool that is stopped takes no signal but this. What it is told to do wakes it.
#[test]
fn a_stopped_tool_that_is_woken_ends_its_command() {
    let (server, folder) = (Server::start(), Folder::new());
    let script = WORK.replace("trap '' TERM; ", "");
    let mut process = start(&server, &folder, &["--ttl", "1m"], &script);
    let pid = process.pid();
    signal("-STOP", &pid);
    signal("-TERM", &pid);
    signal("-CONT", &pid);
    process.code();
    nobody_works(&folder);
    next_is_alone(&server, &folder);
}

#[test]
fn the_longest_hold_is_over() {
    let (server, folder) = (Server::start(), Folder::new());
    let mut process = start(&server, &folder, &["--max-hold", "2s"], WORK);
    next_is_alone(&server, &folder);
    assert_eq!(process.code(), 121);
}

/// All processes of a pipeline end, not the shell alone.
#[test]
fn a_pipeline_ends_as_a_whole() {
    let (server, folder) = (Server::start(), Folder::new());
    let pipeline = format!("({WORK}) | ({WORK}) | cat");
    let mut process = start(&server, &folder, &["--ttl", "2s"], &pipeline);
    process.kill();
    next_is_alone(&server, &folder);
}

/// What a command leaves behind ends before the lock is released.
#[test]
fn nothing_outlives_the_command() {
    let (server, folder) = (Server::start(), Folder::new());
    let script = format!("({WORK}) & until [ -s work ]; do sleep 0.01; done; exit 3");
    let mut process = start(&server, &folder, &["--ttl", "4s"], &script);
    next_is_alone(&server, &folder);
    assert_eq!(process.code(), 3);
}

/// A newer command takes the place, when the older one has ended.
#[test]
fn a_newer_command_replaces_it() {
    let (server, folder) = (Server::start(), Folder::new());
    let options = ["--ttl", "10s", "--grace", "200ms", "--replace", "--wait", "1m"];
    let mut older = start(&server, &folder, &options, WORK);
    let mut newer = with(&server, &["run", "k"]);
    newer.args(options).args(["--", "sh", "-c", LOOK]).current_dir(&folder.0);
    let newer = told(&mut newer);
    assert_eq!(newer.code, 0, "someone works without the lock: {newer:?}");
    assert_eq!(older.code(), 121);
    let refused = tell(&server, &["run", "k", "--replace", "--", "true"]);
    assert!(refused.code == 125 && refused.err.contains("--wait"), "{refused:?}");
}
