//! The client's end of a connection.

use std::collections::VecDeque;
use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use leasehold::system::simulation::SimulatedStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::ConnectionId;
use crate::process;

/// How far a connection has come, for its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Side {
    #[default]
    Dialling,
    Refused,
    Open,
    Closed,
}

/// What has arrived at the client and was not read.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    side: Side,
    bytes: VecDeque<u8>,
    waiting: Option<Waker>,
}

impl Pipe {
    pub(super) fn set(&mut self, side: Side) {
        self.side = side;
        self.wake();
    }

    pub(super) fn deliver(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
    }
}

pub(super) fn lock(pipe: &Mutex<Pipe>) -> MutexGuard<'_, Pipe> {
    pipe.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The client's end of a connection. Without its world it is lost.
pub struct SimulatedConnection {
    id: ConnectionId,
    pipe: Arc<Mutex<Pipe>>,
}

impl fmt::Debug for SimulatedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}", self.id)
    }
}

impl SimulatedConnection {
    pub(super) fn new(id: ConnectionId, pipe: Arc<Mutex<Pipe>>) -> Self {
        Self { id, pipe }
    }

    /// Waits until the server has accepted or refused it.
    pub async fn opened(self) -> Result<Self> {
        let pipe = self.pipe.clone();
        std::future::poll_fn(move |context| {
            let mut pipe = lock(&pipe);
            match pipe.side {
                Side::Dialling => {
                    pipe.waiting = Some(context.waker().clone());
                    Poll::Pending
                }
                Side::Refused => Poll::Ready(Err(Error::from(ErrorKind::ConnectionRefused))),
                Side::Open | Side::Closed => Poll::Ready(Ok(())),
            }
        })
        .await?;
        Ok(self)
    }
}

impl SimulatedStream for SimulatedConnection {}

impl Drop for SimulatedConnection {
    fn drop(&mut self) {
        process::in_network(|network, at| network.close(self.id, at));
    }
}

impl AsyncRead for SimulatedConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let mut pipe = lock(&self.pipe);
        if pipe.bytes.is_empty() {
            if pipe.side == Side::Closed {
                process::in_network(|network, at| network.see_end(self.id, at));
                return Poll::Ready(Ok(()));
            }
            pipe.waiting = Some(context.waker().clone());
            return Poll::Pending;
        }
        while buffer.remaining() > 0 && !pipe.bytes.is_empty() {
            let (front, _) = pipe.bytes.as_slices();
            let count = front.len().min(buffer.remaining());
            buffer.put_slice(&front[..count]);
            pipe.bytes.drain(..count);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SimulatedConnection {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        if lock(&self.pipe).side == Side::Closed {
            return Poll::Ready(Err(Error::from(ErrorKind::BrokenPipe)));
        }
        process::in_network(|network, at| network.send(self.id, bytes.to_vec(), at));
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }
}
