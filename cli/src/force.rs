//! `force`: takes a lock from its holders, after a question.

use std::io::{self, IsTerminal, Write};

use leasehold::{Forced, LockKey};
use serde_json::json;

use super::args::{Force, Server};
use super::failure::{Failure, code};
use super::limit::user;
use super::rows::runs_command;
use super::show;
use super::text::{client, counted, plain, tell};

pub(super) async fn force(server: &Server, force: &Force, json: bool) -> Result<u8, Failure> {
    if !force.yes && !io::stdin().is_terminal() {
        let text = "`force` asks for confirmation, and stdin is not a terminal; add --yes";
        return Err(Failure::new(code::FAILED, text));
    }
    let locks = server.connect("leasehold").await?;
    // Exactly that name: `ls` shows it.
    let key = LockKey::new(force.key.as_str())?;
    let lock = locks.inspect(&key).await?;
    let is_free = lock.held == 0 && lock.kept.is_none();
    // Stdout has the result alone.
    if !is_free && (!json || !force.yes) {
        let mut err = anstream::stderr();
        let _ = show::write(&mut err, &lock, &server.prefix);
        if lock.holders.iter().filter_map(|holder| holder.client.as_ref()).any(runs_command) {
            tell(
                "leasehold: `leasehold run` holds it. After `force`, its command works on for up \
                 to its grace, beside the next holder, and for up to its TTL if the tool is \
                 stopped. To avoid that, end it as above instead.",
            );
        }
    }
    if is_free {
        return Err(Failure::new(code::NOTHING_DONE, format!("nobody holds `{}`", force.key)));
    }
    if !force.yes && !is_agreed(&force.key).await? {
        return Err(Failure::new(code::NOTHING_DONE, "nothing was done"));
    }
    let forced = locks.force_release(&key).await?;
    let Forced::Released { held, fence } = forced else {
        let text = match forced {
            Forced::Foreign => format!("`{}` is not a lock", force.key),
            _ => format!("nobody holds `{}` any more", force.key),
        };
        return Err(Failure::new(code::NOTHING_DONE, text));
    };
    let reason = force.reason.as_deref();
    let user = user();
    let note = reason.unwrap_or("none given");
    tracing::warn!(reason = note, user, held, "an operator took a lock by force");
    let mut out = anstream::stdout();
    if json {
        let said = json!({
            "name": force.key, "forced": true, "held": held, "fence": fence.get(), "reason": reason,
        });
        writeln!(out, "{said}")?;
        return Ok(0);
    }
    let reason = reason.map_or_else(String::new, |reason| format!(" ({})", plain(reason)));
    let holders = counted(held, "holder");
    writeln!(out, "{}: taken from {holders}{reason}", plain(&force.key))?;
    writeln!(out, "fencing token: {fence}")?;
    tell("If the data checks fencing tokens: write this one, unless a greater one is there.");
    for holder in lock.holders.iter().take(5) {
        tell(&format!("End the former holder, too: {}", client(holder.client.as_ref())));
    }
    Ok(0)
}

/// Asks the person at the terminal.
async fn is_agreed(key: &str) -> Result<bool, Failure> {
    let mut err = anstream::stderr();
    write!(err, "Take `{}` from its holders? They may still be at work. [y/N] ", plain(key))?;
    err.flush()?;
    let answer = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map(|_| answer)
    });
    let answer = answer.await.map_err(io::Error::other)??;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
