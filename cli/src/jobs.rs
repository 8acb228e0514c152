//! `jobs`: how jobs go. `run-again`: lets done work run again.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use leasehold::{JobInfo, LockKey};
use leasehold_console::{job_state, needs_help};
use serde_json::json;

use super::args::{RunAgain, Server};
use super::failure::{Failure, code};
use super::limit::user;
use super::ls::{nothing, to_json};
use super::text::{pad, plain, short, tell};

const OVERDUE: Style = AnsiColor::Red.on_default();

pub(super) async fn jobs(server: &Server, pattern: &str, json: bool) -> Result<u8, Failure> {
    let jobs = server.connect("leasehold").await?.jobs(pattern).await?;
    let mut out = anstream::stdout();
    if !json {
        writeln!(out, "{}", line("NAME", "TICK", "LAST SUCCESS", "STATE"))?;
    }
    for job in &jobs {
        if json {
            writeln!(out, "{}", to_json(job)?)?;
        } else if needs_help(job) {
            writeln!(out, "{OVERDUE}{}{OVERDUE:#}", row(job))?;
        } else {
            writeln!(out, "{}", row(job))?;
        }
    }
    if jobs.is_empty() && !json {
        tell(&nothing(server, "no job has run"));
    }
    let any = jobs.iter().any(needs_help);
    Ok(if any { code::NOTHING_DONE } else { 0 })
}

fn row(job: &JobInfo) -> String {
    let last = job.last_success.map_or_else(
        || "none known".to_owned(),
        |last| humantime::format_rfc3339_seconds(last.completed).to_string(),
    );
    let tick = if job.tick.is_zero() { "-".to_owned() } else { short(job.tick) };
    line(&plain(&job.name), &tick, &last, &job_state(job))
}

fn line(name: &str, tick: &str, last: &str, state: &str) -> String {
    let line = format!("{}  {}  {}  {state}", pad(name, 28), pad(tick, 6), pad(last, 20));
    line.trim_end().to_owned()
}

pub(super) async fn run_again(
    server: &Server,
    RunAgain { key, why, by }: RunAgain,
    json: bool,
) -> Result<u8, Failure> {
    let locks = server.connect("leasehold").await?;
    let by = by.unwrap_or_else(user);
    // Exactly that name: `jobs` and `ls` show it.
    let name = LockKey::new(key)?;
    let again = locks.run_again(&name, by, why.unwrap_or_default()).await?;
    let completed = again.completed.map(|at| humantime::format_rfc3339_seconds(at).to_string());
    let completed_is_none = completed.is_none();
    let mut out = anstream::stdout();
    if json {
        let said = json!({
            "name": name.name(), "completed": completed, "is_running": again.is_running,
        });
        writeln!(out, "{said}")?;
        return Ok(0);
    }
    let was = completed.map_or_else(
        || "it was not done".to_owned(),
        |at| format!("its success of {at} does not count any more"),
    );
    writeln!(out, "{}: {was}", plain(name.name()))?;
    if completed_is_none && !again.is_running {
        tell("Is that its name? `leasehold jobs` lists jobs. If it has failed, it runs again now.");
        return Ok(code::NOTHING_DONE);
    }
    tell(if again.is_running {
        "It runs now. When that run succeeds, it is done."
    } else {
        "A job of Leasehold runs it now; anything else, when it is called the next time."
    });
    Ok(0)
}
