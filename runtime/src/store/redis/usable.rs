//! The last question of `connect`: can the server keep locks at all? A server that can't would
//! refuse each command, in production and not at the start.

use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};

use super::connection::Connection;
use super::link::Link;
use super::server_info::field;

/// No script has this hash.
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// Returns an error that names the cause and the cure, if the server refuses all locks.
pub(super) async fn check(connection: &Connection, limit: Duration) -> RedisResult<()> {
    let Ok(link) = connection.link(limit).await else { return Ok(()) };
    let ask = |args: &'static [&'static str]| {
        let (mut link, mut command): (Link, _) = (link.clone(), Cmd::new());
        command.arg(args);
        async move { link.send(&command).await.and_then(Value::extract_error) }
    };
    let (info, evalsha, eval) = tokio::join!(
        ask(&["INFO", "replication"]),
        ask(&["EVALSHA", NO_SCRIPT, "0"]),
        ask(&["EVAL", "return 1", "0"]),
    );
    // A user without this right learns it from the first refusal.
    if let Ok(info) = info.map(redis::from_redis_value::<String>)
        && let Ok(info) = info
    {
        refuse_replica(&info)?;
    }
    for (name, answer) in [("EVALSHA", evalsha), ("EVAL", eval)] {
        if let Err(error) = answer {
            refuse_without(name, &error, connection.connector().endpoint.user())?;
        }
    }
    Ok(())
}

fn refuse_replica(info: &str) -> RedisResult<()> {
    if field(info, "role") != Some("slave") {
        return Ok(());
    }
    let said = |name| field(info, name).unwrap_or("unknown");
    let (host, port) = (said("master_host"), said("master_port"));
    let advice = format!("its master is {host}:{port}; give that address, or the sentinels'");
    Err(RedisError::from((ErrorKind::Io, "the server is a replica", advice)))
}

/// Refuses a server that does not run scripts for this user. Other errors may pass.
fn refuse_without(command: &str, error: &RedisError, user: Option<&str>) -> RedisResult<()> {
    let detail = error.detail().unwrap_or_default();
    let (what, advice) = match error.code() {
        Some("NOPERM") => (
            "locks are scripts, and the user may not run them",
            format!(
                "{command} is refused; run `ACL SETUSER {} +evalsha +eval`; docs/keys.md lists \
                 all rights",
                user.unwrap_or("NAME")
            ),
        ),
        Some("ERR") if detail.starts_with("unknown command") => (
            "locks are scripts, and the server runs none",
            format!(
                "it has no command {command}; take that out of `rename-command` in redis.conf, or \
                 keep the locks on another server"
            ),
        ),
        _ => return Ok(()),
    };
    Err(RedisError::from((ErrorKind::Client, what, advice)))
}
