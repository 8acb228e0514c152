//! What all locks of a store share: the clock, what is counted, and who the
//! clients are.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::super::{ClientId, ClientInfo, Hint, Listener, RequestId, Stamp, TOKENS};

/// The clock of a command, and what is kept for the whole store.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) now: Instant,
    /// When the store had its first command.
    origin: Instant,
    /// One for all locks: it grows with each grant, and so with those of each.
    last_token: u64,
    last_ticket: u64,
    /// Who hears hints, as long as it is there.
    ears: HashMap<ClientId, Weak<dyn Listener>>,
    hints: Vec<(Arc<dyn Listener>, Hint)>,
    clients: HashMap<ClientId, Known>,
}

/// A fencing token; 0 if there was none yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Token {
    pub(super) number: u64,
    /// When it was first given.
    pub(super) since: Option<Instant>,
}

/// A client that has said who it is.
#[derive(Debug)]
struct Known {
    info: ClientInfo,
    /// Nothing for what lasts longer than any clock.
    until: Option<Instant>,
}

impl Shared {
    /// The first stamp, in microseconds: no waiter is older.
    const FIRST: u64 = 1 << 40;

    pub(super) fn new(now: Instant) -> Self {
        Self {
            now,
            origin: now,
            last_token: 0,
            last_ticket: 0,
            ears: HashMap::new(),
            hints: Vec::new(),
            clients: HashMap::new(),
        }
    }

    /// A time of the store's clock, in microseconds.
    pub(super) fn stamp(&self, time: Instant) -> Stamp {
        let since = time.saturating_duration_since(self.origin).as_micros();
        Self::FIRST.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }

    /// How long ago a stamp was.
    pub(super) fn since(&self, stamp: Stamp) -> Duration {
        Duration::from_micros(self.stamp(self.now).saturating_sub(stamp))
    }

    pub(super) fn next_token(&mut self) -> Token {
        self.last_token += TOKENS;
        Token { number: self.last_token, since: Some(self.now) }
    }

    /// Raises a token: all that are given from now on are greater.
    pub(super) fn raise(&mut self, token: &mut Token, least: u64) {
        if token.number < least {
            *token = Token { number: least, since: Some(self.now) };
            self.last_token = self.last_token.max(least);
        }
    }

    /// The ticket of one who first asked so long ago. No two that ask now have
    /// the same, even where the clock stands still.
    pub(super) fn next_ticket(&mut self, age: Duration) -> u64 {
        let age = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        let now = self.stamp(self.now);
        if age > 0 {
            return now.saturating_sub(age);
        }
        self.last_ticket = now.max(self.last_ticket + 1);
        self.last_ticket
    }

    /// Notes what a client is to be told when the command is done. False if it hears
    /// nothing.
    pub(super) fn tell(&mut self, client: ClientId, hint: Hint) -> bool {
        let listener = self.ears.get(&client).and_then(Weak::upgrade);
        let is_heard = listener.is_some();
        self.hints.extend(listener.map(|listener| (listener, hint)));
        is_heard
    }

    /// From now on a client hears what it is told; those that are gone are forgotten.
    pub(super) fn listen(&mut self, client: ClientId, listener: Weak<dyn Listener>) {
        let gone: Vec<_> =
            self.ears.extract_if(|_, listener| listener.strong_count() == 0).collect();
        for (client, _) in gone {
            self.clients.remove(&client);
        }
        self.ears.insert(client, listener);
    }

    pub(super) fn take_hints(&mut self) -> Vec<(Arc<dyn Listener>, Hint)> {
        std::mem::take(&mut self.hints)
    }

    /// Notes who a client is, and forgets those that have not said it for long.
    pub(super) fn introduce(&mut self, info: ClientInfo, lasts: Duration) {
        let now = self.now;
        self.clients.retain(|_, known| known.is_at(now));
        self.clients.insert(info.id, Known { info, until: now.checked_add(lasts) });
    }

    /// Whose request it is, if that is known.
    pub(super) fn client(&self, id: RequestId) -> Option<ClientInfo> {
        let known = self.clients.get(&id.client()).filter(|known| known.is_at(self.now));
        known.map(|known| known.info.clone())
    }
}

impl Known {
    fn is_at(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}
