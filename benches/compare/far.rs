//! A way to a server that takes time, each way, in a process of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::crew::ourselves;
use crate::failure::Failure;

/// The process that passes the bytes on. It is killed when this is dropped.
pub(crate) struct Far {
    child: Child,
    port: u16,
}

impl Far {
    /// Opens a way to a port of this machine that takes so long, each way.
    pub(crate) fn open(port: u16, delay: Duration) -> Result<Self, Failure> {
        let mut command = ourselves("relay")?;
        command.args([port.to_string(), delay.as_micros().to_string()]).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let output = child.stdout.take().ok_or("its output is piped")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        Ok(Self { child, port: line.trim().parse()? })
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// The processor time that it has used.
    pub(crate) fn cpu(&self) -> Result<Duration, Failure> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // After the name, which is in brackets: its 12th and 13th number, in hundredths of a second.
        let numbers = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks = numbers.skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
        Ok(Duration::from_millis(ticks * 10))
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
