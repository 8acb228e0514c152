//! What all locks of a store share: the clock, what is counted, and who the
//! clients are.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::clock::Epoch;
use crate::store::{ClientId, ClientInfo, Hint, Listener, RequestId, Stamp, TOKENS};

/// By how much a clock may be behind a token of another store's, in microseconds; and
/// behind its own, if it was set back since.
const BEHIND: u64 = 100_000;
const OWN_BEHIND: u64 = 200_000;

/// The clock of a command, and what is kept for the whole store.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) now: Instant,
    /// When the store had its first command.
    origin: Instant,
    /// By what clock the tokens go, where the store is one of several.
    epoch: Option<Epoch>,
    /// Else one for all locks: it grows with each grant, and so with those of each.
    last_token: u64,
    last_position: u64,
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

    pub(super) fn new(now: Instant, epoch: Option<Epoch>) -> Self {
        Self {
            now,
            origin: now,
            epoch,
            last_token: 0,
            last_position: 0,
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

    /// The time that a stamp is of.
    pub(super) fn time_of(&self, stamp: Stamp) -> Option<Instant> {
        self.origin.checked_add(Duration::from_micros(stamp.saturating_sub(Self::FIRST)))
    }

    /// How long ago a stamp was.
    pub(super) fn since(&self, stamp: Stamp) -> Duration {
        Duration::from_micros(self.stamp(self.now).saturating_sub(stamp))
    }

    /// The token that follows on a lock's last: as the script `include/token` has it.
    pub(super) fn next_token(&mut self, last: Token) -> Token {
        let number = match self.epoch {
            None => {
                self.last_token += TOKENS;
                self.last_token
            }
            Some(epoch) => epoch.micros(self.now).max(last.number + TOKENS),
        };
        Token { number, since: Some(self.now) }
    }

    /// The greater of a record's token and another (0: none is given); or by how much the clock is too far
    /// behind that: as the script `include/raise` has it. One that only counts is never
    /// behind: all that it gives from now on are greater.
    pub(super) fn raised(
        &mut self,
        mut last: Token,
        number: u64,
        lasts: Duration,
    ) -> Result<Token, Duration> {
        if number == 0 {
            return Ok(last);
        }
        if let Some(epoch) = self.epoch {
            let mut from = epoch.micros(self.now);
            if last.number + TOKENS > from + OWN_BEHIND {
                if number < last.number {
                    last = Token { number: from, since: Some(self.now) };
                } else {
                    from = last.number;
                }
            }
            let lasts = u64::try_from(lasts.as_micros()).map_or(BEHIND, |it| it.min(BEHIND));
            let behind = (number + TOKENS).saturating_sub(from + lasts);
            if number > last.number && behind > 0 {
                return Err(Duration::from_millis(behind.div_ceil(1000)));
            }
        }
        if number <= last.number {
            return Ok(last);
        }
        self.last_token = self.last_token.max(number);
        Ok(Token { number, since: Some(self.now) })
    }

    /// When the clock has come to a token; now, if it is no clock.
    pub(super) fn comes_to(&self, token: Token) -> Instant {
        let Some(epoch) = self.epoch else { return self.now };
        let missing = (token.number + TOKENS).saturating_sub(epoch.micros(self.now));
        self.now + Duration::from_millis(missing.div_ceil(1000))
    }

    /// The position of one who first asked so long ago. No two that ask now have
    /// the same, even where the clock stands still.
    pub(super) fn next_position(&mut self, age: Duration) -> u64 {
        let age = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        let now = self.stamp(self.now);
        if age > 0 {
            return now.saturating_sub(age);
        }
        self.last_position = now.max(self.last_position + 1);
        self.last_position
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
