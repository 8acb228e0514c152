//! The table of Lua scripts: their files, includes, keys and arguments. The bodies are in
//! `runtime/lua/`. Kinds that differ only in an include share one file.

use std::sync::LazyLock;

/// A script and its declaration.
#[derive(Debug)]
pub(super) struct Script {
    /// The file, without its extension.
    #[cfg(any(test, feature = "internals"))]
    name: &'static str,
    /// The roles of its keys, in order.
    pub(super) keys: &'static [&'static str],
    #[cfg(any(test, feature = "internals"))]
    includes: &'static [&'static str],
    #[cfg(test)]
    args: &'static [&'static str],
    /// One call takes several requests, one after the other.
    pub(super) takes_several: bool,
    /// It may grant a lease.
    pub(super) grants: bool,
    first_lines: FirstLines,
    /// The includes and the file.
    source: &'static str,
    /// As it is sent to a server that takes flags, and to one that does not.
    flagged: LazyLock<Sent>,
    plain: LazyLock<Sent>,
}

/// A script without comments, and its hash.
#[derive(Debug)]
struct Sent {
    body: String,
    hash: String,
}

/// What a script is, for those who watch a server.
#[cfg(feature = "internals")]
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The file, without its extension. Scripts that differ in an include alone share one.
    pub name: &'static str,
    /// What stands before the file's code.
    pub includes: &'static [&'static str],
    /// The roles of its keys, in order: those of one request, and `tokens` once at the end.
    pub keys: &'static [&'static str],
    /// As it is sent: with flags in a first line, and without.
    pub bodies: [&'static str; 2],
}

/// All scripts.
#[cfg(feature = "internals")]
pub fn scripts() -> impl Iterator<Item = About> {
    ALL.iter().map(|script| About {
        name: script.name,
        includes: script.includes,
        keys: script.keys,
        bodies: [Form::Flagged, Form::Plain].map(|form| script.body(form)),
    })
}

/// The form in which a server takes scripts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// With flags in a first line `#!lua`, as Redis 7.0 and Valkey take them.
    #[default]
    Flagged,
    /// Without it. Every server takes this one.
    Plain,
}

impl Script {
    /// The body, for a server that does not know the script.
    pub(super) fn body(&self, form: Form) -> &str {
        &self.sent(form).body
    }

    /// The hash by which a server knows it.
    pub(super) fn hash(&self, form: Form) -> &str {
        &self.sent(form).hash
    }

    fn sent(&self, form: Form) -> &Sent {
        match form {
            Form::Flagged => &self.flagged,
            Form::Plain => &self.plain,
        }
    }
}

impl Sent {
    fn of(first_lines: &str, source: &str) -> Self {
        let body = first_lines.to_owned() + &without_comments(source);
        let hash = redis::Script::new(&body).get_hash().to_owned();
        Self { body, hash }
    }
}

/// Leaves out indents, empty lines and comments. A comment has a line of its own.
fn without_comments(source: &str) -> String {
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with("--");
    source.lines().map(str::trim).filter(is_code).collect::<Vec<_>>().join("\n")
}

/// What a script begins with, in each [`Form`].
#[derive(Debug)]
struct FirstLines {
    flagged: &'static str,
    plain: &'static str,
}

impl FirstLines {
    /// Dragonfly has Lua 5.4, in which `unpack` has moved.
    fn without_flags(&self) -> String {
        format!("local unpack = table.unpack or unpack\n{}", self.plain)
    }
}

/// With a first line `#!lua` the server refuses a key that was not declared. A script that
/// frees, renews or reads may run while the server's memory is full. One that grants, or notes
/// something dispensable, may not. One that reads all locks finds their keys itself.
///
/// Without flags, the server looks whether its memory is full at the script's first write, and
/// only if that write may take up memory; no later write is refused for it. So a script begins
/// with a write that has no effect.
macro_rules! first_lines {
    (grants) => {
        FirstLines { flagged: "#!lua\n", plain: REFUSED_WHEN_FULL }
    };
    (notes) => {
        FirstLines { flagged: "#!lua\n", plain: REFUSED_WHEN_FULL }
    };
    (frees) => {
        FirstLines { flagged: "#!lua flags=allow-oom\n", plain: ALLOWED_WHEN_FULL }
    };
    (reads) => {
        FirstLines { flagged: "#!lua flags=no-writes\n", plain: "" }
    };
    (reads_all) => {
        FirstLines { flagged: "#!lua flags=no-writes,allow-cross-slot-keys\n", plain: "" }
    };
}

/// `SETRANGE` may take up memory, and is refused for whatever refuses any write. An empty value
/// changes nothing, and makes no key.
const REFUSED_WHEN_FULL: &str = "do\n\
    local said = redis.pcall('SETRANGE', KEYS[1], '0', '')\n\
    if type(said) == 'table' and not string.find(said.err, 'WRONGTYPE', 1, true) then return said end\n\
    end\n";

/// `HDEL` takes up no memory. No key of ours has a field without a name.
const ALLOWED_WHEN_FULL: &str = "redis.pcall('HDEL', KEYS[1], '')\n";

macro_rules! grants {
    (grants) => {
        true
    };
    ($other:ident) => {
        false
    };
}

macro_rules! takes {
    () => {
        false
    };
    (several) => {
        true
    };
}

macro_rules! scripts {
    ($($name:ident = $file:literal $flags:ident $($several:ident)? [$($include:literal),*]
       ($($key:ident),*; $($arg:ident),*);)*) => {
        $(pub(super) static $name: Script = Script {
            #[cfg(any(test, feature = "internals"))]
            name: $file,
            keys: &[$(stringify!($key)),*],
            #[cfg(any(test, feature = "internals"))]
            includes: &[$($include),*],
            #[cfg(test)]
            args: &[$(stringify!($arg)),*],
            takes_several: takes!($($several)?),
            grants: grants!($flags),
            first_lines: first_lines!($flags),
            source: concat!(
                $(include_str!(concat!("../../../lua/include/", $include, ".lua")), "\n",)*
                include_str!(concat!("../../../lua/", $file, ".lua")),
            ),
            flagged: LazyLock::new(|| Sent::of($name.first_lines.flagged, $name.source)),
            plain: LazyLock::new(|| Sent::of(&$name.first_lines.without_flags(), $name.source)),
        };)*

        /// All of them.
        #[cfg(any(test, feature = "internals"))]
        static ALL: &[&Script] = &[$(&$name),*];
    };
}

scripts! {
    MUTEX_ACQUIRE = "mutex/acquire" grants several
        ["record", "acquire_fast", "token", "acquire_many", "grant", "fields", "remains", "waiter", "queue", "queued", "tell", "free", "hand_over", "take_turn", "recall", "recall_clients", "other_kind", "channel", "acquire_mutex", "for_each"]
        (lock, holders, queue, waiters, tokens; holder, ttl_ms, waits);
    MUTEX_ACQUIRE_ONCE = "mutex/acquire_once" grants
        ["record", "token", "grant", "fields", "remains", "waiter", "queue", "queued", "tell", "free", "hand_over", "take_turn", "recall", "recall_clients", "other_kind", "channel", "acquire_mutex", "done", "runs"]
        (lock, holders, queue, waiters, done, runs, tokens; holder, ttl_ms, waits, once_ms, offset_ms, keep_ms);
    MUTEX_COMPLETE = "mutex/complete" frees
        ["record", "token", "free", "fields", "waiter", "queue", "tell", "hand_over", "done"]
        (lock, queue, waiters, done, runs, tokens; id, once_ms, tick_ms, granted_ms, keep_ms, token, wake);
    MUTEX_RUN_AGAIN = "mutex/run_again" frees
        ["record", "token", "free", "fields", "waiter", "queue", "tell", "hand_over"]
        (lock, queue, waiters, done, runs, again, tokens; said, keep_ms, wake);
    MUTEX_TELL_ALL = "mutex/tell_all" frees [] (limits; channel, message);
    MUTEX_ACQUIRE_ALL = "mutex/acquire_all" grants several
        ["record", "token", "grant", "fields", "take_mutex", "for_each"]
        (lock, holders, queue, tokens; ttl_ms, mutexes);
    MUTEX_RENEW = "mutex/renew" frees several ["for_each"] (lock; id, ttl_ms);
    MUTEX_RELEASE = "mutex/release" frees several
        ["record", "release_fast", "token", "release_many", "free", "fields", "waiter", "queue", "tell", "hand_over", "channel", "for_each"]
        (lock, queue, waiters, tokens; ends);
    MUTEX_CANCEL = "mutex/cancel" frees ["record", "token", "free", "fields", "remains", "waiter", "queue", "tell", "hand_over"]
        (lock, holders, queue, waiters, tokens; id, wake);
    MUTEX_ADOPT = "mutex/adopt" frees ["record", "token", "grant", "fields"] (lock, tokens; id, from, ttl_ms, most);
    MUTEX_LINGER = "mutex/linger" frees ["record", "token", "free", "fields", "waiter", "queue", "tell", "hand_over"]
        (lock, queue, waiters, tokens; id, ttl_ms, usage, wake);
    MUTEX_REPAIR = "mutex/repair" frees ["record", "token", "fields", "remains", "raise_token"]
        (lock, holders; id, token, lasts_ms, owner);
    REENTRANT_ACQUIRE = "reentrant/acquire" grants
        ["record", "token", "fields", "remains", "waiter", "queue", "queued", "tell", "holder", "holders", "rule_reentrant", "serve", "recall", "recall_clients", "other_kind", "ask"]
        (lock, holders, queue, waiters, tokens; holder, ttl_ms, waits, wake);
    REENTRANT_RENEW = "reentrant/renew" frees ["record", "token", "fields", "holder", "holders", "prolong", "extend"]
        (lock, holders; holder, ttl_ms);
    REENTRANT_RELEASE = "reentrant/release" frees
        ["record", "token", "fields", "remains", "waiter", "queue", "tell", "holder", "holders", "rule_reentrant", "serve", "give_back"]
        (lock, holders, queue, waiters, tokens; holder, wake);
    REENTRANT_CANCEL = "multi_holder/cancel" frees
        ["record", "token", "fields", "remains", "waiter", "queue", "tell", "holder", "holders", "rule_reentrant", "serve", "give_back"]
        (lock, holders, queue, waiters, tokens; holder, wake);
    REENTRANT_ADOPT = "multi_holder/adopt" frees
        ["record", "token", "fields", "remains", "holder", "holders", "rule_reentrant", "adopt"]
        (lock, holders, tokens; holder, from, ttl_ms);
    SEMAPHORE_ACQUIRE = "semaphore/acquire" grants several
        ["record", "token", "permit_acquire_fast", "fields", "remains", "waiter", "queue", "queued", "tell", "holder", "holders", "rule_semaphore", "serve", "recall", "recall_clients", "other_kind", "ask", "for_each"]
        (lock, holders, queue, waiters; holder, ttl_ms, limit, waits, wake);
    SEMAPHORE_RENEW = "semaphore/renew" frees several ["record", "token", "prolong", "for_each"] (lock, holders; holder, ttl_ms);
    SEMAPHORE_RELEASE = "semaphore/release" frees several
        ["record", "token", "permit_release_fast", "fields", "remains", "waiter", "queue", "tell", "holder", "holders", "rule_semaphore", "serve", "give_back", "for_each"]
        (lock, holders, queue, waiters; holder, wake);
    SEMAPHORE_CANCEL = "multi_holder/cancel" frees
        ["record", "token", "fields", "remains", "waiter", "queue", "tell", "holder", "holders", "rule_semaphore", "serve", "give_back"]
        (lock, holders, queue, waiters, tokens; holder, wake);
    SEMAPHORE_LINGER = "multi_holder/linger" frees
        ["record", "token", "fields", "remains", "waiter", "queue", "tell", "holder", "holders", "rule_semaphore", "serve", "give_back", "recall_clients", "prolong", "extend"]
        (lock, holders, queue, waiters, tokens; holder, ttl_ms, usage, wake);
    SEMAPHORE_ADOPT = "multi_holder/adopt" frees
        ["record", "token", "fields", "remains", "holder", "holders", "rule_semaphore", "adopt"]
        (lock, holders, tokens; holder, from, ttl_ms);
    RW_ACQUIRE = "rw/acquire" grants
        ["record", "token", "fields", "remains", "waiter", "queue", "queued", "tell", "holder", "holders", "rule_rw", "serve", "recall", "recall_clients", "other_kind", "ask", "read_or_write"]
        (lock, holders, queue, waiters, tokens; holder, ttl_ms, waits, wake);
    RW_VOTE = "rw/vote" grants
        ["record", "token", "fields", "remains", "waiter", "queue", "queued", "tell", "holder", "holders", "rule_rw", "serve", "recall", "recall_clients", "other_kind", "ask", "read_or_write"]
        (lock, holders, queue, waiters, intent, tokens; holder, ttl_ms, again_ms);
    RW_REPAIR = "rw/repair" frees ["record", "token", "fields", "remains", "holder", "holders", "rule_rw", "raise_token"]
        (lock, holders; holder, token, lasts_ms);
    RW_RENEW = "rw/renew" frees ["record", "token", "fields", "holder", "holders", "rule_rw", "prolong", "extend"]
        (lock, holders; holder, ttl_ms);
    RW_RELEASE = "rw/release" frees ["record", "token", "fields", "remains", "waiter", "queue", "tell", "holder", "holders", "rule_rw", "serve", "give_back"]
        (lock, holders, queue, waiters, tokens; holder, wake);
    RW_CANCEL = "multi_holder/cancel" frees
        ["record", "token", "fields", "remains", "waiter", "queue", "tell", "holder", "holders", "rule_rw", "serve", "give_back"]
        (lock, holders, queue, waiters, tokens; holder, wake);
    RW_LINGER = "multi_holder/linger" frees
        ["record", "token", "fields", "remains", "waiter", "queue", "tell", "holder", "holders", "rule_rw", "serve", "give_back", "recall_clients", "prolong", "extend"]
        (lock, holders, queue, waiters, tokens; holder, ttl_ms, usage, wake);
    RW_ADOPT = "multi_holder/adopt" frees
        ["record", "token", "fields", "remains", "holder", "holders", "rule_rw", "adopt"]
        (lock, holders, tokens; holder, from, ttl_ms);
    LOCK_ACQUIRE_ALL = "lock/acquire_all" grants several
        ["record", "token", "grant", "fields", "take_mutex", "holder", "holders", "rule_semaphore", "take_permit", "rate", "write_rate", "place_rate", "take_rate", "give_back_rate", "take_rates", "take_locks", "for_each"]
        (lock, holders, queue, tokens; ttl_ms, locks, rates);
    LOCK_INSPECT = "lock/inspect" reads ["record", "token", "fields", "remains", "holder"] (lock, holders, queue, waiters, done, runs, again, freed; most);
    LOCK_PREFIXES = "lock/prefixes" reads [] (; cursor, count);
    LOCK_LIST = "lock/list" reads_all ["record", "token", "fields"] (; prefix, match, literal, cursor, count, of);
    LOCK_IS_HELD_BY = "lock/is_held_by" frees ["record", "token", "fields", "holder", "holders"] (lock, holders; owner);
    LOCK_FORCE_RELEASE = "lock/force_release" frees
        ["record", "token", "fields", "remains", "waiter", "queue", "tell", "tell_forced", "force"]
        (lock, holders, queue, waiters, forced, freed, tokens; said, keep_ms, wake);
    LOCK_FORCE_SOME = "lock/force_some" frees
        ["record", "token", "fields", "remains", "waiter", "queue", "tell", "tell_forced", "force", "holder", "holders"]
        (lock, holders, queue, waiters, forced, freed, tokens; said, keep_ms, only, wake);
    LOCK_TELL_FORCED = "lock/tell_forced" frees ["tell_forced"] (forced; from, most, wake);
    LOCK_KEEP_OFFER = "lock/keep_offer" frees ["record", "token", "fields", "waiter", "queue", "holder", "prolong"]
        (lock, holders; holder, until_ms);
    LOCK_WAS_FORCED = "lock/was_forced" reads [] (forced; holder);
    RATE_TAKE = "rate/take" grants several
        ["record", "token", "rate", "write_rate", "place_rate", "take_rate", "for_each"]
        (rate; id, weight_us, burst_us, settled, wait_us);
    RATE_GIVE_BACK = "rate/give_back" frees ["record", "token", "rate", "write_rate", "give_back_rate"]
        (rate; id, weight_us);
    LIMITS_READ = "limits/read" frees [] (limits; keep_ms);
    LIMITS_CHANGE = "limits/change" frees [] (limits; field, value, keep_ms, most, channel);
    CLIENT_INTRODUCE = "client/introduce" notes [] (client; service, host, process, ttl_ms);
    CLIENT_DESCRIBE = "client/describe" reads [] (client;);
}

/// The scripts of a command by kind: mutex, reentrant mutex, semaphore, read-write lock.
macro_rules! by_kind {
    ($($name:ident = $($script:ident)*;)*) => {
        $(pub(super) static $name: [&Script; 4] = [$(&$script),*];)*
    };
}

by_kind! {
    ACQUIRE = MUTEX_ACQUIRE REENTRANT_ACQUIRE SEMAPHORE_ACQUIRE RW_ACQUIRE;
    RENEW = MUTEX_RENEW REENTRANT_RENEW SEMAPHORE_RENEW RW_RENEW;
    RELEASE = MUTEX_RELEASE REENTRANT_RELEASE SEMAPHORE_RELEASE RW_RELEASE;
    CANCEL = MUTEX_CANCEL REENTRANT_CANCEL SEMAPHORE_CANCEL RW_CANCEL;
    LINGER = MUTEX_LINGER SEMAPHORE_LINGER SEMAPHORE_LINGER RW_LINGER;
    ADOPT = MUTEX_ADOPT REENTRANT_ADOPT SEMAPHORE_ADOPT RW_ADOPT;
}

#[cfg(test)]
mod tests;
