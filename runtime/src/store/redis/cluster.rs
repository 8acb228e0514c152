//! A cluster: the driver's own connection, which finds the node of a key, makes
//! its connections anew and follows slots that move.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::{Cmd, ConnectionInfo, ProtocolVersion, RedisResult, Value, aio::ConnectionLike};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::attendance::Hub;
use super::command::{Command, call};
use super::fault;
use super::hints::Ears;
use super::settings::Settings;
use super::{lock, script};
use crate::store::StoreError;

/// How long a lock's commands may be without an answer until all connections are made
/// anew: the driver asks a node that is silent, and not closed, for ever.
const PATIENCE: Duration = Duration::from_millis(500);

/// How many times as long as a command may take, it is sent again while its slot moves.
const MOVING: u32 = 4;

/// The pauses between these.
const PAUSE: Duration = Duration::from_millis(20);

/// The connections to a cluster.
pub(super) struct Cluster {
    client: ClusterClient,
    commands: Mutex<ClusterConnection>,
    silences: Mutex<Silences>,
    /// There are some.
    is_silent: AtomicBool,
    /// Subscriptions have a connection of their own: when a slot moves, a server
    /// ends those of its channels unasked, which the driver takes for the answer
    /// to a command that is under way, and gives all later ones to the wrong ones.
    pub(super) hub: Arc<Hub>,
}

/// Which locks' nodes do not answer.
#[derive(Default)]
struct Silences {
    /// When the first command of a lock was sent that had no answer since.
    since: HashMap<u64, Instant>,
    is_renewing: bool,
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
        Ok(Self {
            client,
            commands: Mutex::new(commands),
            silences: Mutex::default(),
            is_silent: AtomicBool::new(false),
            hub: Arc::new(Hub::new(nodes, ears, settings.clone(), runtime)),
        })
    }

    /// Notes that a lock's node has answered.
    fn hear(&self, lock_number: u64) {
        if self.is_silent.load(Ordering::Relaxed) {
            let mut silences = lock(&self.silences);
            silences.since.remove(&lock_number);
            self.is_silent.store(!silences.since.is_empty(), Ordering::Relaxed);
        }
    }

    /// Notes that it has not, and makes all connections anew if it has not for long.
    fn miss(self: &Arc<Self>, lock_number: u64, sent: Instant) {
        let mut silences = lock(&self.silences);
        self.is_silent.store(true, Ordering::Relaxed);
        let since = *silences.since.entry(lock_number).or_insert(sent);
        if since.elapsed() >= PATIENCE && !std::mem::replace(&mut silences.is_renewing, true) {
            tracing::warn!("a node of the lock store's cluster is silent; connecting anew");
            let cluster = self.clone();
            tokio::spawn(async move { cluster.renew().await });
        }
    }

    /// Whoever has taken a silent node's slots over is found by new connections.
    async fn renew(self: Arc<Self>) {
        let made = self.client.get_async_connection().await;
        let mut silences = lock(&self.silences);
        *silences = Silences::default();
        self.is_silent.store(false, Ordering::Relaxed);
        drop(silences);
        match made {
            Ok(made) => {
                *lock(&self.commands) = made;
                self.hub.renew();
            }
            Err(error) => tracing::debug!(%error, "the cluster can't be connected to anew"),
        }
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

/// Sends one command and waits for its answer, for at most `limit`; or longer, while its
/// slot moves.
pub(super) async fn run(
    cluster: Arc<Cluster>,
    command: Command,
    limit: Duration,
) -> Result<Value, StoreError> {
    let begun = Instant::now();
    loop {
        let (sent, mut connection) = (Instant::now(), lock(&cluster.commands).clone());
        let answer = async {
            match send(&mut connection, &call(&[&command], false)).await {
                Err(error) if error.code() == Some("NOSCRIPT") => {
                    send(&mut connection, &call(&[&command], true)).await
                }
                answer => answer,
            }
        };
        let Ok(answer) = timeout(limit, answer).await else {
            cluster.miss(command.lock, sent);
            return Err(fault::silent());
        };
        cluster.hear(command.lock);
        match answer {
            // It did not run, and will soon: the node is there, and so is the next one.
            Err(error) if fault::is_moving(&error) && begun.elapsed() < limit * MOVING => {
                sleep(PAUSE).await;
            }
            answer => return answer.map_err(fault::in_cluster),
        }
    }
}

async fn send(connection: &mut ClusterConnection, command: &Cmd) -> RedisResult<Value> {
    connection.req_packed_command(command).await?.extract_error()
}
