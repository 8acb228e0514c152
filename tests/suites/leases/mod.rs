//! The promises of a lease from its grant to its end, on real servers: a drop leaves nothing, a
//! client ends cleanly, losses are reported, and many leases cost little.

mod broken_clients;
mod cancel;
#[cfg(target_os = "linux")]
mod cost;
mod dropped;
mod gone;
#[cfg(target_os = "linux")]
mod leaks;
#[cfg(target_os = "linux")]
mod lingering;
mod no_timers;
mod outlived;
#[cfg(feature = "servers")]
mod sent_again;
mod shutdown;
mod standstill;
mod unreachable;

use std::process::Command;
use std::time::Duration;

use leasehold_tests::process::Process;
use leasehold_tests::server::Server;

/// Longer than any of these tests waits for an event that comes at once.
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

/// A server on which nothing expires, if the platform allows that. A free lock was released.
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

/// True under `./tests/run long`.
#[cfg(target_os = "linux")]
fn is_long() -> bool {
    std::env::var_os("LONG").is_some()
}
