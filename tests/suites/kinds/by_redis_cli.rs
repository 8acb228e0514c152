//! What docs/guide/troubleshooting.md tells an operator to type shows and frees a lock.

use std::path::Path;
use std::process::{self, Command};

use leasehold::{Lease, Locks, LossReason};
use leasehold_tests::server::Server;

/// The page's shell commands that contain these words.
fn commands(words: &str) -> String {
    let page = include_str!("../../../docs/guide/troubleshooting.md");
    let mut blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.find(|block| block.contains(words)).expect("the page has them").to_owned()
}

/// Runs commands at the root of the repository, and gives the lines they print.
fn run(server: &Server, commands: &str) -> Vec<String> {
    let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.lua", server.port()));
    let commands = commands.replace("redis-cli", &format!("redis-cli -p {}", server.port()));
    let commands = commands.replace("/tmp/force.lua", script.to_str().expect("UTF-8"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let told = Command::new("sh").args(["-euc", &commands]).current_dir(root).output();
    let told = told.expect("a shell");
    let _ = std::fs::remove_file(script); // the first commands write none
    assert!(told.status.success(), "is redis-cli installed? {told:?}");
    String::from_utf8(told.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

async fn forces(server: &Server, lease: Lease) {
    let (name, old) = (lease.key().name(), lease.fence().ok());
    let force = commands("--eval").replace("{order:42}", &format!("{{{name}}}"));
    let told = run(server, &force);
    assert_eq!(told[..2], ["1", "1"], "{name}: {told:?}");
    assert_eq!(lease.lost().await, LossReason::Forced, "{name}");
    let fence: u64 = told[2].parse().unwrap();
    assert!(old.is_none_or(|old| fence > u64::from(old)), "{name}: {told:?}, {old:?}");
    assert_eq!(run(server, &force), ["0"], "{name}: nobody holds it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_shows_and_frees_a_lock() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let lease = locks.mutex("order:42").lock().await.unwrap();
    let told = run(&server, &commands("GETRANGE"));
    let [state, client, token, left] = &told[..4] else { panic!("{told:?}") };
    assert_eq!(state, "MH");
    assert_eq!(token.parse(), Ok(u64::from(lease.fence().unwrap())));
    assert!((1..=30_000).contains(&left.parse::<u32>().unwrap()), "{left}");
    // The client introduces itself in the background.
    let (show, process) = (commands("GETRANGE").replace("THE-CLIENT", client), process::id());
    let is_named = |_| run(&server, &show).contains(&process.to_string());
    assert!((0..200).any(is_named), "{process} is not named");
    forces(&server, lease).await;

    let permit = locks.semaphore("thumbnails", 3).acquire().await.unwrap();
    let holders = run(&server, &commands("ZRANGE"));
    assert!(holders[0].starts_with(client.as_str()), "{holders:?}");
    forces(&server, permit).await;
    forces(&server, locks.rw_lock("catalogue").write().await.unwrap()).await;
}
