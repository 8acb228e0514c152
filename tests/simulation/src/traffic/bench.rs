//! A server with an oracle, and a way to it without faults.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::oracle::Oracle;
use crate::server::session::SessionId;
use crate::server::{Server, Settings};
use leasehold::system::simulation::{Connecting, SimulatedStream, World, enter};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, ReadHalf, WriteHalf,
};
use tokio::sync::{Notify, mpsc};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::Instant;

const BEGINNING_US: i64 = 1_767_225_600_000_000;

#[derive(Debug)]
pub struct Bench {
    pub server: RefCell<Server>,
    began: Instant,
    /// A millisecond since then, and the microseconds in it.
    within: Cell<(i64, i64)>,
    /// By how much its clock was set back.
    pub behind_us: Cell<i64>,
    dialled: mpsc::UnboundedSender<DuplexStream>,
    writers: RefCell<BTreeMap<SessionId, Rc<Notify>>>,
    bits: Cell<u128>,
}

/// Runs a test on a thread of its own world, and returns what the oracle has found.
pub fn on_a_bench<F: Future<Output = ()>>(
    mistake: Option<(&str, &str)>,
    test: impl FnOnce(Rc<Bench>) -> F,
) -> Vec<String> {
    let (found, of_calls) = watched(Oracle::default(), mistake, test);
    let [judged, shadowed, _] = of_calls;
    assert!(shadowed * 10 > judged * 9, "{shadowed} of {judged} calls compared");
    found
}

/// The same, under this oracle. Returns also how many calls it has judged and compared with the rules, and
/// how many successes it has counted.
pub fn watched<F: Future<Output = ()>>(
    oracle: Oracle,
    mistake: Option<(&str, &str)>,
    test: impl FnOnce(Rc<Bench>) -> F,
) -> (Vec<String>, [u64; 3]) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    LocalSet::new().block_on(&runtime.expect("a runtime"), async {
        let mut server = Server::new(Settings::default(), BEGINNING_US);
        server.watch(oracle);
        if let Some((from, to)) = mistake {
            server.alter(from, to);
        }
        let (dialled, streams) = mpsc::unbounded_channel();
        let bench = Rc::new(Bench {
            server: RefCell::new(server),
            began: Instant::now(),
            within: Cell::default(),
            behind_us: Cell::default(),
            dialled,
            writers: RefCell::default(),
            bits: Cell::new(1),
        });
        spawn_local(accept(bench.clone(), streams));
        enter(Some(bench.clone()));
        test(bench.clone()).await;
        enter(None);
        let mut server = bench.server.borrow_mut();
        let oracle = server.oracle().expect("it watches");
        let [judged, shadowed] = ["call", "shadow"].map(|rule| oracle.judged.get(rule));
        assert!(judged > 0, "it has judged no call");
        let counts = [judged, shadowed, oracle.successes()];
        (std::mem::take(&mut oracle.violations), counts)
    })
}

impl Bench {
    /// Timers count whole milliseconds. The server's clock is finer.
    fn now_us(&self) -> i64 {
        let millis = i64::try_from(self.began.elapsed().as_millis()).expect("it fits");
        let (last, within) = self.within.get();
        let within = if last == millis { (within + 3).min(999) } else { millis * 337 % 1000 };
        self.within.set((millis, within));
        BEGINNING_US + millis * 1000 + within - self.behind_us.get()
    }

    fn receive(&self, id: SessionId, bytes: &[u8]) {
        let mut server = self.server.borrow_mut();
        server.set_clock(self.now_us());
        server.receive(id, bytes);
        let writers = self.writers.borrow();
        for writer in server.pending().filter_map(|id| writers.get(&id)) {
            writer.notify_one();
        }
    }
}

impl World for Bench {
    fn connect(&self, _: SocketAddr) -> Connecting {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        self.dialled.send(theirs).expect("the server listens");
        Box::pin(async move { Ok(Box::new(Duplex(ours)) as Box<dyn SimulatedStream>) })
    }

    fn suspended(&self) -> Duration {
        Duration::ZERO
    }

    fn wall_clock(&self) -> Duration {
        Duration::from_micros(self.now_us().unsigned_abs())
    }

    fn random_bits(&self) -> u128 {
        let next = self.bits.get().wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645) + 1;
        self.bits.set(next);
        next ^ (next >> 64)
    }

    fn host(&self) -> String {
        "machine".to_owned()
    }

    fn process_id(&self) -> u32 {
        1
    }
}

#[derive(Debug)]
struct Duplex(DuplexStream);

impl SimulatedStream for Duplex {}

impl AsyncRead for Duplex {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, bytes)
    }
}

impl AsyncWrite for Duplex {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

async fn accept(bench: Rc<Bench>, mut streams: mpsc::UnboundedReceiver<DuplexStream>) {
    while let Some(stream) = streams.recv().await {
        let id = bench.server.borrow_mut().connect("10.0.0.9:1".to_owned());
        let writer = Rc::new(Notify::new());
        bench.writers.borrow_mut().insert(id, writer.clone());
        let (reading, writing) = tokio::io::split(stream);
        spawn_local(read(bench.clone(), id, reading));
        spawn_local(write(bench.clone(), id, writing, writer));
    }
}

async fn read(bench: Rc<Bench>, id: SessionId, mut stream: ReadHalf<DuplexStream>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = stream.read(&mut bytes).await {
        bench.receive(id, &bytes[..count]);
    }
    bench.server.borrow_mut().disconnect(id);
}

async fn write(
    bench: Rc<Bench>,
    id: SessionId,
    mut stream: WriteHalf<DuplexStream>,
    writer: Rc<Notify>,
) {
    loop {
        writer.notified().await;
        let output = bench.server.borrow_mut().take_output(id);
        let Some(output) = output else { return };
        if stream.write_all(&output).await.is_err() {
            return;
        }
    }
}
