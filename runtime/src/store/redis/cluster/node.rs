//! A node of a cluster, which is spoken to like a single server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{ConnectionAddr, ConnectionInfo, Value};
use tokio::runtime::Handle;
use tokio::time::{Instant as Timer, timeout_at};

use super::slots;
use super::slots::Range;
use crate::store::StoreError;
use crate::store::redis::batcher::{Entry, Pumps};
use crate::store::redis::command::Command;
use crate::store::redis::connection::Connections;
use crate::store::redis::endpoint::Place;
use crate::store::redis::errors;
use crate::store::redis::errors::Fault;
use crate::store::redis::hints::Ears;
use crate::store::redis::manager::Manager;
use crate::store::redis::settings::Settings;

/// What all nodes of a cluster have in common.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) settings: Settings,
    pub(super) runtime: Handle,
    /// Nothing is heard by these connections.
    ears: Arc<Ears>,
    /// All but the address.
    like: ConnectionInfo,
}

impl Common {
    pub(super) fn new(
        like: ConnectionInfo,
        settings: Settings,
        ears: Arc<Ears>,
        runtime: Handle,
    ) -> Self {
        Self { settings, runtime, ears, like }
    }

    /// The address of another node, with all else that was said of the cluster.
    pub(super) fn at(&self, host: &str, port: u16) -> ConnectionInfo {
        let (host, mut address) = (host.to_owned(), self.like.addr().clone());
        match &mut address {
            ConnectionAddr::TcpTls { host: own, port: its, .. } => (*own, *its) = (host, port),
            _ => address = ConnectionAddr::Tcp(host, port),
        }
        self.like.clone().set_addr(address)
    }
}

/// A node, connected to when it is first needed.
#[derive(Debug)]
pub(super) struct Node {
    /// Host and port.
    pub(super) address: String,
    host: String,
    /// It was named by the user.
    pub(super) is_named: bool,
    pumps: Pumps,
}

impl Node {
    /// One that the others told of.
    pub(super) fn new(info: &ConnectionInfo, common: &Common) -> Self {
        Self::open(info, common, false, false)
    }

    /// One that the user named; `looks`: it is looked at for what is to be warned of.
    pub(super) fn named(info: &ConnectionInfo, common: &Common, looks: bool) -> Self {
        Self::open(info, common, looks, true)
    }

    fn open(info: &ConnectionInfo, common: &Common, looks: bool, is_named: bool) -> Self {
        let Common { settings, runtime, ears, .. } = common;
        let place = Place::Fixed(info.clone());
        let manager = Manager::new(place, settings.clone(), ears.clone(), false);
        let connections = Connections::later(Manager { looks, ..manager });
        let host = match info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
            _ => String::new(),
        };
        let pumps = Pumps::start(vec![connections], runtime);
        Self { address: info.addr().to_string(), host, is_named, pumps }
    }

    /// Sends a command; it goes on if the future is dropped.
    pub(super) async fn send(
        &self,
        command: Command,
        limit: Duration,
    ) -> Result<Value, StoreError> {
        let (entry, answer) = Entry::new(command, limit);
        self.pumps.push([entry]);
        answer.await.unwrap_or_else(|_| Err(errors::shutdown()))
    }

    /// Connects, unless it is connected to.
    pub(super) async fn connect(&self, limit: Duration) -> Result<(), StoreError> {
        self.pumps.connections().get(limit).await.map(drop)
    }

    /// Who has the slots, as far as it knows.
    pub(super) async fn slots(&self, limit: Duration) -> Result<Option<Vec<Range>>, StoreError> {
        let (deadline, connections) = (Timer::now() + limit, self.pumps.connections());
        let Ok(link) = timeout_at(deadline, connections.get(limit)).await else {
            return Err(connections.shared().no_connection());
        };
        let (mut link, sent, mut ask) = (link?, Instant::now(), redis::cmd("CLUSTER"));
        let answer = timeout_at(deadline, link.send(ask.arg("SLOTS"))).await;
        // Nothing else may be sent to it, so that nobody else finds it broken.
        let (fault, answer) = match answer.map(|answer| answer.and_then(Value::extract_error)) {
            Ok(Ok(answer)) => (Fault::Answered, Ok(slots::read(&answer, &self.host))),
            Ok(Err(error)) => (errors::sort(error.clone()).0, Err(errors::not_run(error))),
            Err(_) => (Fault::Silent, Err(errors::silent())),
        };
        connections.judge(&link, sent, fault);
        answer
    }

    /// The node that it sent a command on to, by the words of its refusal.
    pub(super) fn other<'a>(&'a self, error: &'a redis::RedisError) -> Option<(&'a str, u16)> {
        let (host, port) = error.redirect_node()?.0.rsplit_once(':')?;
        Some((slots::known(host, &self.host), port.parse().ok()?))
    }
}
