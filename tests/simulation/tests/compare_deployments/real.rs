//! A connection to a real server, whose answers are read as they are written.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::asking::packed;

pub(crate) struct Connection(TcpStream);

impl Connection {
    pub(crate) fn to(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server is there");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        Self(stream)
    }

    pub(crate) fn send(&mut self, args: &[&str]) {
        self.0.write_all(&packed(args)).expect("the server reads");
    }

    pub(crate) fn ask(&mut self, args: &[&str]) -> String {
        self.send(args);
        self.read()
    }

    /// The next answer, or message.
    pub(crate) fn read(&mut self) -> String {
        let (mut bytes, mut next) = (Vec::new(), [0]);
        while redis::parse_redis_value(&bytes).is_err() {
            match self.0.read(&mut next) {
                Ok(0) => return "(closed)".to_owned(),
                Ok(_) => bytes.push(next[0]),
                Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&bytes)),
            }
        }
        String::from_utf8_lossy(&bytes).trim_end_matches("\r\n").to_owned()
    }
}
