//! The tool `leasehold`, as processes on one server.

mod choosing;
mod clocked;
mod cost;
mod deployments;
mod forcing;
mod in_cron;
mod in_schedulers;
mod jobs;
mod limits;
mod looking;
mod losing;
mod options;
mod running;
mod signals;
mod wrong_clocks;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold_tests::process::tool;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until_blocking as until;

/// The tool for a server.
fn on(server: &Server) -> Command {
    let mut command = tool();
    command.env("REDIS_URL", server.url()).env_remove("LEASEHOLD_PREFIX").stdin(Stdio::null());
    command
}

/// The tool with these arguments.
fn with(server: &Server, arguments: &[&str]) -> Command {
    let mut command = on(server);
    command.args(arguments);
    command
}

/// What the tool did.
#[derive(Debug)]
struct Told {
    code: i32,
    out: String,
    err: String,
}

/// Runs a command to its end.
fn told(command: &mut Command) -> Told {
    let told = command.output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Told { code: told.status.code().unwrap_or(-1), out: text(told.stdout), err: text(told.stderr) }
}

/// Runs the tool with these arguments to its end.
fn tell(server: &Server, arguments: &[&str]) -> Told {
    told(&mut with(server, arguments))
}

/// A folder for the files of a test's processes, which is removed when this is dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tool-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(file)).unwrap_or_default()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
