//! A connection to a simulated server, whose answers are read as they are written.

use leasehold_simulation::server::Server;
use leasehold_simulation::server::session::SessionId;

/// A command as it is sent.
pub(crate) fn packed(args: &[&str]) -> Vec<u8> {
    redis::Cmd::new().arg(args).get_packed_command()
}

pub(crate) struct Client(SessionId);

impl Client {
    pub(crate) fn of(server: &mut Server) -> Self {
        Self(server.connect("127.0.0.1:1".to_owned()))
    }

    /// Sends a command, and returns what the server has written meanwhile, without the last end of
    /// a line.
    pub(crate) fn ask(&self, server: &mut Server, args: &[&str]) -> String {
        server.receive(self.0, &packed(args));
        self.read(server)
    }

    /// What the server has written since. A closed connection ends with `(closed)`.
    pub(crate) fn read(&self, server: &mut Server) -> String {
        let Some(output) = server.take_output(self.0) else { return "(closed)".to_owned() };
        let text = String::from_utf8_lossy(&output).into_owned();
        text.trim_end_matches("\r\n").to_owned()
    }
}
