//! A server that is further away: passes all bytes on, each way, some time after they came.
//!
//! Bytes of one way keep their order and do not wait for each other, so the delay takes nothing off
//! the rate. It is a process of its own, so that its processor time counts for no contender.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::failure::Failure;
use crate::link::ways;

/// The most bytes that are read at a time.
const PACKET: usize = 1 << 16;

#[derive(Args)]
pub(crate) struct Relay {
    /// The server's port.
    port: u16,
    /// The time each way, in microseconds.
    delay_us: u64,
}

impl Relay {
    /// Prints its port, and passes bytes on until it is killed.
    pub(super) fn run(self) -> Result<(), Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        println!("{}", listener.local_addr()?.port());
        let delay = Duration::from_micros(self.delay_us);
        for client in listener.incoming() {
            for (from, to) in ways(client?, self.port)? {
                carry(from, to, delay);
            }
        }
        Ok(())
    }
}

/// One way, on two threads: one reads, and one waits and writes.
fn carry(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (came, goes) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut packet = vec![0; PACKET];
        while let Ok(size @ 1..) = from.read(&mut packet) {
            if came.send((Instant::now() + delay, packet[..size].to_vec())).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in goes {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // An end of one side is passed on to the other.
        let _ = to.shutdown(Shutdown::Write);
    });
}
