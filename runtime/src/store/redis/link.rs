//! One connection to a server, with its state. It is never made again: see
//! [`Connection`](super::connection::Connection).

use std::sync::Arc;

use redis::{Cmd, ErrorKind, RedisResult, Value};

use super::link_state::LinkState;
use super::wire::Wire;

/// One connection; a clone is the same one.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) wire: Wire,
    pub(super) state: Arc<LinkState>,
}

impl Link {
    pub(super) fn new(wire: Wire, state: Arc<LinkState>) -> Self {
        Self { wire, state }
    }

    /// Sends a command. An error of the server is an answer like any other.
    pub(super) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        self.wire.connection.send_packed_command(command).await
    }

    /// Calls `send`, which may send commands on this link, and writes them to the socket at once,
    /// on the caller's thread.
    pub(super) fn drive(&self, send: impl FnOnce()) {
        self.wire.drive(send);
    }

    /// Returns true if a call is sent by its first poll, however many are in flight.
    pub(super) fn has_room(&self) -> bool {
        self.wire.has_room
    }

    /// Subscribes to a channel, by RESP3. To do it again has no effect.
    pub(super) async fn subscribe(&mut self, channel: &str) -> RedisResult<()> {
        self.wire.connection.subscribe(channel).await
    }

    /// Sends a command to the node that its slot is migrating to. Nothing comes between
    /// `ASKING` and the command.
    pub(super) async fn send_asking(&mut self, command: &Cmd) -> RedisResult<Value> {
        let mut both = redis::pipe();
        both.cmd("ASKING").add_command(command.clone());
        let answers = self.wire.connection.send_packed_commands(&both, 0, 2).await?;
        // If `ASKING` is refused, that is the reason for the other's answer.
        let answer = answers.into_iter().find(|it| *it != Value::Okay);
        answer.ok_or_else(|| (ErrorKind::Client, "no answer").into())
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.state.is_abandoned()
    }

    /// Returns true if it is known to lead to one server. A proxy that spreads calls over
    /// several servers, by their first key, can't name a connection.
    pub(super) fn is_direct(&self) -> bool {
        self.state.name.get().is_some()
    }
}
