//! What all proxies have in common.

use std::future::Future;

use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Accepts clients on a port, or on any free one if it is 0. Each is served in a task of its own.
/// Returns the port, and what ends it; the test's runtime ends it, too.
///
/// # Panics
///
/// If the port is not free.
pub async fn accept<F>(
    port: u16,
    mut serve: impl FnMut(TcpStream) -> F + Send + 'static,
) -> (u16, AbortHandle)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a free port");
    let port = listener.local_addr().expect("it listens").port();
    let accepting = tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client));
        }
    });
    (port, accepting.abort_handle())
}

/// Stands before a server, hands its answers on as they are, and what a client sends as `forward` does.
/// The connection ends with either. Returns the port.
pub(crate) async fn before<F>(
    upstream: u16,
    forward: impl Fn(OwnedReadHalf, OwnedWriteHalf) -> F + Clone + Send + 'static,
) -> u16
where
    F: Future<Output = ()> + Send + 'static,
{
    let serve = move |client: TcpStream| {
        let forward = forward.clone();
        async move {
            let Ok(server) = TcpStream::connect(("127.0.0.1", upstream)).await else { return };
            let (from_client, mut to_client) = client.into_split();
            let (mut from_server, to_server) = server.into_split();
            tokio::select! {
                () = forward(from_client, to_server) => {}
                _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
            }
        }
    };
    accept(0, serve).await.0
}
