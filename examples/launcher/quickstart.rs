//! `cargo run --example quickstart` in the root of the repository: starts `examples/quickstart.rs`.
//!
//! That command lets Cargo unite the features that all packages of the workspace ask for, so the
//! quickstart itself would be built with TLS, time zones, axum and 90 more crates. Cargo builds it
//! with its own features if it is asked for that package alone. Cargo 1.95 has no setting for it;
//! `resolver.feature-unification = "package"` will do once it is stable, and then this can go.

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../quickstart/Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut run = Command::new(cargo);
    run.args(["run", "--manifest-path", manifest]);
    if !cfg!(debug_assertions) {
        run.arg("--release");
    }
    match run.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE, // Cargo or the example has said why
        Err(error) => {
            eprintln!("Cargo can't be started: {error}");
            ExitCode::FAILURE
        }
    }
}
