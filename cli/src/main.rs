//! Looks at locks, frees them, and runs commands under them: docs/guide/command-line.md.

mod args;
mod connect;
mod doctor;
mod failure;
mod force;
mod generate;
mod jobs;
mod limit;
mod log;
mod ls;
mod rows;
#[cfg(unix)]
mod run;
mod serve;
mod show;
mod text;
mod watch;

use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Builder;

use self::args::{Cli, Command};
use self::failure::{Failure, code};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { code::FAILED.into() } else { ExitCode::SUCCESS };
        }
    };
    let json = cli.json;
    let code = begin(cli).unwrap_or_else(|failure| failure.report(json));
    code.into()
}

/// Runs a command, and gives its exit code.
fn begin(cli: Cli) -> Result<u8, Failure> {
    log::start(&cli);
    let mut runtime = Builder::new_multi_thread();
    // Commands wait for the server; the client has a thread of its own.
    let runtime = runtime.worker_threads(1).enable_all().build()?;
    runtime.block_on(dispatch(cli))
}

async fn dispatch(Cli { server, json, command, .. }: Cli) -> Result<u8, Failure> {
    match command {
        #[cfg(unix)]
        Command::Run(run) => run::run(&server, &run, json).await,
        #[cfg(unix)]
        Command::Guard { command } => run::guard(&command).await,
        Command::Ls(names) => ls::ls(&server, &names.pattern, json).await,
        Command::Show(lock) => show::show(&server, &lock.key, json).await,
        Command::Watch(watch) => watch::watch(&server, &watch, json).await,
        Command::Jobs(names) => jobs::jobs(&server, &names.pattern, json).await,
        Command::RunAgain(again) => jobs::run_again(&server, again, json).await,
        Command::Force(force) => force::force(&server, &force, json).await,
        Command::Limit(limit) => limit::limit(&server, &limit, json).await,
        Command::Doctor(doctor) => doctor::doctor(&server, &doctor, json).await,
        Command::Serve(serve) => serve::serve(&server, &serve).await,
        Command::Completions { shell } => generate::completions(shell),
        Command::Man { out } => generate::man(out.as_deref()),
    }
}
