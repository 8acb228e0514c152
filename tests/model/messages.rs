//! The commands, answers and hints between clients and servers.

/// The id of an acquisition: its client, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestId {
    pub(crate) client: u8,
    pub(crate) serial: u8,
}

/// The numbers of a request's windows that have ended at the server. A window that began under
/// earlier numbers is over. The client sees that, because its windows begin before the server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Stamp {
    /// The windows of its lease, or of its heartbeat.
    pub(crate) heartbeat: u8,
    /// The windows of an offer, which ends before the heartbeat does.
    pub(crate) offer: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Command {
    Ask { position: Option<u8> },
    Adopt { from: RequestId },
    Renew,
    Release,
    Cancel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Granted {
        token: u8,
        stamp: Stamp,
    },
    Queued {
        position: u8,
        stamp: Stamp,
    },
    NotHeld,
    /// Renewed, released, cancelled; or ended before.
    Done,
}

/// Tells a waiter that the lock was offered to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hint {
    pub(crate) id: RequestId,
    pub(crate) token: u8,
    /// The heartbeat of the offer, and the number of the offer.
    pub(crate) stamp: Stamp,
}

/// A command on its way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sent {
    pub(crate) id: RequestId,
    pub(crate) command: Command,
    /// The client still waits for the answer.
    pub(crate) is_awaited: bool,
}
