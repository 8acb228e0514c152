//! The contents of a command: the request, its ids, its owner, and how it waits.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::note::Note;
use super::once::Once;
#[cfg(feature = "calendar")]
use crate::core::calendar::Calendar;
use crate::core::error::LockError;
use crate::core::key::LockKey;
use crate::system;

const CLIENT: usize = 22;
const COUNTER: usize = 12;

/// The digits of a client's id: 22 of them say what a UUID says.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The id of one client: a random UUID, as 22 letters, digits, dashes and underscores.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let locks = leasehold::Locks::in_memory();
/// let (a, b) = (locks.mutex("a").lock().await?, locks.mutex("b").lock().await?);
/// let (a, b) = (locks.inspect("a").await?, locks.inspect("b").await?);
/// let id = |info: &leasehold::LockInfo| info.holders[0].client.as_ref().map(|client| client.id);
/// assert_eq!(id(&a), id(&b));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId([u8; CLIENT]);

impl ClientId {
    /// A new random id.
    #[must_use]
    pub fn random() -> Self {
        let mut bits = system::secret_bits();
        Self(std::array::from_fn(|_| {
            let digit = DIGITS[(bits % DIGITS.len() as u128) as usize];
            bits /= DIGITS.len() as u128;
            digit
        }))
    }

    /// The id as ASCII.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&byte| fmt::Write::write_char(f, byte.into()))
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The id of one acquisition: the client's id and a counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId([u8; CLIENT + COUNTER]);

impl RequestId {
    /// How many bytes an id has.
    pub const LENGTH: usize = CLIENT + COUNTER;

    /// The next id of a client.
    #[must_use]
    pub fn next(client: ClientId, counter: &AtomicU64) -> Self {
        let mut number = counter.fetch_add(1, Ordering::Relaxed);
        let mut id = [b'0'; CLIENT + COUNTER];
        id[..CLIENT].copy_from_slice(&client.0);
        for digit in id[CLIENT..].iter_mut().rev() {
            *digit = b"0123456789abcdef"[(number & 15) as usize];
            number >>= 4;
        }
        Self(id)
    }

    /// Parses an id; `None` if it has another length.
    #[must_use]
    pub fn read(id: &[u8]) -> Option<Self> {
        id.try_into().ok().map(Self)
    }

    /// The client whose request it is.
    #[must_use]
    pub fn client(&self) -> ClientId {
        let mut client = [0; CLIENT];
        client.copy_from_slice(&self.0[..CLIENT]);
        ClientId(client)
    }

    /// The id as ASCII.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&byte| fmt::Write::write_char(f, byte.into()))
    }
}

/// The kind of lease that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The only lease of a lock.
    Mutex,
    /// The only lease of a lock, for work that is to succeed once.
    Once(Once),
    /// A hold of an owner, which may have other holds of the same lock. It always has an owner.
    Reentrant,
    /// A permit.
    Semaphore {
        /// The highest total weight, this permit included.
        limit: u32,
        /// The weight of this permit.
        weight: u32,
    },
    /// A reader's lease, beside those of other readers.
    Read,
    /// A writer's lease, alone but for readers of the same owner.
    Write,
}

impl Kind {
    /// Returns true if its grants have fencing tokens.
    #[must_use]
    pub fn is_fenced(self) -> bool {
        self.is_mutex() || matches!(self, Self::Reentrant | Self::Write)
    }

    /// Returns true if it is the only lease of its lock, by a record of one holder.
    #[must_use]
    pub fn is_mutex(self) -> bool {
        matches!(self, Self::Mutex | Self::Once(_))
    }

    /// Returns true if one command can take it together with other locks.
    pub(crate) fn can_join_others(self) -> bool {
        matches!(self, Self::Mutex | Self::Semaphore { .. })
    }

    /// Returns true if an owner that holds the lock may take more of it.
    pub(crate) fn may_reenter(self) -> bool {
        matches!(self, Self::Reentrant | Self::Read | Self::Write)
    }
}

/// The owner of a lock, by which a holder is recognised when it comes back: text of 1 to
/// 128 bytes without control characters.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    const LONGEST: usize = 128;

    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOption`] if it is empty, too long, or has a control
    /// character in it.
    pub fn new(name: &str) -> Result<Self, LockError> {
        let problem = if name.is_empty() {
            "it is empty; name whose leases these are"
        } else if name.len() > Self::LONGEST {
            "it has more than 128 bytes; shorten it"
        } else if name.chars().any(char::is_control) {
            "it has a control character in it"
        } else {
            return Ok(Self(name.into()));
        };
        Err(LockError::InvalidOption { option: "owner", problem: problem.to_owned() })
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// A request before it has an id and a TTL.
#[derive(Clone, Debug)]
pub(crate) struct RequestSpec {
    pub(crate) key: LockKey,
    pub(crate) kind: Kind,
    pub(crate) owner: Option<Owner>,
    pub(crate) note: Option<Note>,
    /// What says which tick runs, if no period does: not an error.
    #[cfg(feature = "calendar")]
    pub(crate) schedule: Option<Arc<Result<Calendar, String>>>,
}

impl RequestSpec {
    /// The request with this id, for a lease that lasts this long.
    pub(crate) fn into_request(self, id: RequestId, ttl: Duration) -> Request {
        let Self { key, kind, owner, note, .. } = self;
        Request { key, id, kind, owner, note, ttl }
    }

    /// Returns true if it has an owner that may hold the lock already and take more of it.
    pub(crate) fn may_reenter(&self) -> bool {
        self.owner.is_some() && self.kind.may_reenter()
    }
}

/// One acquisition, from its first command to its last.
#[derive(Clone, Debug)]
pub struct Request {
    /// The lock.
    pub key: LockKey,
    /// The id of the acquisition.
    pub id: RequestId,
    /// The kind of lease.
    pub kind: Kind,
    /// The owner, if it has one.
    pub owner: Option<Owner>,
    /// Why it wants the lock, for people. It decides nothing.
    pub note: Option<Note>,
    /// How long the lease lasts.
    pub ttl: Duration,
}

impl Request {
    /// Returns true if its client may keep the lease without using it. The holds of an owner
    /// belong together, so none of them stays behind alone.
    pub(crate) fn may_linger(&self) -> bool {
        match self.kind {
            Kind::Mutex | Kind::Semaphore { .. } => true,
            Kind::Read | Kind::Write => self.owner.is_none(),
            Kind::Once(_) | Kind::Reentrant => false,
        }
    }
}

/// How a request waits in the queue, if it can't be granted at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// How long the store takes the waiter to be alive, from when it is asked: less than
    /// [`LIVE_MOST`](super::LIVE_MOST). A waiter that does not ask again by then is passed over.
    pub live: Duration,
    /// Its position in the queue.
    pub position: QueuePosition,
}

/// A waiter's position in the queue: the store's time when it first asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePosition {
    /// The store has not told it one yet.
    New {
        /// How long ago it first asked, if that ask had no answer.
        age: Duration,
    },
    /// As the store told it: the waiter keeps it, even if it was passed over.
    Assigned(u64),
}

/// Until when a waiter is taken to be alive, by the store's clock. It can only be compared
/// with another stamp of the same request, and sent to the store.
pub type Stamp = u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_have_names_that_can_be_stored() {
        assert_eq!(Owner::new("worker 7@host").unwrap().name(), "worker 7@host");
        for (name, why) in [("", "empty"), ("a\0", "control"), (&"x".repeat(129), "128 bytes")] {
            let error = Owner::new(name).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("owner"), "{error}");
        }
    }

    #[test]
    fn ids_are_fixed_in_width_and_never_repeat() {
        let (client, counter) = (ClientId::random(), AtomicU64::new(255));
        let ids = [(); 2].map(|()| format!("{:?}", RequestId::next(client, &counter)));
        assert_eq!(ids[0], format!("{client}0000000000ff"));
        assert_eq!(ids[1], format!("{client}000000000100"));
        assert_ne!(client, ClientId::random());
        assert!(client.as_bytes().iter().all(|digit| DIGITS.contains(digit)));
    }
}
