//! Asks sentinels for the current master.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, ErrorKind, ProtocolVersion, RedisError,
    RedisResult,
};
use tokio::time::timeout;

use super::errors;
use super::wire::Wire;

/// Sentinels, and the master to ask them for.
#[derive(Clone, Debug)]
pub(super) struct Sentinels {
    all: Vec<ConnectionInfo>,
    /// The master's name.
    name: String,
    /// The user's settings for the master, but for its host and port.
    master: ConnectionInfo,
}

impl Sentinels {
    pub(super) fn new(all: Vec<ConnectionInfo>, name: String, master: ConnectionInfo) -> Self {
        Self { all, name, master }
    }

    #[cfg(test)]
    pub(super) fn parts(&self) -> (&str, &ConnectionInfo, &[ConnectionInfo]) {
        (&self.name, &self.master, &self.all)
    }

    /// Their name in errors and log messages.
    pub(super) fn describe(&self) -> String {
        let hosts: Vec<_> = self.all.iter().map(|it| it.addr().to_string()).collect();
        format!("{} of the sentinels {}", self.name, hosts.join(", "))
    }

    /// The user's settings for the master. Its host and port mean nothing.
    pub(super) fn master(&self) -> &ConnectionInfo {
        &self.master
    }

    /// The protocol for the master.
    pub(super) fn protocol(&self) -> ProtocolVersion {
        self.master.redis_settings().protocol()
    }

    /// Asks all at the same time: dead sentinels cost nothing as long as most are alive. During a
    /// failover, or when it is cut off, a sentinel may name a former master. So the answer of
    /// more than half counts or, once all have answered, the most frequent one.
    pub(super) async fn find_master(&self, limit: Duration) -> RedisResult<ConnectionInfo> {
        let ask = |sentinel: &ConnectionInfo| {
            let (sentinel, name) = (sentinel.clone(), self.name.clone());
            async move {
                let timed_out = |_| Err(errors::no_answer());
                let answer = timeout(limit, ask(&sentinel, &name)).await.unwrap_or_else(timed_out);
                (sentinel.addr().to_string(), answer)
            }
        };
        let mut answers: FuturesUnordered<_> = self.all.iter().map(ask).collect();
        let (mut votes, mut failures) = (HashMap::<_, usize>::new(), Vec::new());
        while let Some((sentinel, answer)) = answers.next().await {
            match answer {
                Ok(Some(master)) => {
                    let votes = votes.entry(master.clone()).or_default();
                    *votes += 1;
                    if *votes * 2 > self.all.len() {
                        return Ok(self.at(master));
                    }
                }
                Ok(None) => failures.push(format!("{sentinel} knows no master of this name")),
                Err(error) => failures.push(format!("{sentinel}: {}", explain(&error))),
            }
        }
        match votes.into_iter().max_by_key(|(_, votes)| *votes) {
            Some((master, _)) => Ok(self.at(master)),
            None => Err((ErrorKind::Io, "no sentinel names a master", failures.join("; ")).into()),
        }
    }

    fn at(&self, (host, port): (String, u16)) -> ConnectionInfo {
        let address = match self.master.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        self.master.clone().set_addr(address)
    }
}

/// Asks one sentinel for the master.
async fn ask(sentinel: &ConnectionInfo, name: &str) -> RedisResult<Option<(String, u16)>> {
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let mut connection = Wire::connect(sentinel.clone(), config).await?;
    let mut command = redis::cmd("SENTINEL");
    command.arg("GET-MASTER-ADDR-BY-NAME").arg(name).query_async(&mut connection.connection).await
}

fn explain(error: &RedisError) -> String {
    match error.code() {
        Some("NOAUTH") => {
            format!("{error}; a sentinel's own password is the URL's option sentinel_password")
        }
        _ => error.to_string(),
    }
}
