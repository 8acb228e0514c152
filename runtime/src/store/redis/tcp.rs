//! TCP connections. A server whose backlog is full drops a connection's first packet. The
//! system sends it again after a second, when the time to connect is over. So a second and a
//! third connection are tried before.

use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::select_ok;
use redis::io::tcp::TcpSettings;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::sleep;

/// How long the first try is alone, and then the second.
const ALONE: Duration = Duration::from_millis(300);

/// Opens all addresses of a host at once, since some may be dead, and takes the first that
/// opens.
pub(super) async fn first<F, S>(host: &str, port: u16, open: impl Fn(SocketAddr) -> F) -> Result<S>
where
    F: Future<Output = Result<S>>,
{
    let addresses = lookup_host((host, port)).await?;
    let attempts: Vec<_> = addresses.map(|address| Box::pin(open(address))).collect();
    if attempts.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "the host has no address"));
    }
    Ok(select_ok(attempts).await?.0)
}

/// Connects to an address. The first answer counts, also if it is a refusal; the other tries
/// end.
pub(super) async fn connect(address: SocketAddr, settings: &TcpSettings) -> Result<TcpStream> {
    let after = async |pause| {
        sleep(pause).await;
        TcpStream::connect(address).await
    };
    let socket = tokio::select! {
        socket = TcpStream::connect(address) => socket,
        socket = after(ALONE) => socket,
        socket = after(2 * ALONE) => socket,
    }?;
    socket.set_nodelay(settings.nodelay())?;
    Ok(socket)
}
