//! The commands that locks need, each in a form that has no effect: they tell the user's rights.

/// A command that the client or its scripts send.
#[derive(Debug)]
pub(super) struct Right {
    /// As `ACL SETUSER` takes it, after a `+`.
    pub(super) grant: &'static str,
    pub(super) need: Need,
    /// A form without an effect; `KEY` and `CHANNEL` stand for names that nobody uses.
    pub(super) words: &'static [&'static str],
}

/// What needs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Every lock.
    Locks,
    /// Calls for several locks. Without it, these read one record after another.
    Batches,
    /// The limits that operators set.
    Limits,
    /// Every lock on a cluster.
    Cluster,
    /// Hints on a server. Without them waiters poll.
    Messages,
    /// Hints on a cluster.
    ClusterMessages,
    /// Connections that the client gave up.
    Connections,
    /// Sentinels, and members of a quorum.
    Role,
    /// Members of a quorum whose memory counts.
    Uptime,
    /// `sync_replicas`.
    Sync,
}

macro_rules! rights {
    ($($grant:literal $need:ident [$($word:literal)*];)*) => {
        /// All of them. A test compares them with docs/keys.md.
        pub(super) static RIGHTS: &[Right] = &[$(Right {
            grant: $grant,
            need: Need::$need,
            words: &[$($word),*],
        }),*];
    };
}

// No key of these names is there, so nothing is deleted, and no write writes anything: some are
// refused after the user's rights were checked, for an argument that is wrong.
rights! {
    "eval" Locks ["EVAL" "#!lua flags=no-writes\nreturn 1" "0"];
    "evalsha" Locks ["EVALSHA" "0000000000000000000000000000000000000000" "0"];
    "get" Locks ["GET" "KEY"];
    "mget" Batches ["MGET" "KEY"];
    "set" Locks ["SET" "KEY" "x" "XX"];
    "setrange" Locks ["SETRANGE" "KEY" "0" ""];
    "exists" Locks ["EXISTS" "KEY"];
    "pexpire" Locks ["PEXPIRE" "KEY" "1000"];
    "pttl" Locks ["PTTL" "KEY"];
    "rename" Locks ["RENAME" "KEY" "KEY"];
    "time" Locks ["TIME"];
    "hexists" Locks ["HEXISTS" "KEY" "f"];
    "hgetall" Limits ["HGETALL" "KEY"];
    "hget" Locks ["HGET" "KEY" "f"];
    "hset" Locks ["HSET" "KEY" "f" "v" "odd"];
    "hdel" Locks ["HDEL" "KEY" "f"];
    "zadd" Locks ["ZADD" "KEY" "XX" "0" "m"];
    "zcard" Locks ["ZCARD" "KEY"];
    "zcount" Locks ["ZCOUNT" "KEY" "0" "1"];
    "zincrby" Locks ["ZINCRBY" "KEY" "x" "m"];
    "zmscore" Locks ["ZMSCORE" "KEY" "m"];
    "zrange" Locks ["ZRANGE" "KEY" "0" "0"];
    "zrank" Locks ["ZRANK" "KEY" "m"];
    "zrem" Locks ["ZREM" "KEY" "m"];
    "zremrangebyscore" Locks ["ZREMRANGEBYSCORE" "KEY" "0" "1"];
    "zscore" Locks ["ZSCORE" "KEY" "m"];
    "unlink" Locks ["UNLINK" "KEY"];
    "publish" Messages ["PUBLISH" "CHANNEL" ""];
    "subscribe" Messages [];
    "client|info" Connections ["CLIENT" "INFO"];
    "client|kill" Connections ["CLIENT" "KILL" "ID" "0" "ADDR" "-"];
    "cluster|slots" Cluster ["CLUSTER" "SLOTS"];
    "asking" Cluster ["ASKING"];
    "ping" ClusterMessages ["PING"];
    "spublish" ClusterMessages ["SPUBLISH" "CHANNEL" ""];
    "ssubscribe" ClusterMessages ["SSUBSCRIBE" "CHANNEL" "OTHER"];
    "role" Role ["ROLE"];
    "info" Uptime ["INFO" "server"];
    "wait" Sync ["WAIT" "0" "1"];
}

impl Need {
    /// Without it, no lock works.
    pub(super) fn is_vital(self) -> bool {
        matches!(self, Self::Locks | Self::Cluster | Self::Uptime | Self::Sync)
    }
}
