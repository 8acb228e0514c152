//! Who holds a lock, and who waits for it, as operators see them.

use std::time::Duration;

use super::ClientId;
#[cfg(feature = "serde")]
use super::serialize::{seconds, some_seconds};
use crate::core::fence::Fence;
use crate::system;

/// How long the store remembers a client after it has said that it lives, at least: longer than any of
/// its leases.
pub(crate) const CLIENT_KEPT: Duration = Duration::from_secs(180);

/// One holder of a lock, in [`LockInfo::holders`](crate::LockInfo::holders).
///
/// # Examples
///
/// ```
/// use leasehold::Holder;
///
/// fn show(holder: &Holder) -> String {
///     let host = holder.client.as_ref().map_or("unknown", |client| client.host.as_str());
///     format!("{host}, for another {:?}", holder.remaining)
/// }
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Holder {
    /// The client; `None` if the store does not know it, or no longer.
    pub client: Option<ClientInfo>,
    /// Its id. It names this holder alone, also among others of its process.
    pub id: String,
    /// How the store names it.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) member: String,
    /// The owner, if one was given.
    pub owner: Option<String>,
    /// The note, if one was given. If the lease was handed over inside a process, it is the note
    /// of the first.
    pub note: Option<String>,
    /// True for the writer of a read-write lock.
    pub is_writer: bool,
    /// How much of a semaphore's limit it takes. 1 for all other locks.
    pub weight: u32,
    /// The fencing token, if the lease has one. If the lease was handed over inside a
    /// process, it is the token of the first: those of the next leases are up to 63
    /// greater. If it [may be idle](Self::may_be_idle), it is the last token but 63 that its
    /// client may give: the lease's own may be smaller.
    pub fence: Option<Fence>,
    /// How long it has held the lock. If it [may be idle](Self::may_be_idle), and has a token:
    /// the time since its client last told the store so. `None` if the store does not know it:
    /// the lock's record was deleted.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "held_for_seconds", serialize_with = "some_seconds")
    )]
    pub held_for: Option<Duration>,
    /// The time until its lease ends, unless it is renewed.
    #[cfg_attr(feature = "serde", serde(rename = "remaining_seconds", serialize_with = "seconds"))]
    pub remaining: Duration,
    /// How long ago its client last told the store that it lives, or was granted this lease. It tells so
    /// once a minute, so after more than that its process is stopped, dead or cut off from the store;
    /// one that hangs is heard of all the same. `None` if the store does not know the client, as after a
    /// loss of its data.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "heard_seconds_ago", serialize_with = "some_seconds")
    )]
    pub heard: Option<Duration>,
    /// True if its client may keep the lease without using it, because of
    /// [`linger`](crate::Mutex::linger). The store does not know whether a task works under
    /// it now. Permits and readers have it for all holders of that client.
    pub may_be_idle: bool,
}

/// One waiter for a lock, in [`LockInfo::waiters`](crate::LockInfo::waiters).
///
/// # Examples
///
/// ```
/// use leasehold::Waiter;
///
/// fn show(waiter: &Waiter) -> String {
///     let service = waiter.client.as_ref().map_or("unknown", |client| client.service.as_str());
///     format!("{service} has waited for {:?}", waiter.waiting_for)
/// }
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Waiter {
    /// The client; `None` if the store does not know it, or no longer.
    pub client: Option<ClientInfo>,
    /// The owner, if one was given.
    pub owner: Option<String>,
    /// The note, if one was given.
    pub note: Option<String>,
    /// True if it waits to write.
    pub is_writer: bool,
    /// How much of a semaphore's limit it asks for. 1 for all other locks.
    pub weight: u32,
    /// The limit that it counts the permits against: that of its code, or an operator's. Those of two
    /// versions of a service may differ, and the store knows no other. `None` for all other locks.
    pub limit: Option<u32>,
    /// How long it has waited.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "waiting_for_seconds", serialize_with = "seconds")
    )]
    pub waiting_for: Duration,
}

/// A client as operators see it: its service, its host and its process.
///
/// # Examples
///
/// ```
/// use leasehold::ClientInfo;
///
/// fn show(client: &ClientInfo) -> String {
///     format!("{} on {}, process {}", client.service, client.host, client.process)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ClientInfo {
    /// The client's id. The ids of all its requests begin with it.
    pub id: ClientId,
    /// The name of its service.
    pub service: String,
    /// The name of its machine; empty if it is unknown.
    pub host: String,
    /// Its process id.
    pub process: u32,
}

impl ClientInfo {
    /// A client of this process. Without a service it has the name of the program's file.
    pub(crate) fn of_process(id: ClientId, service: Option<String>) -> Self {
        let service = service.unwrap_or_else(program);
        Self { id, service, host: system::host(), process: system::process_id() }
    }
}

fn program() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(|path| path.file_stem());
    name.map_or_else(|| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(feature = "internals")]
impl Holder {
    /// How the store names it.
    #[doc(hidden)]
    #[must_use]
    pub fn member(&self) -> &str {
        &self.member
    }
}

#[cfg(feature = "internals")]
impl ClientInfo {
    /// A client's record of itself.
    #[doc(hidden)]
    #[must_use]
    pub fn new(id: ClientId, service: String, host: String, process: u32) -> Self {
        Self { id, service, host, process }
    }
}
