//! The other side of [`crate::system`]: a world that a test decides. A thread is in one world at a
//! time, and all that a client does there is done on that thread.

use std::cell::RefCell;
use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection of a simulated world.
pub trait SimulatedStream: AsyncRead + AsyncWrite + Debug + Send + Sync + Unpin {}

/// A connection that is being opened.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn SimulatedStream>>> + Send>>;

/// What the system would decide.
pub trait World {
    /// Opens a connection.
    fn connect(&self, address: SocketAddr) -> Connecting;

    /// The time since 1970.
    fn wall_clock(&self) -> Duration;

    /// For how long the process was suspended so far: its timers stood still meanwhile.
    fn suspended(&self) -> Duration;

    /// Random bits.
    fn random_bits(&self) -> u128;

    /// The name of the machine.
    fn host(&self) -> String;

    /// The id of the process, on its machine.
    fn process_id(&self) -> u32;
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
