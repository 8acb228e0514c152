//! One connection to a server. The driver makes it, except for TLS: the driver would use the
//! process's cryptography provider, and install one if there is none. A program that installs
//! its own later would then panic. So the TLS stream is made here, by the program's provider
//! or by ring, and nothing is installed.

use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, Pipeline, RedisFuture, RedisResult, Value,
};

/// A connection; a clone is the same one. It is closed when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) connection: MultiplexedConnection,
    #[cfg(feature = "tls")]
    _driver: Option<std::sync::Arc<tls::Driver>>,
}

impl From<MultiplexedConnection> for Wire {
    /// Takes one that the driver has made.
    fn from(connection: MultiplexedConnection) -> Self {
        Self {
            connection,
            #[cfg(feature = "tls")]
            _driver: None,
        }
    }
}

impl Wire {
    /// Connects. By TLS `config`'s connection time-out does not count: the caller has one.
    pub(super) async fn connect(
        info: ConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> RedisResult<Self> {
        #[cfg(feature = "tls")]
        if tls::is_meant(&info) {
            return tls::connect(&info, config).await;
        }
        let client = Client::open(info)?;
        Ok(client.get_multiplexed_async_connection_with_config(&config).await?.into())
    }

    /// Connects for subscriptions by RESP2. The caller has a time-out.
    pub(super) async fn connect_pubsub(info: ConnectionInfo) -> RedisResult<PubSub> {
        #[cfg(feature = "tls")]
        if tls::is_meant(&info) {
            return PubSub::new(info.redis_settings(), tls::stream(&info).await?).await;
        }
        Client::open(info)?.get_async_pubsub().await
    }
}

/// The driver's connection to a cluster is made of these.
impl ConnectionLike for Wire {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.connection.req_packed_command(command)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.connection.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
    }
}

#[cfg(feature = "cluster")]
impl redis::cluster_async::Connect for Wire {
    fn connect_with_config<'a, T>(info: T, config: AsyncConnectionConfig) -> RedisFuture<'a, Self>
    where
        T: redis::IntoConnectionInfo + Send + 'a,
    {
        Box::pin(async move {
            let info = info.into_connection_info()?;
            #[cfg(feature = "tls")]
            if tls::is_meant(&info) {
                return tls::connect_in_time(&info, config).await;
            }
            Self::connect(info, config).await
        })
    }
}

#[cfg(feature = "tls")]
mod tls {
    use std::io::{Error, ErrorKind};
    use std::net::SocketAddr;
    use std::sync::Arc;

    use futures_util::future::select_ok;
    use redis::aio::MultiplexedConnection;
    use redis::{AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, RedisResult};
    use rustls::crypto::{CryptoProvider, ring};
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::net::{TcpStream, lookup_host};
    use tokio::task::AbortHandle;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;

    use super::Wire;

    /// The task that reads and writes a connection. It ends with the connection, even if an
    /// answer never comes.
    pub(super) struct Driver(AbortHandle);

    impl Drop for Driver {
        fn drop(&mut self) {
            self.0.abort();
        }
    }

    pub(super) fn is_meant(info: &ConnectionInfo) -> bool {
        matches!(info.addr(), ConnectionAddr::TcpTls { .. })
    }

    pub(super) async fn connect(
        info: &ConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> RedisResult<Wire> {
        let stream = stream(info).await?;
        let (connection, driver) =
            MultiplexedConnection::new_with_config(info.redis_settings(), stream, config).await?;
        let driver = Driver(tokio::spawn(driver).abort_handle());
        Ok(Wire { connection, _driver: Some(Arc::new(driver)) })
    }

    /// Connects to a node for hints.
    #[cfg(feature = "cluster")]
    pub(super) async fn connect_in_time(
        info: &ConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> RedisResult<Wire> {
        /// The driver keeps the client's own time-out to itself. Until a dead node is given
        /// up, waiters ask instead.
        const LIMIT: std::time::Duration = std::time::Duration::from_secs(5);
        let silent = |_| Err(Error::new(ErrorKind::TimedOut, "no answer in time").into());
        tokio::time::timeout(LIMIT, connect(info, config)).await.unwrap_or_else(silent)
    }

    /// Tries all addresses of the host at once, as the driver does: some may be dead.
    pub(super) async fn stream(info: &ConnectionInfo) -> RedisResult<TlsStream<TcpStream>> {
        let ConnectionAddr::TcpTls { host, port, .. } = info.addr() else {
            return Err(Error::other("the address is not one for TLS").into());
        };
        let name = ServerName::try_from(host.clone()).map_err(Error::other)?;
        let connector = TlsConnector::from(Arc::new(config()?));
        let open = |address: SocketAddr| {
            let (connector, name) = (connector.clone(), name.clone());
            Box::pin(async move {
                let socket = TcpStream::connect(address).await?;
                socket.set_nodelay(info.tcp_settings().nodelay())?;
                connector.connect(name, socket).await
            })
        };
        let attempts: Vec<_> = lookup_host((&**host, *port)).await?.map(open).collect();
        if attempts.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, "the host has no address").into());
        }
        Ok(select_ok(attempts).await?.0)
    }

    /// Trusts the authorities that the system trusts, or those that `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR` name.
    fn config() -> RedisResult<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let mut trusted = rustls_native_certs::load_native_certs();
        if let Some(error) = trusted.errors.pop() {
            return Err(Error::other(error).into());
        }
        for certificate in trusted.certs {
            roots.add(certificate).map_err(Error::other)?;
        }
        let provider = CryptoProvider::get_default().cloned();
        let provider = provider.unwrap_or_else(|| Arc::new(ring::default_provider()));
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().map_err(Error::other)?;
        Ok(config.with_root_certificates(roots).with_no_client_auth())
    }
}
