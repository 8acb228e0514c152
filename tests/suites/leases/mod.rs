//! What a lease promises from its grant to its end, on real servers: that dropping
//! anything leaves nothing, how a client ends, how a loss is reported, and what many leases
//! cost.

mod broken_clients;
mod cancel;
#[cfg(target_os = "linux")]
mod cost;
#[cfg(target_os = "linux")]
mod leaks;
mod shutdown;
mod standstill;
mod unreachable;

use std::process::Command;
use std::time::Duration;

use leasehold_tests::process::Process;
use leasehold_tests::server::Server;

/// Longer than any of these tests waits for what is to come at once.
const TTL: Duration = Duration::from_secs(30);

/// A worker that is not waited for.
fn worker(server: &Server, arguments: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    Process::start(command.arg(server.url()).args(arguments))
}

/// A worker that has printed that it is ready.
fn ready(server: &Server, arguments: &[&str]) -> Process {
    let mut worker = worker(server, arguments);
    assert_eq!(worker.line().as_deref(), Some("ready"), "{arguments:?}");
    worker
}

/// A server on which nothing ends by itself, where that can be had: what is free was
/// given back.
fn timeless() -> Server {
    #[cfg(target_os = "linux")]
    {
        let server = Server::start_skewed();
        server.stop_clock();
        server
    }
    #[cfg(not(target_os = "linux"))]
    Server::start()
}

/// Whether there is time: `./tests/run long`.
#[cfg(target_os = "linux")]
fn is_long() -> bool {
    std::env::var_os("LONG").is_some()
}
