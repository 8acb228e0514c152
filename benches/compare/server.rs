//! The server's own statistics.

use std::time::Duration;

use leasehold_tests::server::Server;
use redis::aio::MultiplexedConnection;
use redis::{ConnectionInfo, IntoConnectionInfo};

use crate::clock::now;
use crate::failure::Failure;

/// A way to connect that sends small packets at once, as ours does.
pub(crate) fn without_delay(url: &str) -> Result<ConnectionInfo, Failure> {
    let info = url.into_connection_info()?;
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    Ok(info.set_tcp_settings(tcp))
}

/// A connection like the one that ours keeps: RESP3, without a delay, and one for all tasks.
pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection, Failure> {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let client = redis::Client::open(without_delay(&format!("{url}?protocol=resp3"))?)?;
    Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
}

/// The same, driven by a thread and a runtime of its own.
pub(crate) async fn connect_on_a_thread(url: &str) -> Result<MultiplexedConnection, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (handle, url) = (runtime.handle().clone(), url.to_owned());
    // The thread ends with the process.
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle.spawn(async move { connect(&url).await }).await?
}

/// A server, and a connection to watch it by.
#[derive(Debug)]
pub(crate) struct Watched {
    server: Server,
    redis: MultiplexedConnection,
}

impl Watched {
    pub(crate) async fn start() -> Result<Self, Failure> {
        // Room for a thousand waiters, each with a client of its own, and for some peers.
        let server = Server::start_with(&["--maxclients", "5000"]);
        let redis = connect(&server.url()).await?;
        Ok(Self { server, redis })
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.port()
    }

    pub(crate) fn redis(&self) -> MultiplexedConnection {
        self.redis.clone()
    }

    /// The processor time that the server has used.
    pub(crate) async fn cpu(&self) -> Result<Duration, Failure> {
        let info = self.info("cpu").await?;
        let used = |name: &str| -> Result<f64, Failure> {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            Ok(value.ok_or("INFO cpu lacks a line")?.trim().parse()?)
        };
        Ok(Duration::from_secs_f64(used("used_cpu_user")? + used("used_cpu_sys")?))
    }

    /// The number of commands that the server ran since `forget_calls`. Counts the names that pass,
    /// inside of scripts too.
    pub(crate) async fn calls(&self, is_meant: impl Fn(&str) -> bool) -> Result<usize, Failure> {
        let info = self.info("commandstats").await?;
        let mut sum = 0;
        for line in info.lines() {
            let Some((name, rest)) =
                line.strip_prefix("cmdstat_").and_then(|line| line.split_once(":calls="))
            else {
                continue;
            };
            if is_meant(name) {
                sum += rest.split(',').next().unwrap_or_default().parse::<usize>()?;
            }
        }
        Ok(sum)
    }

    /// Resets the counts.
    pub(crate) async fn forget_calls(&self) -> Result<(), Failure> {
        Ok(redis::cmd("CONFIG").arg("RESETSTAT").exec_async(&mut self.redis()).await?)
    }

    /// The number of bytes that the server has read.
    pub(crate) async fn input(&self) -> Result<usize, Failure> {
        self.number("stats", "total_net_input_bytes").await
    }

    /// The number of clients, without this one.
    pub(crate) async fn clients(&self) -> Result<usize, Failure> {
        Ok(self.number("clients", "connected_clients").await? - 1)
    }

    /// The number of bytes that the server has sent.
    pub(crate) async fn output(&self) -> Result<usize, Failure> {
        self.number("stats", "total_net_output_bytes").await
    }

    /// The memory that the server has allocated, in bytes.
    pub(crate) async fn used_memory(&self) -> Result<usize, Failure> {
        self.number("memory", "used_memory").await
    }

    /// The number of keys.
    pub(crate) async fn keys(&self) -> Result<usize, Failure> {
        Ok(redis::cmd("DBSIZE").query_async(&mut self.redis()).await?)
    }

    /// The time of the server's clock, by which keys expire.
    pub(crate) async fn time(&self) -> Result<Duration, Failure> {
        let (seconds, micros): (u64, u32) =
            redis::cmd("TIME").query_async(&mut self.redis()).await?;
        Ok(Duration::new(seconds, micros * 1000))
    }

    /// Waits until the server's clock shows this time.
    pub(crate) async fn wait_until(&self, time: Duration) -> Result<(), Failure> {
        while let Some(left) = time.checked_sub(self.time().await?).filter(|left| !left.is_zero()) {
            tokio::time::sleep(left).await;
        }
        Ok(())
    }

    async fn number(&self, section: &str, name: &str) -> Result<usize, Failure> {
        let info = self.info(section).await?;
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(value.ok_or("INFO lacks a line")?.trim().parse()?)
    }

    /// Ends all connections but this one, and returns the time. If `forgets`, the server first
    /// forgets the scripts.
    pub(crate) async fn end_connections(&self, forgets: bool) -> Result<Duration, Failure> {
        let mut redis = self.redis();
        if forgets {
            redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut redis).await?;
        }
        let ended = now();
        redis::cmd("CLIENT").arg(&["KILL", "SKIPME", "yes"]).exec_async(&mut redis).await?;
        Ok(ended)
    }

    /// Forgets all keys, so that no contender pays for those of another.
    pub(crate) async fn clear(&self) -> Result<(), Failure> {
        Ok(redis::cmd("FLUSHALL").arg("SYNC").exec_async(&mut self.redis()).await?)
    }

    async fn info(&self, section: &str) -> Result<String, Failure> {
        Ok(redis::cmd("INFO").arg(section).query_async(&mut self.redis()).await?)
    }
}
