//! The tool on each kind of URL.

use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold_tests::cluster::Cluster;
use leasehold_tests::process::{Process, tool};
use leasehold_tests::sentinel::Sentinel;
use leasehold_tests::server::Server;
use leasehold_tests::tls::{Tls, authority};

use super::{Folder, told};

/// Runs a command under a lock, and looks at the lock and frees it meanwhile.
fn works(url: &str) {
    let on = |arguments: &[&str]| -> Command {
        let mut command = tool();
        command.env("REDIS_URL", url).env_remove("LEASEHOLD_PREFIX").stdin(Stdio::null());
        command.env("SSL_CERT_FILE", authority()).env_remove("SSL_CERT_DIR").args(arguments);
        command
    };
    let tell = |arguments: &[&str]| told(&mut on(arguments));
    let script = ["run", "order:42", "--wait", "30s", "--", "sh", "-c", "echo ready; sleep 600"];
    let mut run = Process::start(&mut on(&script));
    assert_eq!(run.line().as_deref(), Some("ready"), "{url}");
    let listed = tell(&["ls", "order:*"]);
    assert!(listed.out.contains("mutex"), "{url}: {listed:?}");
    let shown = tell(&["show", "order:42"]);
    assert!(shown.out.contains("held by 1"), "{url}: {shown:?}");
    let forced = tell(&["force", "order:42", "--yes"]);
    assert!(forced.out.contains("order:42: taken from 1 holder"), "{url}: {forced:?}");
    assert_eq!(run.code(), 121, "{url}");
    let doctor = tell(&["doctor", "--json"]);
    let diagnosis: serde_json::Value = serde_json::from_str(&doctor.out).unwrap();
    assert!(diagnosis["facts"].as_array().unwrap().len() > 5, "{url}: {doctor:?}");
}

#[test]
fn the_tool_works_over_tls() {
    works(&Tls::start().url());
}

#[test]
fn the_tool_works_over_a_unix_socket() {
    let folder = Folder::new();
    let path = folder.0.join("s");
    let path = path.to_str().unwrap();
    // The system allows about a hundred bytes.
    assert!(path.len() < 100, "{path}");
    let _server = Server::start_with(&["--unixsocket", path]);
    works(&format!("unix://{path}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tool_works_with_sentinels() {
    let sentinel = Sentinel::start(1, Duration::from_secs(15)).await;
    works(&sentinel.url());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tool_works_on_a_cluster() {
    works(&Cluster::start().await.url());
}
