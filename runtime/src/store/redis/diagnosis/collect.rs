//! Asks one server everything that the checks judge. Each question has a time limit, and none
//! changes anything.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{FromRedisValue, Value};
use tokio::time::timeout;

use super::super::answer::unreadable;
use super::super::connection::Connection;
use super::super::encode::Encoder;
use super::super::endpoint::Endpoint;
use super::super::errors;
use super::asker::{Asker, words};
use super::info::Info;
use super::material::{Client, ClockSample, Deployment, Material, Refusal, Reply};
use super::{probes, sample};
use crate::store::StoreError;
use crate::system;

/// The most round trips that are measured.
const ROUND_TRIPS: usize = 10;

/// The settings that the checks read. None is secret.
const SETTINGS: [&str; 7] = [
    "save",
    "appendfsync",
    "stop-writes-on-bgsave-error",
    "min-replicas-to-write",
    "timeout",
    "client-output-buffer-limit",
    "cluster-require-full-coverage",
];

/// Collects from one server. It fails with the server's name if that can't be asked.
pub(super) async fn collect(
    connection: &Arc<Connection>,
    encoder: &Encoder,
) -> Result<Material, (String, StoreError)> {
    let asker = match connect(connection).await {
        Ok(asker) => asker,
        Err(error) => return Err((name(connection), error)),
    };
    let info = match info(&asker).await {
        Ok(info) => info,
        Err(error) => return Err((name(connection), error)),
    };
    let client = client(connection, encoder);
    // Before all writes: if these are not answered, nothing behind them is.
    let (round_trips, clock) = times(&asker).await;
    let config = async {
        let mut get = words(&["CONFIG", "GET"]);
        get.arg(&SETTINGS);
        read(asker.ask(&get).await)
    };
    let of_cluster = async |word| {
        if client.deployment == Deployment::Cluster {
            asker.ask(&words(&["CLUSTER", word])).await
        } else {
            Reply::Missing
        }
    };
    let (config, cluster, nodes) = tokio::join!(config, of_cluster("INFO"), of_cluster("NODES"));
    let records = sample::run(&asker, encoder).await;
    let rights = probes::run(&asker, &client).await;
    let of_right = |grant| {
        let reply = rights.iter().find(|(right, _)| right.grant == grant);
        reply.map_or(Reply::Missing, |(_, reply)| reply.clone())
    };
    let (mut script, mut takes_flags) = (of_right("eval"), true);
    if script.refusal().is_some_and(Refusal::is_of_flags) {
        takes_flags = false;
        asker.leave_out_flags();
        script = asker.ask(&words(&["EVAL", "return 1", "0"])).await.and_then(|_| Some(()));
    }
    Ok(Material {
        server: name(connection),
        client,
        info,
        config,
        round_trips,
        clock,
        script,
        takes_flags,
        write: of_right("set"),
        rights,
        records,
        cluster: read(cluster).and_then(|info| Some(Info::new(info))),
        nodes: read(nodes),
    })
}

/// The address where the last connection led, or the name of what was to lead to one.
fn name(connection: &Connection) -> String {
    let address = connection.server().address.borrow().clone();
    if address.is_empty() { connection.server().name.clone() } else { address }
}

async fn connect(connection: &Arc<Connection>) -> Result<Asker, StoreError> {
    let state = connection.server();
    let limit = state.settings.command_timeout;
    let patience = state.settings.connect_timeout + limit;
    match timeout(patience, connection.link(limit)).await {
        Ok(link) => Ok(Asker::new(connection.clone(), link?, limit)),
        Err(_) => Err(state.no_connection()),
    }
}

/// The server's report about itself. A refusal may be for lack of a right, or since the server is
/// busy. After any other error more questions have no answer either.
async fn info(asker: &Asker) -> Result<Reply<Info>, StoreError> {
    match asker.try_ask(&words(&["INFO", "all"])).await {
        Ok(answer) => match redis::from_redis_value::<String>(answer.clone()) {
            Ok(info) if info.contains("redis_version") => Ok(Reply::Got(Info::new(info))),
            _ => Err(unreadable(&answer)),
        },
        Err(error) => match errors::redis_error(&error) {
            Some(refusal) if !matches!(refusal.code(), None | Some("NOAUTH" | "WRONGPASS")) => {
                Ok(Reply::Refused(Refusal::new(refusal)))
            }
            _ => Err(error),
        },
    }
}

fn client(connection: &Connection, encoder: &Encoder) -> Client {
    let (connector, settings) = (connection.connector(), &connection.server().settings);
    Client {
        id: connection.server().hints.client.to_string(),
        prefix: encoder.prefix().to_owned(),
        user: connector.endpoint.user().map(str::to_owned),
        command_timeout: settings.command_timeout,
        deployment: match connector.endpoint {
            _ if encoder.is_cluster() => Deployment::Cluster,
            _ if settings.is_member => Deployment::Quorum,
            Endpoint::Sentinel(_) => Deployment::Sentinel,
            _ => Deployment::One,
        },
        counts_after: settings.counts_after,
        sync_replicas: settings.sync_replicas.map(|(replicas, _)| replicas),
        can_subscribe: connector.carries_hints
            && !connector.is_resp2()
            && !matches!(connector.endpoint, Endpoint::ExternalPool(_)),
    }
}

/// Measures round trips, and the server's clock by the shortest of them.
async fn times(asker: &Asker) -> (Vec<Duration>, Option<ClockSample>) {
    let (begun, mut round_trips, mut best) = (system::now(), Vec::new(), None);
    while round_trips.len() < ROUND_TRIPS && system::since(begun) < asker.limit {
        let (wall, sent) = (SystemTime::now(), system::now());
        let Reply::Got(answer) = asker.ask(&words(&["TIME"])).await else { break };
        let took = system::since(sent);
        let is_best = round_trips.iter().all(|other| took < *other);
        round_trips.push(took);
        if is_best && let Some(ahead) = ahead(answer, wall, took / 2) {
            best = Some(ClockSample { ahead, within: took / 2 });
        }
    }
    (round_trips, best)
}

/// How many microseconds the server's time is ahead of this machine's, halfway through the round
/// trip.
fn ahead(answer: Value, wall: SystemTime, half: Duration) -> Option<i64> {
    let (seconds, micros): (i64, i64) = redis::from_redis_value(answer).ok()?;
    let server = seconds.checked_mul(1_000_000)?.checked_add(micros)?;
    let here = (wall + half).duration_since(UNIX_EPOCH).ok()?;
    server.checked_sub(i64::try_from(here.as_micros()).ok()?)
}

fn read<T: FromRedisValue>(reply: Reply<Value>) -> Reply<T> {
    reply.and_then(|answer| redis::from_redis_value(answer).ok())
}
