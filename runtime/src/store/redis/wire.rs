//! The driver's connection over a stream of our own. Over TCP, the driver would make only one
//! attempt: see `tcp.rs`. For TLS, it would use the process's cryptography provider and install
//! one if there is none; a program that installs its own later would then panic. Ours uses the
//! program's provider or ring, and installs nothing.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use redis::aio::{AsyncStream, MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, RedisResult};
use tokio::task::AbortHandle;

use super::driver::{Driver, DriverTask};
use super::tcp;

/// A connection; a clone is the same one. It is closed when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) connection: MultiplexedConnection,
    /// `None` if the driver made the stream: it keeps its own.
    task: Option<Arc<Task>>,
    /// The driver queues any number of commands. Otherwise it takes 50, and the next when it has
    /// written some.
    pub(super) has_room: bool,
}

/// The task that reads and writes a connection. It ends with the connection, even if an answer
/// never comes.
struct Task(AbortHandle, Arc<Driver>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// More commands than a client ever has in flight.
const MAX_QUEUED: usize = 1 << 20;

type AnyStream = Pin<Box<dyn AsyncStream + Send + Sync>>;

impl From<MultiplexedConnection> for Wire {
    /// Wraps a connection that the driver has made.
    fn from(connection: MultiplexedConnection) -> Self {
        Self { connection, task: None, has_room: false }
    }
}

impl Wire {
    /// Connects. The caller limits the time: `config`'s limit is only for Unix sockets.
    pub(super) async fn connect(
        info: ConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> RedisResult<Self> {
        let config = config.set_pipeline_buffer_size(MAX_QUEUED);
        let Some(stream) = stream(&info).await? else {
            return Self::by_driver(info, &config).await;
        };
        let (connection, task) =
            MultiplexedConnection::new_with_config(info.redis_settings(), stream, config).await?;
        let driver = Driver::new(task);
        let task = tokio::spawn(DriverTask(driver.clone()).boxed()).abort_handle();
        Ok(Self { connection, task: Some(Arc::new(Task(task, driver))), has_room: true })
    }

    /// Calls `send`, which may send commands on this connection, and writes them at once if it
    /// can. Otherwise the connection's task does.
    pub(super) fn drive(&self, send: impl FnOnce()) {
        match &self.task {
            Some(task) => task.1.drive(send),
            None => send(),
        }
    }

    async fn by_driver(info: ConnectionInfo, config: &AsyncConnectionConfig) -> RedisResult<Self> {
        let client = Client::open(info)?;
        let connection = client.get_multiplexed_async_connection_with_config(config).await?;
        Ok(Self { has_room: true, ..connection.into() })
    }

    /// Connects for subscriptions by RESP2. The caller limits the time.
    pub(super) async fn connect_pubsub(info: ConnectionInfo) -> RedisResult<PubSub> {
        match stream(&info).await? {
            Some(stream) => PubSub::new(info.redis_settings(), stream).await,
            None => Client::open(info)?.get_async_pubsub().await,
        }
    }
}

/// Opens a stream to a server, unless the driver has to open it.
async fn stream(info: &ConnectionInfo) -> RedisResult<Option<AnyStream>> {
    let settings = info.tcp_settings();
    Ok(match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            Some(Box::pin(tcp::first(host, *port, |at| tcp::connect(at, settings)).await?))
        }
        #[cfg(feature = "tls-no-provider")]
        ConnectionAddr::TcpTls { host, port, .. } => {
            Some(Box::pin(tls::connect(host, *port, settings).await?))
        }
        _ => None,
    })
}

#[cfg(feature = "tls-no-provider")]
mod tls {
    use std::io::Error;
    use std::sync::Arc;

    use redis::RedisResult;
    use redis::io::tcp::TcpSettings;
    use rustls::crypto::CryptoProvider;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;

    use super::tcp;
    use crate::system::Stream;

    pub(super) async fn connect(
        host: &str,
        port: u16,
        settings: &TcpSettings,
    ) -> RedisResult<TlsStream<Stream>> {
        // No certificate names the zone of an address.
        let name = host.split('%').next().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name).map_err(Error::other)?;
        let connector = TlsConnector::from(Arc::new(config()?));
        let open = async |address| {
            let socket = tcp::connect(address, settings).await?;
            connector.connect(name.clone(), socket).await
        };
        Ok(tcp::first(host, port, open).await?)
    }

    /// Trusts the system's certificate authorities, or those of `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR`.
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
        #[cfg(feature = "tls")]
        let provider =
            provider.or_else(|| Some(Arc::new(rustls::crypto::ring::default_provider())));
        let provider = provider.ok_or_else(|| {
            Error::other(
                "rustls has no cryptography: install a `rustls::crypto::CryptoProvider` before \
                 the client connects, or use the feature `tls` of leasehold, which brings one",
            )
        })?;
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().map_err(Error::other)?;
        Ok(config.with_root_certificates(roots).with_no_client_auth())
    }

    // With the feature `tls`, and with a provider of the program, the suites connect.
    #[cfg(all(test, not(feature = "tls")))]
    #[test]
    fn without_cryptography_the_error_says_what_to_do() {
        let error = config().expect_err("no provider is installed").to_string();
        assert!(error.contains("install a `rustls::crypto::CryptoProvider`"), "{error}");
        assert!(error.contains("use the feature `tls` of leasehold"), "{error}");
    }
}
