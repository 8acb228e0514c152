//! Peers in other languages, each a small program in a process of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Failure;

/// A program that takes the options of `Sections`, and prints what a worker prints.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    interpreter: PathBuf,
    script: PathBuf,
}

impl Program {
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.interpreter);
        command.arg(&self.script);
        command
    }
}

/// Installs the peers into this folder. Returns the installed ones, and why the others can't be
/// installed.
pub(crate) fn install(folder: &Path) -> (Vec<Program>, Vec<String>) {
    let (mut programs, mut missing) = (Vec::new(), Vec::new());
    for (name, install) in [
        ("redis-py", redis_py as fn(&Path) -> Result<Program, Failure>),
        ("node-redlock", node_redlock),
    ] {
        match install(folder) {
            Ok(program) => programs.push(program),
            Err(error) => missing.push(format!("{name}: not run: {error}")),
        }
    }
    (programs, missing)
}

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

fn redis_py(folder: &Path) -> Result<Program, Failure> {
    let venv = folder.join("venv");
    let interpreter = venv.join("bin/python3");
    if !interpreter.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    run(Command::new(&interpreter).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "redis[hiredis]==6.*",
    ]))?;
    Ok(Program { name: "redis-py", interpreter, script: peers().join("redis_py.py") })
}

fn node_redlock(folder: &Path) -> Result<Program, Failure> {
    let home = folder.join("node");
    std::fs::create_dir_all(&home)?;
    // A module finds its packages beside itself.
    let script = home.join("node_redlock.mjs");
    std::fs::copy(peers().join("node_redlock.mjs"), &script)?;
    let packages = ["redlock@5.0.0-beta.2", "ioredis@5"];
    run(Command::new("npm")
        .args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
        .arg(&home)
        .args(packages))?;
    Ok(Program { name: "node-redlock", interpreter: "node".into(), script })
}

fn run(command: &mut Command) -> Result<(), Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}").into()),
        Err(error) => Err(format!("{program}: {error}").into()),
    }
}
