//! The messages between clients and servers.

/// One acquisition: whose, and which of its.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestId {
    pub(crate) client: u8,
    pub(crate) serial: u8,
}

/// How often windows of a request ran out, at the server. A window that began under
/// earlier counts is over, on the client's clock too, whose windows begin before the
/// server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Stamp {
    /// That of its lease, or of its heartbeat.
    pub(crate) heartbeat: u8,
    /// That of an offer, which is over before the heartbeat is.
    pub(crate) offer: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Command {
    Ask { ticket: Option<u8> },
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
        ticket: u8,
        stamp: Stamp,
    },
    NotHeld,
    /// Busy, or it would wait for itself: only for requests that hold other leases, or
    /// do not wait.
    Refused,
    /// Renewed, released, cancelled; or ended before.
    Done,
}

/// Tells a waiter that the lock was handed to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Message {
    pub(crate) id: RequestId,
    pub(crate) token: u8,
    /// The heartbeat that the offer is for, and which offer of it.
    pub(crate) stamp: Stamp,
}

/// A command on its way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sent {
    pub(crate) id: RequestId,
    pub(crate) command: Command,
    /// The client has not given up on the answer.
    pub(crate) is_awaited: bool,
}
