//! `show`: all holders and waiters of one lock.

use std::env;
use std::io::{self, Write};

use leasehold::{Holder, LastSuccess, LockInfo, LockKey, LockKind, Waiter};
use leasehold_console::{heard, job_state, permits, reason, runs_command};

use super::args::{DEFAULT_PREFIX, Server};
use super::failure::Failure;
use super::ls::{nothing, to_json};
use super::rows::kind;
use super::text::{client, counted, plain, short, tell};

pub(super) async fn show(server: &Server, key: &str, json: bool) -> Result<u8, Failure> {
    // Exactly that name: `ls` shows it.
    let lock = server.connect("leasehold").await?.inspect(LockKey::new(key)?).await?;
    let mut out = anstream::stdout();
    if json {
        writeln!(out, "{}", to_json(&lock)?)?;
    } else {
        write(&mut out, &lock, &server.prefix)?;
        let is_unknown = lock.limit.is_none()
            && lock.last_success.is_none()
            && lock.last_forced.is_none()
            && lock.job.is_none()
            && lock.kind.is_none();
        if lock.held == 0 && lock.waiting == 0 && is_unknown {
            tell(&nothing(server, "nobody holds it or waits for it"));
        }
    }
    Ok(0)
}

/// Writes a lock for people. A free one may be another than they mean: under another prefix.
pub(super) fn write(out: &mut impl Write, lock: &LockInfo, prefix: &str) -> io::Result<()> {
    let is_foreign = lock.kind == Some(LockKind::Foreign);
    let state = match (lock.held, lock.kept) {
        (0, None) if is_foreign => "nobody can acquire it".to_owned(),
        (0, None) => format!("free under the prefix `{}`", plain(prefix)),
        (0, Some(left)) => format!("kept for another {}, without a holder", short(left)),
        (1, _) => "held by 1".to_owned(),
        (held, _) => format!("held by {held}"),
    };
    let kind = lock.kind.map_or_else(String::new, |known| format!("{}, ", kind(Some(known))));
    writeln!(out, "{}: {kind}{state}, {} waiting", plain(&lock.name), lock.waiting)?;
    if let Some(set) = &lock.limit {
        let why = reason(set.why.as_deref());
        let what =
            if set.limit == 0 { "closed".to_owned() } else { format!("limit {}", set.limit) };
        let at = humantime::format_rfc3339_seconds(set.at);
        writeln!(
            out,
            "  {what}, set for {} by {} at {at}{why}",
            plain(&set.of.to_string()),
            plain(&set.by)
        )?;
    }
    if is_foreign {
        let key = key_of(lock, prefix, "lock");
        writeln!(
            out,
            "  something else than a lock has this name in Redis: find out who writes it,"
        )?;
        writeln!(out, "  and then free the name with `redis-cli DEL '{key}'`")?;
    }
    if let Some(behind) = lock.clock_behind {
        writeln!(
            out,
            "  the server's clock was set back, by {} or more: it does not know how long",
            short(behind)
        )?;
        writeln!(
            out,
            "  locks are held, and those of dead processes stay held for as much longer"
        )?;
    }
    if let Some(permits) = permits(lock) {
        writeln!(out, "  permits  {permits}")?;
    }
    for holder in &lock.holders {
        write_holder(out, holder)?;
    }
    more(out, lock.held, lock.holders.len(), "holders")?;
    if let Some(forced) = &lock.last_forced {
        let at = humantime::format_rfc3339_seconds(forced.at);
        let (from, by) = (counted(forced.held, "holder"), plain(&forced.by));
        let why = reason(forced.why.as_deref());
        writeln!(out, "  taken by force from {from} at {at}, by {by}{why}")?;
    }
    for waiter in &lock.waiters {
        write_waiter(out, waiter)?;
    }
    more(out, lock.waiting, lock.waiters.len(), "waiters")?;
    if let Some(success) = &lock.last_success {
        write_success(out, success)?;
        writeln!(out, "    to run it again: {}", run_again(&lock.name, prefix))?;
    }
    if let Some(job) = &lock.job {
        writeln!(out, "  job      {}", job_state(job))?;
    }
    Ok(())
}

/// The command for a shell.
fn run_again(name: &str, prefix: &str) -> String {
    if plain(name) != name {
        return "`leasehold run-again` with the name as `show --json` prints it".to_owned();
    }
    let is_implied = prefix == DEFAULT_PREFIX && env::var_os("LEASEHOLD_PREFIX").is_none();
    let under = if is_implied { String::new() } else { format!(" --prefix={}", quoted(prefix)) };
    let ends_options = if name.starts_with('-') { " --" } else { "" };
    format!("leasehold run-again{under}{ends_options} {}", quoted(name))
}

/// One of the lock's keys in Redis, for a shell's single quotes.
fn key_of(lock: &LockInfo, prefix: &str, role: &str) -> String {
    let key = LockKey::new(&*lock.name).map(|key| key.in_store(prefix, role));
    escaped(&key.unwrap_or_else(|_| lock.name.clone()))
}

/// For a shell's single quotes.
fn escaped(text: &str) -> String {
    plain(text).replace('\'', r"'\''")
}

/// An argument for a shell.
fn quoted(name: &str) -> String {
    format!("'{}'", escaped(name))
}

fn write_holder(out: &mut impl Write, holder: &Holder) -> io::Result<()> {
    writeln!(out, "  holder   {}", client(holder.client.as_ref()))?;
    writeln!(out, "    id             {}", holder.id)?;
    if let Some(time) = holder.held_for {
        writeln!(out, "    held for       {}", short(time))?;
    }
    writeln!(out, "    left           {}, unless its process renews it", short(holder.remaining))?;
    writeln!(out, "    its process    {}", heard(holder))?;
    if let Some(fence) = holder.fence {
        writeln!(out, "    fencing token  {fence}")?;
    }
    if holder.is_writer {
        writeln!(out, "    writes")?;
    }
    if holder.may_be_idle {
        writeln!(out, "    may be idle: it lingers")?;
    }
    said(out, holder.weight, holder.owner.as_deref(), holder.note.as_deref())?;
    if let Some(client) = holder.client.as_ref().filter(|client| runs_command(client)) {
        let (host, process) = (plain(&client.host), client.process);
        // A tool that is stopped could not end its command.
        writeln!(out, "    to end it      on {host}: kill {process}; kill -CONT {process}")?;
        writeln!(out, "                   if its command goes on: pkill -KILL -P {process}")?;
    }
    Ok(())
}

fn write_waiter(out: &mut impl Write, waiter: &Waiter) -> io::Result<()> {
    writeln!(out, "  waiter   {}", client(waiter.client.as_ref()))?;
    writeln!(out, "    waits for      {}", short(waiter.waiting_for))?;
    if waiter.is_writer {
        writeln!(out, "    waits to write")?;
    }
    said(out, waiter.weight, waiter.owner.as_deref(), waiter.note.as_deref())
}

/// What a holder or a waiter says of itself.
fn said(
    out: &mut impl Write,
    weight: u32,
    owner: Option<&str>,
    note: Option<&str>,
) -> io::Result<()> {
    if weight > 1 {
        writeln!(out, "    weight         {weight}")?;
    }
    for (name, text) in [("owner", owner), ("note", note)] {
        if let Some(text) = text {
            writeln!(out, "    {name:<13}  {}", plain(text))?;
        }
    }
    Ok(())
}

fn more(out: &mut impl Write, all: u64, shown: usize, what: &str) -> io::Result<()> {
    let rest = all.saturating_sub(shown as u64);
    if rest > 0 { writeln!(out, "  and {rest} more {what}") } else { Ok(()) }
}

fn write_success(out: &mut impl Write, success: &LastSuccess) -> io::Result<()> {
    let rfc3339 = |time| humantime::format_rfc3339_seconds(time);
    writeln!(out, "  last success   {}", rfc3339(success.completed))?;
    if let Some(tick) = success.tick {
        writeln!(out, "    of the period  {}", rfc3339(tick))?;
    }
    writeln!(out, "    counts for     {}", short(success.counts_for))
}
