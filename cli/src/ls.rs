//! `ls`: the locks that are held or waited for.

use std::io::Write;

use leasehold::Locks;

use super::args::{Ls, Server};
use super::failure::{Failure, code};
use super::look::Look;
use super::rows::Table;
use super::text::{plain, tell};

/// How many rows there are at most, unless somebody wants more.
const ROWS: usize = 1_000;

pub(super) async fn ls(server: &Server, ls: &Ls, json: bool) -> Result<u8, Failure> {
    let locks = server.connect("leasehold").await?;
    if json {
        return print_json(&locks, ls).await;
    }
    let most = ls.limit.unwrap_or(ROWS);
    let look = Look::take(&locks, &ls.choice, ls.sort.unwrap_or_default(), most).await?;
    let (mut out, table) = (anstream::stdout(), Table::for_stdout());
    writeln!(out, "{}", table.header())?;
    for row in look.rows() {
        table.write(&mut out, row)?;
    }
    out.flush()?;
    if look.count == 0 {
        let what =
            if ls.choice.is_narrow() { "none of the locks that you chose" } else { "no lock" };
        tell(&nothing(server, &format!("{what} is held or waited for")));
    } else {
        tell(&look.summary());
    }
    for missing in &look.missing {
        tell(&format!("leasehold: some locks are missing: {missing}"));
    }
    Ok(if look.missing.is_empty() { 0 } else { code::STORE })
}

/// One object for each lock: in an order if one is wanted, else each as soon as it is known.
async fn print_json(locks: &Locks, ls: &Ls) -> Result<u8, Failure> {
    let mut out = anstream::stdout();
    let mut found = ls.choice.list(locks);
    let (mut left, mut kept) = (ls.limit.unwrap_or(usize::MAX), Vec::new());
    let mut failed = None;
    while let Some(lock) = found.next().await {
        let lock = match lock {
            Ok(lock) => lock,
            // One of a node; the list may go on.
            Err(error) => {
                failed = Some(error);
                continue;
            }
        };
        if !ls.choice.has(&lock) {
            continue;
        }
        match ls.sort {
            Some(sort) => kept.push((sort.place(&lock), to_json(&lock)?)),
            None if left == 0 => break,
            None => {
                writeln!(out, "{}", to_json(&lock)?)?;
                left -= 1;
            }
        }
    }
    kept.sort();
    for (_, lock) in kept.into_iter().take(left) {
        writeln!(out, "{lock}")?;
    }
    out.flush()?;
    failed.map_or(Ok(0), |error| Err(error.into()))
}

/// `prefixes`: the prefixes of all locks on the server.
pub(super) async fn prefixes(server: &Server, json: bool) -> Result<u8, Failure> {
    let mut out = anstream::stdout();
    for prefix in server.connect("leasehold").await?.prefixes().await? {
        if json {
            writeln!(out, "{}", serde_json::json!({ "prefix": prefix }))?;
        } else {
            writeln!(out, "{}", plain(&prefix))?;
        }
    }
    Ok(0)
}

/// Nothing was found, perhaps because of a wrong prefix.
pub(super) fn nothing(server: &Server, what: &str) -> String {
    let prefix = plain(&server.prefix);
    format!("{what} under the prefix `{prefix}`; `leasehold prefixes` lists those of this server")
}

/// A value as JSON on one line.
pub(super) fn to_json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::new(code::FAILED, error.to_string()))
}
