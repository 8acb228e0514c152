//! `limit`: the limits that operators set in place of those of the code.

use std::io::Write;

use leasehold::{LimitHandle, LimitOf, LimitOverride, LockKey, Locks};
use serde_json::json;

use super::args::{Limit, LimitName, Server};
use super::failure::{Failure, code};
use super::ls::{nothing, to_json};
use super::text::{pad, plain, tell, warn};

pub(super) async fn limit(server: &Server, limit: &Limit, json: bool) -> Result<u8, Failure> {
    let locks = server.connect("leasehold").await?;
    let mut out = anstream::stdout();
    match limit {
        Limit::Ls => return ls(server, &locks, json).await,
        Limit::Set { of, limit, why, by } => {
            let mut handle = handle(&locks, of)?.by(by.clone().unwrap_or_else(user));
            if let Some(why) = why {
                handle = handle.why(why);
            }
            handle.set(*limit).await?;
            if !of.label
                && of.name.contains('{')
                && locks.inspect(LockKey::new(&*of.name)?).await?.kind.is_none()
            {
                warn(
                    "no semaphore has exactly this name; for all names of a template, unset it and add --label",
                    json,
                );
            }
            if json {
                writeln!(out, "{}", json!({ "name": of.name, "label": of.label, "limit": limit }))?;
            } else if *limit == 0 {
                writeln!(out, "{}: closed, nobody gets in", plain(&of.name))?;
            } else {
                writeln!(out, "{}: at most {limit}", plain(&of.name))?;
            }
        }
        Limit::Unset { of } => {
            if !handle(&locks, of)?.unset().await? {
                let of_what = if of.label {
                    "leave out `--label` if it is that of a name"
                } else {
                    "add `--label` if it is that of a label"
                };
                let text = format!(
                    "no limit is set for `{}`; `leasehold limit ls` lists them; {of_what}",
                    of.name
                );
                return Err(Failure::Said { code: code::NOTHING_DONE, name: "not_set", text });
            }
            if json {
                writeln!(out, "{}", json!({ "name": of.name, "label": of.label, "limit": null }))?;
            } else {
                writeln!(out, "{}: the limit of the code holds again", plain(&of.name))?;
            }
        }
    }
    Ok(0)
}

fn handle(locks: &Locks, of: &LimitName) -> Result<LimitHandle, Failure> {
    let limits = locks.limits();
    // Exactly that name: `ls` shows it.
    Ok(if of.label { limits.label(&of.name) } else { limits.name(LockKey::new(&*of.name)?) })
}

pub(super) fn user() -> String {
    let named = |name| std::env::var(name).ok().filter(|user| !user.is_empty());
    named("USER").or_else(|| named("LOGNAME")).unwrap_or_else(unnamed)
}

/// In a container there is often no name.
#[cfg(target_os = "linux")]
fn unnamed() -> String {
    use std::os::unix::fs::MetadataExt;

    let id = std::fs::metadata("/proc/self").map(|it| it.uid());
    id.map_or_else(|_| "an operator".to_owned(), |id| format!("user id {id}"))
}

#[cfg(not(target_os = "linux"))]
fn unnamed() -> String {
    "an operator".to_owned()
}

async fn ls(server: &Server, locks: &Locks, json: bool) -> Result<u8, Failure> {
    let set = locks.limits().list().await?;
    let mut out = anstream::stdout();
    if !json {
        writeln!(out, "{}", line("LIMIT", "FOR", "SET", "BY", "WHY"))?;
    }
    for limit in &set {
        if json {
            writeln!(out, "{}", to_json(limit)?)?;
        } else {
            writeln!(out, "{}", row(limit))?;
        }
    }
    if set.is_empty() && !json {
        tell(&nothing(server, "no limit is set"));
    }
    Ok(0)
}

/// A limit, for people.
fn row(set: &LimitOverride) -> String {
    let of = match &set.of {
        LimitOf::Label(label) => format!("label {}", plain(label)),
        LimitOf::Name(name) => plain(name),
        _ => "?".to_owned(),
    };
    let at = humantime::format_rfc3339_seconds(set.at).to_string();
    let why = set.why.as_deref().map(plain).unwrap_or_default();
    line(&set.limit.to_string(), &of, &at, &plain(&set.by), &why)
}

fn line(limit: &str, of: &str, at: &str, by: &str, why: &str) -> String {
    let line =
        format!("{}  {}  {}  {}  {why}", pad(limit, 5), pad(of, 28), pad(at, 20), pad(by, 12));
    line.trim_end().to_owned()
}
