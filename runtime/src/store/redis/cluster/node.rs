//! A node of a cluster, which works like a single server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{ConnectionAddr, ConnectionInfo, RedisError, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant as Timer, timeout_at};

use super::hint_link::{HintLink, Tell};
use super::slots;
use super::slots::Range;
use crate::store::StoreError;
use crate::store::redis::answer::PendingAnswer;
use crate::store::redis::connection::Connection;
use crate::store::redis::connector::Connector;
use crate::store::redis::encoded::Encoded;
use crate::store::redis::endpoint::Endpoint;
use crate::store::redis::errors;
use crate::store::redis::errors::LinkOutcome;
use crate::store::redis::hints::HintReceiver;
use crate::store::redis::settings::Settings;
use crate::store::redis::single_server::SingleServer;
use crate::store::redis::transport::Transport;
use crate::system;

/// The shortest time between two attempts to connect for hints.
const PAUSE: Duration = Duration::from_millis(100);

/// The settings and the hints that all nodes of a cluster share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) settings: Settings,
    pub(super) runtime: Handle,
    /// The nodes' connections carry no hints.
    hints: Arc<HintReceiver>,
    /// The user's settings for each node, but for its address.
    template: ConnectionInfo,
}

impl Common {
    pub(super) fn new(
        template: ConnectionInfo,
        settings: Settings,
        hints: Arc<HintReceiver>,
        runtime: Handle,
    ) -> Self {
        Self { settings, runtime, hints, template }
    }

    /// The address of another node, with the user's settings.
    pub(super) fn at(&self, host: &str, port: u16) -> ConnectionInfo {
        let (host, mut address) = (host.to_owned(), self.template.addr().clone());
        match &mut address {
            ConnectionAddr::TcpTls { host: old_host, port: old_port, .. } => {
                (*old_host, *old_port) = (host, port);
            }
            _ => address = ConnectionAddr::Tcp(host, port),
        }
        self.template.clone().set_addr(address)
    }
}

/// A node. It connects when it is first needed.
#[derive(Debug)]
pub(super) struct Node {
    /// Host and port.
    pub(super) address: String,
    host: String,
    info: ConnectionInfo,
    /// The user named it.
    pub(super) is_named: bool,
    server: SingleServer,
    hints: AsyncMutex<Hints>,
}

/// The connection for hints, made for the first waiter.
#[derive(Debug, Default)]
struct Hints {
    link: Option<Arc<HintLink>>,
    /// The last attempt to connect failed then.
    failed: Option<(Instant, RedisError)>,
}

impl Node {
    /// A node that other nodes reported.
    pub(super) fn new(info: &ConnectionInfo, common: &Common) -> Self {
        Self::open(info, common, false, false)
    }

    /// A node that the user named. `checks_settings`: it warns of unsafe ones.
    pub(super) fn named(info: &ConnectionInfo, common: &Common, checks_settings: bool) -> Self {
        Self::open(info, common, checks_settings, true)
    }

    fn open(info: &ConnectionInfo, common: &Common, checks_settings: bool, is_named: bool) -> Self {
        let Common { settings, runtime, hints, .. } = common;
        let endpoint = Endpoint::Fixed(info.clone());
        let connector = Connector::new(endpoint, settings.clone(), hints.clone(), false);
        let connection = Connection::later(Connector { checks_settings, ..connector });
        let host = match info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
            _ => String::new(),
        };
        let server = SingleServer::start(vec![connection], runtime);
        Self {
            address: info.addr().to_string(),
            host,
            info: info.clone(),
            is_named,
            server,
            hints: AsyncMutex::default(),
        }
    }

    /// Sends a command. It goes on if the answer is dropped.
    pub(super) fn send(&self, command: Encoded, limit: Duration) -> PendingAnswer {
        self.server.send(command, limit)
    }

    /// The connection for questions about the node.
    pub(super) fn connection(&self) -> Arc<Connection> {
        self.server.first_connection().clone()
    }

    /// Connects, unless it is connected.
    pub(super) async fn connect(&self, limit: Duration) -> Result<(), StoreError> {
        self.server.first_connection().link(limit).await.map(drop)
    }

    /// The connection for hints. Once it is lost, this makes another. Those who ask while that fails, or
    /// soon after, share the failure.
    pub(super) async fn hint_link(
        &self,
        limit: Duration,
        tell: &Tell,
    ) -> RedisResult<Arc<HintLink>> {
        let Hints { link, failed } = &mut *self.hints.lock().await;
        if let Some(link) = link.as_ref().filter(|link| !link.is_lost()) {
            return Ok(link.clone());
        }
        if let Some((at, error)) = failed
            && system::since(*at) < PAUSE
        {
            return Err(error.clone());
        }
        match HintLink::open(self.info.clone(), limit, tell.clone()).await {
            Ok(made) => Ok(link.insert(made).clone()),
            Err(error) => {
                *failed = Some((system::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// The masters that it reports.
    pub(super) async fn slots(&self, limit: Duration) -> Result<Option<Vec<Range>>, StoreError> {
        let (deadline, connection) = (Timer::now() + limit, self.server.first_connection());
        let Ok(link) = timeout_at(deadline, connection.link(limit)).await else {
            return Err(connection.server().no_connection());
        };
        let (mut link, sent, mut ask) = (link?, system::now(), redis::cmd("CLUSTER"));
        let answer = timeout_at(deadline, link.send(ask.arg("SLOTS"))).await;
        // If no other command is sent to this node, none but this finds the link broken.
        let (outcome, answer) = match answer.map(|answer| answer.and_then(Value::extract_error)) {
            Ok(Ok(answer)) => (LinkOutcome::Answered, Ok(slots::read(&answer, &self.host))),
            Ok(Err(error)) => (errors::classify(error.clone()).0, Err(errors::not_run(error))),
            Err(_) => (LinkOutcome::Silent, Err(errors::timed_out())),
        };
        connection.record(&link, sent, outcome);
        answer
    }

    /// The node that its redirection names.
    pub(super) fn redirection<'a>(
        &'a self,
        error: &'a redis::RedisError,
    ) -> Option<(&'a str, u16)> {
        let (host, port) = error.redirect_node()?.0.rsplit_once(':')?;
        Some((slots::host_or_own(host, &self.host), port.parse().ok()?))
    }
}
