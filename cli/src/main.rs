//! Looks at locks, frees them, and runs commands under them: docs/guide/command-line.md.

mod args;
mod choice;
mod connect;
mod doctor;
mod failure;
mod force;
mod generate;
mod jobs;
mod limit;
mod log;
mod look;
mod ls;
mod rows;
#[cfg(unix)]
mod run;
mod serve;
mod show;
mod text;
mod time;
mod tips;
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
            let arguments: Vec<_> = std::env::args_os().collect();
            if let Some(tip) = tips::tip(&arguments).filter(|_| error.use_stderr()) {
                text::tell(&format!("\n  tip: {tip}"));
            }
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
        Command::Ls(ls) => ls::ls(&server, &ls, json).await,
        Command::Show(lock) => show::show(&server, &lock.key, json).await,
        Command::Watch(watch) => watch::watch(&server, &watch, json).await,
        Command::Prefixes => ls::prefixes(&server, json).await,
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
