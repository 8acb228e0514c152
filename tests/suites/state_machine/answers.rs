//! Compares the answers of two stores.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use leasehold::store::{
    Adoption, All, Attempt, Ended, Forced, Holder, Lingering, LockInfo, Renewal, Repaired, Waiter,
};

use super::commands::{Command, What};

/// An answer to any command.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Attempt(Attempt),
    All(All),
    Renewal(Renewal),
    Kept,
    Adoption(Adoption),
    Ended(Ended),
    Cancelled(bool),
    /// `None` if such a lease can't linger.
    Lingering(Option<Lingering>),
    Introduced,
    Repaired(Repaired),
    Info(LockInfo),
    IsHeld(bool),
    Forced(Forced),
    WasForced(bool),
}

/// A server counts whole milliseconds, memory as finely as it can.
const GRAIN: Duration = Duration::from_millis(1);

/// The relation between the numbers of both stores.
#[derive(Default)]
pub(super) struct Likeness {
    /// The tokens of each lock, in pairs.
    tokens: HashMap<String, Vec<(u64, u64)>>,
    /// The locks whose tokens may be another server's. Those do not show the time of the grant.
    repaired: HashSet<String>,
    /// The server's clock was set back. A token may be ahead of it, and no longer shows the time of
    /// the grant.
    pub(super) is_set_back: bool,
    /// The lead of the server's clock over memory's, in microseconds.
    ahead: Option<u64>,
}

impl Likeness {
    pub(super) fn check(
        &mut self,
        command: &Command,
        memory: &Answer,
        redis: &Answer,
    ) -> Result<(), String> {
        let name = command.request.key.name();
        let is_alike = match (memory, redis) {
            (Answer::Attempt(memory), Answer::Attempt(redis)) => {
                self.are_attempts_alike(name, *memory, *redis)
            }
            (Answer::All(Err(memory)), Answer::All(Err(redis))) => memory == redis,
            (Answer::Introduced, Answer::Introduced) | (Answer::Kept, Answer::Kept) => true,
            (Answer::All(Ok(memory)), Answer::All(Ok(redis))) => {
                let What::AcquireAll(other) = &command.what else { return Err("all?".into()) };
                let names = [name, other.key.name()].into_iter();
                names
                    .zip(memory.iter().zip(redis))
                    .all(|(name, (&memory, &redis))| self.same_token(name, memory, redis))
                    && [memory.len(), redis.len()] == [2, 2]
            }
            (Answer::Renewal(memory), Answer::Renewal(redis)) => memory == redis,
            (Answer::Repaired(memory), Answer::Repaired(redis)) => {
                self.repaired.insert(name.to_owned());
                self.are_repairs_alike(name, *memory, *redis)
            }
            (
                Answer::Adoption(Adoption::Adopted { token: memory }),
                Answer::Adoption(Adoption::Adopted { token: redis }),
            )
            | (
                Answer::Lingering(Some(Lingering::Kept { token: memory })),
                Answer::Lingering(Some(Lingering::Kept { token: redis })),
            ) => self.same_token(name, *memory, *redis),
            (Answer::Adoption(memory), Answer::Adoption(redis)) => memory == redis,
            (Answer::Ended(memory), Answer::Ended(redis)) => memory == redis,
            (Answer::Lingering(memory), Answer::Lingering(redis)) => memory == redis,
            (Answer::Cancelled(memory), Answer::Cancelled(redis))
            | (Answer::IsHeld(memory), Answer::IsHeld(redis))
            | (Answer::WasForced(memory), Answer::WasForced(redis)) => memory == redis,
            (Answer::Info(memory), Answer::Info(redis)) => {
                self.are_infos_alike(name, memory, redis)
            }
            (
                Answer::Forced(Forced::Released { held: first, told: heard, fence: memory }),
                Answer::Forced(Forced::Released { held: second, told, fence: redis }),
            ) => {
                (first, heard) == (second, told) && self.same_token(name, memory.get(), redis.get())
            }
            (Answer::Forced(memory), Answer::Forced(redis)) => memory == redis,
            _ => false,
        };
        if is_alike { Ok(()) } else { Err(format!("memory {memory:?}, redis {redis:?}")) }
    }

    /// The greatest tokens of a lock: memory's, Redis's.
    pub(super) fn greatest(&self, name: &str) -> [u64; 2] {
        self.told(name).max().map_or([0; 2], |(memory, redis)| [memory, redis])
    }

    /// The tokens that the stores told this many answers before the last.
    pub(super) fn token(&self, name: &str, ago: usize) -> [u64; 2] {
        self.told(name).nth_back(ago).map_or([0; 2], |(memory, redis)| [memory, redis])
    }

    /// True if each store orders its token among all that it told as the other does. False for
    /// tokens that were made up, and not used before others were granted.
    pub(super) fn are_one(&self, name: &str, [memory, redis]: [u64; 2]) -> bool {
        self.told(name).all(|(first, second)| memory.cmp(&first) == redis.cmp(&second))
    }

    fn told(&self, name: &str) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.tokens.get(name).into_iter().flatten().copied()
    }

    fn are_repairs_alike(&mut self, name: &str, memory: Repaired, redis: Repaired) -> bool {
        match (memory, redis) {
            (Repaired::Held { token: memory }, Repaired::Held { token: redis }) => {
                self.same_token(name, memory, redis)
            }
            (memory, redis) => memory == redis,
        }
    }

    fn are_attempts_alike(&mut self, name: &str, memory: Attempt, redis: Attempt) -> bool {
        match (memory, redis) {
            (Attempt::Granted { token: first }, Attempt::Granted { token: second }) => {
                self.same_token(name, first, second)
            }
            (
                Attempt::Queued { position: place, until, ask_again },
                Attempt::Queued { position, until: until_ms, ask_again: again },
            ) => {
                self.same_time(place, position)
                    && self.same_time(until, until_ms * 1000)
                    && is_same(ask_again, again)
            }
            (
                Attempt::Busy { retry_after: first, expiry_added: false, kept: is_kept },
                Attempt::Busy { retry_after: second, expiry_added: false, kept },
            ) => kept == is_kept && is_same(first, second),
            (
                Attempt::Done { completed, until, left: first },
                Attempt::Done { completed: begun, until: end, left: second },
            ) => until - completed == end - begun && is_same(first, second),
            (
                Attempt::Recalled { retry_after: first, other_kind: here },
                Attempt::Recalled { retry_after: second, other_kind: there },
            ) => here == there && is_same(first, second),
            _ => memory == redis,
        }
    }

    fn are_infos_alike(&mut self, name: &str, memory: &LockInfo, redis: &LockInfo) -> bool {
        let mut holders = memory.holders.iter().zip(&redis.holders);
        let mut waiters = memory.waiters.iter().zip(&redis.waiters);
        memory.kind == redis.kind
            && (memory.held, memory.waiting) == (redis.held, redis.waiting)
            && memory.holders.len() == redis.holders.len()
            && memory.waiters.len() == redis.waiters.len()
            && are_same(memory.kept, redis.kept)
            && holders.all(|(memory, redis)| self.are_holders_alike(name, memory, redis))
            && waiters.all(|(memory, redis)| are_waiters_alike(memory, redis))
    }

    fn are_holders_alike(&mut self, name: &str, memory: &Holder, redis: &Holder) -> bool {
        let is_fence_alike = match (memory.fence, redis.fence) {
            (Some(memory), Some(redis)) => self.same_token(name, memory.get(), redis.get()),
            (memory, redis) => memory == redis,
        };
        is_fence_alike
            && memory.client == redis.client
            && memory.owner == redis.owner
            && memory.note == redis.note
            && (memory.is_writer, memory.weight) == (redis.is_writer, redis.weight)
            && (self.is_set_back
                || self.repaired.contains(name)
                || are_same(memory.held_for, redis.held_for))
            && is_same(memory.remaining, redis.remaining)
    }

    /// True if the tokens are the same or new in both, and in the same order.
    fn same_token(&mut self, name: &str, memory: u64, redis: u64) -> bool {
        let are_one = self.are_one(name, [memory, redis]);
        let told = self.tokens.entry(name.to_owned()).or_default();
        if told.last() != Some(&(memory, redis)) {
            told.push((memory, redis));
        }
        are_one
    }

    fn same_time(&mut self, memory: u64, redis: u64) -> bool {
        redis.wrapping_sub(memory) == *self.ahead.get_or_insert(redis.wrapping_sub(memory))
    }
}

fn are_waiters_alike(memory: &Waiter, redis: &Waiter) -> bool {
    memory.client == redis.client
        && memory.owner == redis.owner
        && memory.note == redis.note
        && (memory.is_writer, memory.weight) == (redis.is_writer, redis.weight)
        && is_same(memory.waiting_for, redis.waiting_for)
}

fn is_same(memory: Duration, redis: Duration) -> bool {
    memory.abs_diff(redis) < GRAIN
}

fn are_same(memory: Option<Duration>, redis: Option<Duration>) -> bool {
    match (memory, redis) {
        (Some(memory), Some(redis)) => is_same(memory, redis),
        (memory, redis) => memory == redis,
    }
}
