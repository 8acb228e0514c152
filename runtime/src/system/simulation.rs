//! The other side of [`crate::system`]: a world that a test decides. It is the world of one thread,
//! and all that a client does there is done on that thread.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::DuplexStream;

/// A connection that is being opened.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>>;

/// What the system would decide.
pub trait World {
    /// Opens a connection.
    fn connect(&self, address: SocketAddr) -> Connecting;

    /// The time since 1970.
    fn wall_clock(&self) -> Duration;

    /// Random bits.
    fn random_bits(&self) -> u128;
}

thread_local! {
    static WORLD: RefCell<Option<Rc<dyn World>>> = const { RefCell::new(None) };
}

/// From now on, this thread is in that world; with `None`, in the real one.
pub fn enter(world: Option<Rc<dyn World>>) {
    WORLD.set(world);
}

/// The world of this thread, unless it is the real one.
pub(super) fn world() -> Option<Rc<dyn World>> {
    WORLD.with_borrow(Clone::clone)
}
