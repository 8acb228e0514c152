//! A connection as bytes.

use std::io::Result;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

#[cfg(feature = "internals")]
use super::simulation::SimulatedStream;

/// Opens a TCP connection.
pub(crate) async fn connect(address: SocketAddr) -> Result<Stream> {
    #[cfg(feature = "internals")]
    if let Some(connecting) = in_simulation!(|world| world.connect(address)) {
        return connecting.await.map(Stream::from);
    }
    TcpStream::connect(address).await.map(Stream::from)
}

/// An open connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(feature = "internals")]
    Simulated(Box<dyn SimulatedStream>),
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

#[cfg(feature = "internals")]
impl From<Box<dyn SimulatedStream>> for Stream {
    fn from(stream: Box<dyn SimulatedStream>) -> Self {
        Self::Simulated(stream)
    }
}

impl Stream {
    /// Sends small writes at once.
    pub(crate) fn set_nodelay(&self, nodelay: bool) -> Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(nodelay),
            #[cfg(feature = "internals")]
            Self::Simulated(_) => Ok(()),
        }
    }
}

/// The same call of whichever stream it is.
macro_rules! either {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $call,
            #[cfg(feature = "internals")]
            Stream::Simulated($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        either!(self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        either!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        either!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}
