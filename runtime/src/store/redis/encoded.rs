//! One call of a script: its keys and arguments, and how several become one call.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use redis::Cmd;

use super::args::{Args, TOKENS_KEY};
use super::script::{Form, Script};
use crate::core::key::LockKey;

/// A command with more keys has a call of its own: while a script runs, the server does nothing else.
const MOST_KEYS: usize = 16;

/// A script with its keys and arguments.
#[derive(Clone, Debug)]
pub(super) struct Encoded {
    script: &'static Script,
    /// The keys, then the arguments.
    args: Args,
    key_count: usize,
    /// The same for all commands of a lock; see [`lock_hash`].
    pub(super) lock: u64,
    /// The same for its other locks, if it has several.
    other_locks: Vec<u64>,
    /// On a cluster: the slot of its keys.
    slot: u16,
    /// On a cluster: the slot is migrating to the node that the command is sent to.
    pub(super) is_asking: bool,
}

impl Encoded {
    pub(super) fn new(script: &'static Script) -> Self {
        Self {
            script,
            args: Args::new(),
            key_count: 0,
            lock: 0,
            other_locks: Vec::new(),
            slot: 0,
            is_asking: false,
        }
    }

    /// Adds the script's keys for a lock, except the one that all locks share.
    pub(super) fn lock_keys(mut self, key: &LockKey, prefix: &str) -> Self {
        for role in self.script.keys.iter().filter(|role| **role != TOKENS_KEY) {
            self.args.push_parts(&key.parts_in_store(prefix, role).map(str::as_bytes));
        }
        self.add_lock(key);
        self
    }

    /// Adds a key of a lock, or of a rate, in this role.
    pub(super) fn key_of_lock(mut self, key: &LockKey, prefix: &str, role: &str) -> Self {
        self.args.push_parts(&key.parts_in_store(prefix, role).map(str::as_bytes));
        self.add_lock(key);
        self
    }

    fn add_lock(&mut self, key: &LockKey) {
        if self.key_count > 0 {
            self.other_locks.push(self.lock);
        }
        self.lock = lock_hash(key);
        self.key_count = self.args.len();
    }

    /// Its locks and rates.
    pub(super) fn locks(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.lock).chain(self.other_locks.iter().copied())
    }

    /// Adds a key that belongs to no lock.
    pub(super) fn key(mut self, key: &str) -> Self {
        self.args.push(key.as_bytes());
        self.key_count = self.args.len();
        self
    }

    pub(super) fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.args.push(arg.as_ref());
        self
    }

    pub(super) fn number(mut self, number: impl Into<u64>) -> Self {
        self.args.push_number(number.into());
        self
    }

    pub(super) fn millis(self, time: Duration) -> Self {
        self.number(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.args.iter().take(self.key_count)
    }

    /// The key that stands once in a call, after the keys of all its commands.
    fn shared_key(&self) -> Option<&[u8]> {
        self.has_tokens().then(|| self.keys().last()).flatten()
    }

    /// The keys of this command alone.
    fn own_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.args.iter().take(self.key_count - usize::from(self.has_tokens()))
    }

    /// The same command for a node of a cluster.
    #[cfg(feature = "cluster")]
    pub(super) fn route(&self, slot: u16, is_asking: bool) -> Self {
        Self { slot, is_asking, ..self.clone() }
    }

    /// Returns true if its last key is the one that all locks share: see [`TOKENS_KEY`].
    pub(super) fn has_tokens(&self) -> bool {
        self.script.keys.last() == Some(&TOKENS_KEY)
    }

    /// Returns true if it may grant a lease.
    pub(super) fn grants(&self) -> bool {
        self.script.grants
    }

    /// Returns true if both can be sent as one call.
    pub(super) fn can_share_call(&self, other: &Self) -> bool {
        self.script.takes_several
            && self.key_count.max(other.key_count) <= MOST_KEYS
            && std::ptr::eq(self.script, other.script)
            && (self.slot, self.is_asking) == (other.slot, other.is_asking)
            && self.shared_key() == other.shared_key()
    }
}

/// A number that stands for a lock: two locks may share one.
pub(super) fn lock_hash(key: &LockKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Packs commands of the same script into one call. With the body, also a server that has
/// forgotten the script runs it; without, it is called by its hash.
pub(super) fn pack(commands: &[&Encoded], form: Form, with_body: bool) -> Cmd {
    let is_alike = |pair: &[&Encoded]| pair[0].can_share_call(pair[1]);
    debug_assert!(commands.windows(2).all(is_alike), "commands of two scripts in a call");
    let sum = |size: fn(&Args) -> usize| commands.iter().map(|it| size(&it.args)).sum::<usize>();
    let mut cmd = Cmd::with_capacity(3 + sum(Args::len), 64 + sum(Args::size));
    if let Some(first) = commands.first() {
        if with_body {
            cmd.arg("EVAL").arg(first.script.body(form));
        } else {
            cmd.arg("EVALSHA").arg(first.script.hash(form));
        }
    }
    let shared_key = commands.first().and_then(|command| command.shared_key());
    let own = commands.iter().map(|command| command.own_keys().count()).sum::<usize>();
    cmd.arg(own + usize::from(shared_key.is_some()));
    for command in commands {
        command.own_keys().for_each(|key| _ = cmd.arg(key));
    }
    if let Some(key) = shared_key {
        cmd.arg(key);
    }
    for command in commands {
        command.args.iter().skip(command.key_count).for_each(|arg| _ = cmd.arg(arg));
    }
    cmd
}
