//! A link of a limited rate: a proxy that lets through so many bytes a second, each way.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// What goes over a real link at a time.
const PACKET: usize = 1448;

/// A wait that is shorter is put off to the next packet: the system's timers are not more precise.
const SHORTEST: Duration = Duration::from_micros(100);

/// A read that takes no longer found a packet that was there before: an answer takes longer.
const AT_ONCE: Duration = Duration::from_micros(20);

/// A link to a port of this machine. Its connections share the rate. It works on threads of its own,
/// because the timers of a runtime are too coarse, and so that it delays no contender's tasks.
pub(crate) struct Link {
    address: SocketAddr,
    lanes: [Arc<Lane>; 2],
    is_closed: Arc<AtomicBool>,
}

/// One direction of a link.
struct Lane {
    /// Bytes a second; without, as many as come.
    rate: Option<f64>,
    /// When all that came so far has gone through.
    free_at: Mutex<Instant>,
    bytes: AtomicUsize,
}

impl Link {
    /// Opens a link to this port, with so many bytes a second each way.
    pub(crate) fn open(port: u16, rate: Option<f64>) -> Result<Self, Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let lane = || {
            let (free_at, bytes) = (Mutex::new(Instant::now()), AtomicUsize::new(0));
            Arc::new(Lane { rate, free_at, bytes })
        };
        let link = Self {
            address: listener.local_addr()?,
            lanes: [lane(), lane()],
            is_closed: Arc::default(),
        };
        let (lanes, is_closed) = (link.lanes.clone(), link.is_closed.clone());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if is_closed.load(Ordering::Relaxed) {
                    break;
                }
                // The client sees that its connection ends.
                let _ = join(client, port, &lanes);
            }
        });
        Ok(link)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// The bytes that went to the server, and those that came from it.
    pub(crate) fn bytes(&self) -> [usize; 2] {
        [0, 1].map(|lane| self.lanes[lane].bytes.load(Ordering::Relaxed))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
        // The listener sees it with its next client.
        let _ = TcpStream::connect(self.address);
    }
}

/// Connects to the server of a port for a client. Gives both ways: from where, and to where.
pub(crate) fn ways(client: TcpStream, port: u16) -> io::Result<[(TcpStream, TcpStream); 2]> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    Ok([(client.try_clone()?, server.try_clone()?), (server, client)])
}

/// Connects a client to the server, over both lanes.
fn join(client: TcpStream, port: u16, lanes: &[Arc<Lane>; 2]) -> io::Result<()> {
    for ((from, to), lane) in ways(client, port)?.into_iter().zip(lanes.clone()) {
        thread::spawn(move || {
            // An end or an error of one side is passed on to the other.
            let _ = lane.carry(&from, &to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
    Ok(())
}

impl Lane {
    fn carry(&self, mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
        let mut packet = [0; PACKET];
        loop {
            let asked = Instant::now();
            let size = from.read(&mut packet)?;
            let was_there = asked.elapsed() < AT_ONCE;
            if size == 0 {
                return Ok(());
            }
            self.bytes.fetch_add(size, Ordering::Relaxed);
            thread::sleep(self.wait(size, was_there));
            to.write_all(&packet[..size])?;
        }
    }

    /// How long a packet of this size takes, with what is ahead of it.
    fn wait(&self, size: usize, was_there: bool) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let size = u32::try_from(size).map_or(f64::MAX, f64::from);
        let now = Instant::now();
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        // A packet that was there has waited for a timer that was late. A link is not late.
        let begin = if was_there { *free_at } else { now.max(*free_at) };
        *free_at = begin + Duration::from_secs_f64(size / rate);
        let wait = free_at.saturating_duration_since(now);
        if wait < SHORTEST { Duration::ZERO } else { wait }
    }
}
