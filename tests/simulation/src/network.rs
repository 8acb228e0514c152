//! The bytes between clients and the simulated server: streams in memory, on tokio's paused clock.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use leasehold::system::simulation::{Connecting, World};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, sleep_until};

use crate::server::session::SessionId;
use crate::server::{Server, Settings};

/// The bytes that a stream holds before its writer has to wait.
const BUFFER: usize = 1 << 20;

/// When each world begins: 2026-01-01, in microseconds since 1970.
const BEGINNING_US: i64 = 1_767_225_600_000_000;

/// How long bytes travel, one way.
const LATENCY: Duration = Duration::from_micros(100);

/// How often bytes meet a fault on their way to the server, out of 1,000 times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The connection is lost before the server has them.
    pub cut_before: u32,
    /// The connection is lost when the server has them, and before its answer is written.
    pub cut_after: u32,
    /// They are late, by up to three seconds. What comes after them on the connection waits.
    pub stall: u32,
}

/// One server, and the way to it from all clients of this thread.
#[derive(Debug)]
pub struct Network {
    server: RefCell<Server>,
    began: Instant,
    dialled: mpsc::UnboundedSender<DuplexStream>,
    /// Wakes the writer of each connection.
    writers: RefCell<BTreeMap<SessionId, Rc<Notify>>>,
    rng: RefCell<Rng>,
    faults: Cell<Faults>,
    /// Until when the server runs no command.
    frozen: Cell<Option<Instant>>,
}

impl Network {
    /// Starts a server. Call it in a `LocalSet`, on a paused clock.
    #[must_use]
    pub fn start(seed: u64) -> Rc<Self> {
        let (dialled, streams) = mpsc::unbounded_channel();
        let network = Rc::new(Self {
            server: RefCell::new(Server::new(Settings::default(), BEGINNING_US)),
            began: Instant::now(),
            dialled,
            writers: RefCell::default(),
            rng: RefCell::new(Rng::with_seed(seed)),
            faults: Cell::default(),
            frozen: Cell::default(),
        });
        spawn_local(accept(network.clone(), streams));
        network
    }

    /// The server.
    #[must_use]
    pub fn server(&self) -> &RefCell<Server> {
        &self.server
    }

    /// From now on, bytes meet these faults.
    pub fn set_faults(&self, faults: Faults) {
        self.faults.set(faults);
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.faults.take();
        self.frozen.take();
    }

    /// The server runs no command for this long.
    pub fn freeze(&self, time: Duration) {
        self.frozen.set(Some(Instant::now() + time));
    }

    /// Returns true so often out of 1,000 times.
    fn happens(&self, often: u32) -> bool {
        often > 0 && self.rng.borrow_mut().u32(0..1000) < often
    }

    /// The time that bytes travel to the server now.
    async fn travel(&self) {
        sleep(LATENCY).await;
        if self.happens(self.faults.get().stall) {
            let micros = self.rng.borrow_mut().u64(0..3_000_000);
            sleep(Duration::from_micros(micros)).await;
        }
        while let Some(until) = self.frozen.get().filter(|until| Instant::now() < *until) {
            sleep_until(until).await;
        }
    }

    fn now_us(&self) -> i64 {
        BEGINNING_US + i64::try_from(self.began.elapsed().as_micros()).expect("it fits")
    }

    /// Gives bytes to the server, and wakes those that it answers.
    fn receive(&self, id: SessionId, bytes: &[u8]) {
        let mut server = self.server.borrow_mut();
        server.set_clock(self.now_us());
        server.receive(id, bytes);
        let writers = self.writers.borrow();
        for id in server.pending() {
            if let Some(writer) = writers.get(&id) {
                writer.notify_one();
            }
        }
    }

    fn close(&self, id: SessionId) {
        self.server.borrow_mut().disconnect(id);
        if let Some(writer) = self.writers.borrow_mut().remove(&id) {
            writer.notify_one();
        }
    }
}

impl World for Network {
    fn connect(&self, _: SocketAddr) -> Connecting {
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        let is_open = self.dialled.send(theirs).is_ok();
        Box::pin(async move {
            sleep(LATENCY * 2).await;
            let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            if is_open { Ok(ours) } else { Err(refused()) }
        })
    }

    fn wall_clock(&self) -> Duration {
        Duration::from_micros(self.now_us().unsigned_abs())
    }

    fn random_bits(&self) -> u128 {
        self.rng.borrow_mut().u128(..)
    }
}

async fn accept(network: Rc<Network>, mut streams: mpsc::UnboundedReceiver<DuplexStream>) {
    let mut port = 10_000;
    while let Some(stream) = streams.recv().await {
        port += 1;
        let id = network.server.borrow_mut().connect(format!("10.0.0.9:{port}"));
        let writer = Rc::new(Notify::new());
        network.writers.borrow_mut().insert(id, writer.clone());
        let (reading, writing) = tokio::io::split(stream);
        spawn_local(read(network.clone(), id, reading));
        spawn_local(write(network.clone(), id, writing, writer));
    }
}

async fn read(network: Rc<Network>, id: SessionId, mut stream: ReadHalf<DuplexStream>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = stream.read(&mut bytes).await {
        network.travel().await;
        if network.happens(network.faults.get().cut_before) {
            break;
        }
        network.receive(id, &bytes[..count]);
        if network.happens(network.faults.get().cut_after) {
            break;
        }
    }
    network.close(id);
}

async fn write(
    network: Rc<Network>,
    id: SessionId,
    mut stream: WriteHalf<DuplexStream>,
    writer: Rc<Notify>,
) {
    loop {
        writer.notified().await;
        sleep(LATENCY).await;
        let output = network.server.borrow_mut().take_output(id);
        let Some(output) = output else { break };
        if stream.write_all(&output).await.is_err() {
            break;
        }
    }
    let _ = stream.shutdown().await;
}
