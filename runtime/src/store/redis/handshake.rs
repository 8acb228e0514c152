//! The handshake on each new connection, before the first command and in one round trip. It asks
//! for the server's start and the connection's name, and does what has to be done first. It is
//! short: after a restart of the server all its clients send it at the same time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, Value};

use super::connector::Connector;
use super::endpoint::Endpoint;
use super::hints::Subscribed;
use super::link::Link;
use super::link_state::{LinkName, LinkState};
use super::server_info::ServerInfo;
use super::wire::Wire;
use super::{errors, server_info};

/// Prepares a connection to `server` for commands.
pub(super) async fn run(
    connector: &Connector,
    wire: Wire,
    state: Arc<LinkState>,
    server: &str,
) -> RedisResult<Link> {
    let ask = |args: &[&str]| {
        let (mut connection, mut command) = (wire.connection.clone(), Cmd::new());
        command.arg(args);
        async move { command.query_async::<Value>(&mut connection).await }
    };
    let name = ask(&["CLIENT", "INFO"]);
    let info = ask(&["INFO", "server"]);
    let role = async {
        // A replica would refuse every command.
        let must_be_master = matches!(connector.endpoint, Endpoint::Sentinel(_))
            || connector.server.settings.is_member;
        if must_be_master { Some(ask(&["ROLE"]).await) } else { None }
    };
    // Bytes of an abandoned connection may still arrive, and would act after everything that
    // is sent on this one.
    let abandoned = connector.server.abandoned_at(server);
    let kills = join_all(abandoned.iter().map(|LinkName { id, address, .. }| {
        ask(&["CLIENT", "KILL", "ID", id.as_str(), "ADDR", address.as_str()])
    }));
    // Before the first command, so that no hint is lost that follows from it.
    let subscribed = subscribe(connector, &wire);
    let settings = read_settings(connector, &ask);
    let (name, info, role, kills, subscribed, settings) =
        tokio::join!(name, info, role, kills, subscribed, settings);
    let subscribed = subscribed?;
    if let Some(name) = if_allowed::<String>(name)? {
        let name = LinkName::parse(&name, server);
        let _ = name.map(|name| state.name.set(name)); // it was not set yet
    }
    if let Some(role) = role.map(if_allowed::<Vec<Value>>).transpose()?.flatten() {
        check_role(&role, server)?;
    }
    let info = if_allowed::<String>(info)?.and_then(|info| ServerInfo::parse(&info));
    connector.server.record_start(info.as_ref(), &state);
    warn(connector, info.as_ref(), settings);
    let is_done = |kill: &RedisResult<Value>| match kill {
        Ok(_) => true,
        // A server that is busy or loads has not tried: it ends the connection another time.
        Err(error) => error.code().is_some_and(|code| !matches!(code, "BUSY" | "LOADING")),
    };
    let done: Vec<_> = abandoned
        .iter()
        .zip(&kills)
        .filter(|(_, kill)| is_done(kill))
        .map(|(name, _)| name)
        .collect();
    connector.server.forget_abandoned(&done);
    // Only here: a connection that is refused above carries no hints.
    connector.server.hints.note(subscribed, &state);
    Ok(Link::new(wire, state))
}

/// Subscribes to the client's channel. A user without that right goes without hints.
pub(super) async fn subscribe(connector: &Connector, wire: &Wire) -> RedisResult<Subscribed> {
    let is_external = matches!(connector.endpoint, Endpoint::ExternalPool(_));
    if connector.is_resp2() || !connector.carries_hints || is_external {
        return Ok(Subscribed::NotHere);
    }
    let hints = &connector.server.hints;
    // A user that may not publish sends no hints; the other clients have the same user, and
    // send none either. An empty message means nothing.
    let mut publish = redis::cmd("PUBLISH");
    publish.arg(&hints.channel).arg("");
    let channels = [&*hints.channel, &*hints.limits];
    let (mut connection, mut same) = (wire.connection.clone(), wire.connection.clone());
    let (subscribed, published) =
        tokio::join!(connection.subscribe(&channels), publish.query_async::<Value>(&mut same));
    match subscribed.and(published.map(drop)) {
        Ok(()) => Ok(Subscribed::Yes),
        Err(error) if errors::is_lacking(&error) => {
            connector.log_no_hints(&error);
            Ok(Subscribed::Refused)
        }
        Err(error) => Err(error),
    }
}

/// Reads, once a client, the settings that there are warnings about.
async fn read_settings<F>(
    connector: &Connector,
    ask: &impl Fn(&[&str]) -> F,
) -> Option<[RedisResult<Value>; 3]>
where
    F: Future<Output = RedisResult<Value>>,
{
    let has_checked = &connector.flags.has_checked_settings;
    if !connector.checks_settings || has_checked.load(Ordering::Relaxed) {
        return None;
    }
    let none = async || Ok(Value::Nil);
    Some(if connector.server.settings.counts_after.is_some() {
        let memory = ask(&["INFO", "memory"]);
        let persistence = ask(&["INFO", "persistence"]);
        tokio::join!(memory, persistence, ask(&["CONFIG", "GET", "save"])).into()
    } else {
        [ask(&["INFO", "memory"]).await, none().await, none().await]
    })
}

/// Logs, once a client, a warning about each unsafe setting.
fn warn(
    connector: &Connector,
    info: Option<&ServerInfo>,
    answers: Option<[RedisResult<Value>; 3]>,
) {
    let Some([memory, persistence, saves]) = answers else { return };
    if connector.carries_hints && connector.server.is_cluster_node() {
        // The client connects to it again, as a node, and checks it then.
        return;
    }
    if connector.flags.has_checked_settings.swap(true, Ordering::Relaxed) {
        return;
    }
    let text = |answer| read::<String>(answer).unwrap_or_default();
    let saves = read::<HashMap<String, String>>(saves);
    let saves = saves.as_ref().and_then(|saves| saves.get("save"));
    let mut warnings = server_info::warnings(info, &text(memory));
    let persistence = text(persistence);
    warnings.extend(server_info::persistence_warning(&persistence, saves.map(String::as_str)));
    for warning in warnings {
        tracing::warn!(server = %connector.server.name, "the lock store's settings put locks at risk: {warning}");
    }
}

/// An answer, if the question is allowed. A user may lack the right, and a provider may have
/// removed the command.
fn if_allowed<T: FromRedisValue>(answer: RedisResult<Value>) -> RedisResult<Option<T>> {
    match answer {
        Err(error) if errors::is_lacking(&error) => Ok(None),
        Err(error) => Err(error),
        answer => Ok(read(answer)),
    }
}

fn read<T: FromRedisValue>(answer: RedisResult<Value>) -> Option<T> {
    redis::from_redis_value(answer.ok()?).ok()
}

/// Refuses a replica: sentinels may be late, and so may a server's promotion to master.
fn check_role(role: &[Value], server: &str) -> RedisResult<()> {
    match role.first() {
        Some(Value::BulkString(role)) if role != b"master" => Err(RedisError::from((
            ErrorKind::Io,
            "the server is a replica; give the address of a master",
            server.to_owned(),
        ))),
        _ => Ok(()),
    }
}
