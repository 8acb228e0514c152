//! `force`: takes a lock from its holders, after a question.

use std::io::{self, IsTerminal, Write};

use leasehold::{ClientInfo, Forced, Holder, LockInfo, LockKey, LockKind};
use leasehold_console::runs_command;
use serde_json::json;

use super::args::{Force, Server};
use super::failure::{Failure, code};
use super::limit::user;
use super::show;
use super::text::{client, counted, plain, tell, warn};

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
    }
    if is_free {
        let (key, prefix) = (&force.key, &server.prefix);
        let text = if lock.kind == Some(LockKind::Foreign) {
            format!("`{key}` is not a lock: `leasehold show` says what to do")
        } else {
            format!("nobody holds `{key}` under the prefix `{prefix}`")
        };
        return Err(Failure::new(code::NOTHING_DONE, text));
    }
    let chosen = chosen(force, &lock)?;
    if chosen.iter().filter_map(|holder| holder.client.as_ref()).any(runs_command) {
        warn(
            "`leasehold run` holds it. After `force`, its command works on for up to its grace, beside \
             the next holder, and for up to its TTL if the tool is stopped. To avoid that, end it as \
             `leasehold show` says instead.",
            json,
        );
    }
    let is_asked = !force.yes;
    if is_asked && !is_agreed(force, &lock, &chosen).await? {
        return Err(Failure::new(code::NOTHING_DONE, "nothing was done"));
    }
    if is_asked && lock.held == 0 && locks.inspect(&key).await?.held > 0 {
        let text = format!("somebody holds `{key}` by now: nothing was done");
        return Err(Failure::new(code::NOTHING_DONE, text));
    }
    let user = user();
    let mut command = locks.force_release(&key).by(&user);
    if let Some(reason) = &force.reason {
        command = command.why(reason);
    }
    // The question may have stood for minutes. Whoever has the lock since was not in it.
    let are_all_shown = lock.held == lock.holders.len() as u64;
    let is_limited = !force.holder.is_empty() || is_asked && are_all_shown;
    if is_limited {
        command = chosen.iter().fold(command, |command, holder| command.holder(holder));
    }
    let Forced::Released { held, told, fence } = command.await? else {
        let text = match lock.kind {
            Some(LockKind::Foreign) => format!("`{}` is not a lock", force.key),
            _ if is_limited && lock.held > 0 => {
                format!("those holders of `{}` hold it no more: nothing was done", force.key)
            }
            _ => format!("nobody holds `{}` any more", force.key),
        };
        return Err(Failure::new(code::NOTHING_DONE, text));
    };
    let reason = force.reason.as_deref();
    let note = reason.unwrap_or("none given");
    tracing::warn!(reason = note, user, held, "an operator took a lock by force");
    let mut out = anstream::stdout();
    if json {
        let said = json!({
            "name": force.key, "forced": true, "held": held, "told": told, "fence": fence.get(), "reason": reason,
        });
        writeln!(out, "{said}")?;
        return Ok(0);
    }
    let reason = reason.map_or_else(String::new, |reason| format!(" ({})", plain(reason)));
    let holders = counted(held, "holder");
    writeln!(out, "{}: taken from {holders}{reason}", plain(&force.key))?;
    if told < held {
        let left = counted(held - told, "holder");
        tell(&format!("Not told yet: {left}. They learn it from their next renewal."));
    }
    // Permits have no tokens.
    if lock.kind != Some(LockKind::Semaphore) {
        writeln!(out, "fencing token: {fence}")?;
        tell("If the data checks fencing tokens: write this one, unless a greater one is there.");
    }
    for process in processes(&chosen) {
        tell(&format!("End the former holder, too: {process}"));
    }
    Ok(0)
}

/// The holders that lose it: all, or those that were named, by their process, by their owner, or by
/// their id.
fn chosen<'a>(force: &Force, lock: &'a LockInfo) -> Result<Vec<&'a Holder>, Failure> {
    let is_named = |holder: &&Holder, name: &String| {
        let process = holder.client.as_ref().is_some_and(|client| is_process(client, name));
        process || holder.owner.as_ref() == Some(name) || holder.id == *name
    };
    for name in &force.holder {
        if !lock.holders.iter().any(|holder| is_named(&holder, name)) {
            let text = format!(
                "no holder of `{}` is `{name}`: give its service, host, HOST:PROCESS, \
                 SERVICE@HOST:PROCESS, owner or id, as `leasehold show` prints it",
                force.key
            );
            return Err(Failure::new(code::NOTHING_DONE, text));
        }
    }
    let is_chosen = |holder: &&Holder| {
        force.holder.is_empty() || force.holder.iter().any(|name| is_named(holder, name))
    };
    Ok(lock.holders.iter().filter(is_chosen).collect())
}

/// Whole names alone: a part of one may be a part of another.
fn is_process(client: &ClientInfo, name: &str) -> bool {
    let ClientInfo { service, host, process, .. } = client;
    let names = [
        service.clone(),
        host.clone(),
        format!("{host}:{process}"),
        format!("{service}@{host}"),
        format!("{service}@{host}:{process}"),
    ];
    !name.is_empty() && names.iter().any(|it| it == name)
}

/// Each process once.
fn processes(holders: &[&Holder]) -> Vec<String> {
    let mut names: Vec<_> = holders.iter().map(|holder| client(holder.client.as_ref())).collect();
    names.sort();
    names.dedup();
    names
}

/// Asks the person at the terminal.
async fn is_agreed(force: &Force, lock: &LockInfo, chosen: &[&Holder]) -> Result<bool, Failure> {
    let mut err = anstream::stderr();
    // More than 64 are counted, and not listed.
    let held = if force.holder.is_empty() { lock.held } else { chosen.len() as u64 };
    let what = match (held, lock.held) {
        (0, _) => "nobody, and free it".to_owned(),
        (held, all) if held < all => format!("{held} of its {}", counted(all, "holder")),
        (held, _) => counted(held, "holder"),
    };
    let processes = processes(chosen);
    writeln!(err, "Take `{}` from {what}, in:", plain(&force.key))?;
    for process in &processes {
        writeln!(err, "  {process}")?;
    }
    write!(err, "They may still be at work. [y/N] ")?;
    err.flush()?;
    let answer = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map(|_| answer)
    });
    let answer = answer.await.map_err(io::Error::other)??;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
