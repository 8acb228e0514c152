//! A cluster: the driver's own connection, which finds the node of a key, makes
//! its connections anew and follows slots that move.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::{Cmd, ConnectionInfo, ProtocolVersion, RedisResult, Value, aio::ConnectionLike};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::attendance::Hub;
use super::command::{Command, call};
use super::fault;
use super::hints::Ears;
use super::script;
use super::settings::Settings;
use crate::store::StoreError;

/// The connections to a cluster.
pub(super) struct Cluster {
    commands: ClusterConnection,
    /// Subscriptions have a connection of their own: when a slot moves, a server
    /// ends those of its channels unasked, which the driver takes for the answer
    /// to a command that is under way, and gives all later ones to the wrong ones.
    pub(super) hub: Arc<Hub>,
}

impl Cluster {
    /// Connects to the nodes that are there.
    pub(super) async fn open(
        nodes: Vec<ConnectionInfo>,
        ears: Ears,
        settings: &Settings,
        runtime: Handle,
    ) -> RedisResult<Self> {
        let client = builder(&nodes, settings).build()?;
        let mut commands = client.get_async_connection().await?;
        for script in script::ALL {
            // Where it is not allowed, each script is loaded by its first EVAL.
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(script.body);
            let _ = commands.req_packed_command(&load).await;
        }
        Ok(Self { commands, hub: Arc::new(Hub::new(nodes, ears, settings.clone(), runtime)) })
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

/// What all connections to the cluster have in common.
pub(super) fn builder(nodes: &[ConnectionInfo], settings: &Settings) -> ClusterClientBuilder {
    let builder = ClusterClient::builder(nodes.iter().cloned())
        .use_protocol(ProtocolVersion::RESP3)
        .connection_timeout(settings.connect_timeout)
        // Whoever asks has a time-out of its own.
        .response_timeout(settings.connect_timeout.max(settings.command_timeout))
        // Enough for a slot that moves.
        .retries(4)
        .min_retry_wait(10)
        .max_retry_wait(100);
    match nodes.first() {
        Some(node) => builder.tcp_settings(node.tcp_settings().clone()),
        None => builder,
    }
}

/// Sends one command and waits for its answer, for at most `limit`.
pub(super) async fn run(
    cluster: Arc<Cluster>,
    command: Command,
    limit: Duration,
) -> Result<Value, StoreError> {
    let mut connection = cluster.commands.clone();
    let answer = async {
        match send(&mut connection, &call(&[&command], false)).await {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                send(&mut connection, &call(&[&command], true)).await
            }
            answer => answer,
        }
    };
    match timeout(limit, answer).await {
        Ok(answer) => answer.map_err(fault::in_cluster),
        Err(_) => Err(fault::silent()),
    }
}

async fn send(connection: &mut ClusterConnection, command: &Cmd) -> RedisResult<Value> {
    connection.req_packed_command(command).await?.extract_error()
}
