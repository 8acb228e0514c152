//! The events of a world, with their times.

use tokio::time::Instant;

#[derive(Debug)]
pub struct Trace {
    began: Instant,
    /// After FNV: the same on each machine.
    hash: u64,
    is_printed: bool,
}

impl Trace {
    pub(crate) fn new(is_printed: bool) -> Self {
        Self { began: Instant::now(), hash: 0xcbf2_9ce4_8422_2325, is_printed }
    }

    pub(crate) fn say(&mut self, text: &str) {
        let micros = self.began.elapsed().as_micros();
        let line = format!("{:>6}.{:06} {text}", micros / 1_000_000, micros % 1_000_000);
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.is_printed {
            println!("{line}");
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}
