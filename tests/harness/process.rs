//! Processes of a test's own: the worker beside this file, and the examples.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A process whose output is read line by line, and which is killed when this
/// is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts a program.
    ///
    /// # Panics
    ///
    /// If it can't be started.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self { child, input, output }
    }

    /// The next line that it prints. `None` after its end.
    ///
    /// # Panics
    ///
    /// If it is not UTF-8.
    pub fn line(&mut self) -> Option<String> {
        self.output.next().transpose().expect("UTF-8")
    }

    /// All other lines it prints, until its end.
    pub fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.line()).collect()
    }

    /// Ends its input, which lets a worker go on.
    pub fn go_on(&mut self) {
        self.input = None;
    }

    /// Kills it, with SIGKILL.
    ///
    /// # Panics
    ///
    /// If it can't be killed.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Waits for its end, and says whether that was a success.
    ///
    /// # Panics
    ///
    /// If it can't be waited for.
    pub fn is_success(&mut self) -> bool {
        self.go_on();
        self.child.wait().expect("it ends").success()
    }

    /// Waits for its end, and gives its exit code; -1 if a signal ended it.
    ///
    /// # Panics
    ///
    /// If it can't be waited for.
    pub fn code(&mut self) -> i32 {
        self.go_on();
        self.child.wait().expect("it ends").code().unwrap_or(-1)
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The tool's program, which `cargo test --workspace` has built beside the tests.
///
/// # Panics
///
/// If it was not built.
#[must_use]
pub fn tool() -> Command {
    beside("leasehold", "cargo test -p leasehold-cli --no-run")
}

/// An example's program, which `cargo test --workspace` has built beside the tests.
///
/// # Panics
///
/// If it was not built: a build inside a test would take as long as it likes.
#[must_use]
pub fn example(name: &str) -> Command {
    beside(&format!("examples/{name}"), "cargo build -p leasehold-examples --examples")
}

/// A program of the README, which `cargo test --workspace` has built beside the tests.
///
/// # Panics
///
/// If it was not built.
#[must_use]
pub fn first(name: &str) -> Command {
    beside(name, "cargo build -p leasehold-quickstart")
}

fn beside(path: &str, build: &str) -> Command {
    let test = std::env::current_exe().expect("a test runs");
    let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/test");
    let program = profile.join(path);
    assert!(program.exists(), "{} is not there; run `{build}` first", program.display());
    Command::new(program)
}
