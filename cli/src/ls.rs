//! `ls`: the locks that are held or waited for, each as soon as it is known.

use std::io::Write;

use super::args::Server;
use super::failure::{Failure, code};
use super::rows;
use super::text::{plain, tell};

pub(super) async fn ls(server: &Server, pattern: &str, json: bool) -> Result<u8, Failure> {
    let locks = server.connect("leasehold").await?;
    let mut found = locks.list(pattern);
    let mut out = anstream::stdout();
    if !json {
        writeln!(out, "{}", rows::header())?;
    }
    let mut count = 0_u64;
    while let Some(lock) = found.next().await {
        let lock = lock?;
        if json {
            writeln!(out, "{}", to_json(&lock)?)?;
        } else {
            rows::write(&mut out, &lock, &rows::row(&lock))?;
        }
        count += 1;
    }
    if count == 0 && !json {
        tell(&nothing(server, "no lock is held or waited for"));
    }
    Ok(0)
}

/// Nothing was found, perhaps because of a wrong prefix.
pub(super) fn nothing(server: &Server, what: &str) -> String {
    let prefix = plain(&server.prefix);
    format!(
        "{what} under the prefix `{prefix}`; the prefixes of this server: \
         redis-cli -u \"$REDIS_URL\" --scan --pattern '*:lock:*' | sed 's/:lock:.*//' | sort -u"
    )
}

/// A value as JSON on one line.
pub(super) fn to_json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::new(code::FAILED, error.to_string()))
}
