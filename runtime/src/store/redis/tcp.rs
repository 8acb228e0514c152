//! TCP connections, with up to three attempts. A server whose backlog is full drops the first
//! packet of a connection. The system sends it again after a second, when the time for
//! connecting is over. So a second and a third attempt start before that.

use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::select_ok;
use redis::io::tcp::TcpSettings;
use tokio::net::lookup_host;
use tokio::time::sleep;

use crate::system::{self, Stream};

/// The time from one attempt to the next.
const STAGGER: Duration = Duration::from_millis(300);

/// Opens a connection to each address of a host at the same time, since some may be dead.
/// Returns the first that opens.
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

/// Connects to an address. The first answer counts, even a refusal, and ends the other
/// attempts.
pub(super) async fn connect(address: SocketAddr, settings: &TcpSettings) -> Result<Stream> {
    let after = async |pause| {
        sleep(pause).await;
        system::connect(address).await
    };
    let socket = tokio::select! {
        socket = system::connect(address) => socket,
        socket = after(STAGGER) => socket,
        socket = after(2 * STAGGER) => socket,
    }?;
    socket.set_nodelay(settings.nodelay())?;
    Ok(socket)
}
