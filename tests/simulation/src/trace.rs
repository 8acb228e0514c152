//! The events of a world, with their times.

use crate::network::{ConnectionId, Micros};

/// How many bytes of what arrives are shown.
const SHOWN: usize = 100;

/// What is printed of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Printed {
    Nothing,
    All,
    /// Those with this text in them.
    Only(String),
}

/// The hash of all events so far; after FNV, so it is the same on each machine.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    printed: Printed,
}

impl Trace {
    pub fn new(printed: Printed) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, printed }
    }

    /// Notes an event.
    pub fn say(&mut self, at: Micros, text: &str) {
        self.add(&at.to_le_bytes());
        self.add(text.as_bytes());
        self.show(at, text);
    }

    /// Shows what follows from the events.
    pub(crate) fn show(&self, at: Micros, text: &str) {
        let is_printed = match &self.printed {
            Printed::Nothing => false,
            Printed::All => true,
            Printed::Only(name) => text.contains(name),
        };
        if is_printed {
            println!("{} {text}", time(at));
        }
    }

    /// Notes bytes that have arrived. Their number is hashed; what they begin with is shown.
    pub(crate) fn count(&mut self, at: Micros, connection: ConnectionId, bytes: &[u8]) {
        self.add(&at.to_le_bytes());
        self.add(&connection.to_le_bytes());
        self.add(&bytes.len().to_le_bytes());
        if self.printed == Printed::All {
            let count = bytes.len();
            let begin = String::from_utf8_lossy(&bytes[..count.min(SHOWN)]).replace("\r\n", " ");
            println!("{} {count} bytes arrive on connection {connection}: {begin}", time(at));
        }
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// A time, in seconds.
pub fn time(at: Micros) -> String {
    format!("{:>5}.{:06}", at / 1_000_000, at % 1_000_000)
}
