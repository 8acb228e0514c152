//! The notes about clients that may keep a lease without using it: the include `recall_clients`,
//! and the mark in a mutex's record.

use super::time::Time;

/// What the client of a mutex may do after it has stopped using it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// It releases the mutex.
    None,
    /// It may keep the mutex.
    Lingers,
    /// It was asked to release the mutex.
    Recalled,
}

/// Until when a client may keep a lease without using it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientMark {
    pub(super) mark: Mark,
    pub(super) until: Time,
}
