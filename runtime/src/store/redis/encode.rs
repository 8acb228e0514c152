//! Encodes requests as commands: the script, its keys, and its arguments.

mod operators;
mod together;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::args::TOKENS_KEY;
use super::decode;
use super::decode::Decoder;
use super::encoded::Encoded;
use super::holder::{asker, holder, suffix};
use super::script;
use super::script::Script;
use super::secret::Secret;
use crate::core::key::LockKey;
use crate::store::{
    ClientId, ClientInfo, Detached, Kind, Once, QueuePosition, Request, RequestCommand, Stamp,
    Success, Usage, Waiting,
};

/// Encodes the requests of one client.
#[derive(Clone, Debug)]
pub(super) struct Encoder {
    prefix: Arc<str>,
    /// The channel for hints, without the client's id. On a cluster there is none: each lock
    /// has its own.
    channel: Option<Arc<str>>,
    /// The key [`TOKENS_KEY`]. `None` on a cluster, and on a member of a quorum.
    tokens: Option<Arc<str>>,
    /// Goes with each ask that waits.
    secret: Secret,
}

impl Encoder {
    /// For one server.
    pub(super) fn new(prefix: &str, secret: Secret) -> Self {
        let channel = Some(format!("{prefix}:wake:").into());
        let tokens = Some(format!("{prefix}:{TOKENS_KEY}").into());
        Self { prefix: prefix.into(), channel, tokens, secret }
    }

    /// For a member of a quorum. It has no queue, and no tokens but those in its records: those of
    /// a server whose clock was once wrong must not last.
    pub(super) fn for_quorum_member(prefix: &str) -> Self {
        Self { tokens: None, ..Self::new(prefix, Secret::random()) }
    }

    /// For a cluster.
    #[cfg(feature = "cluster")]
    pub(super) fn for_cluster(prefix: &str, secret: Secret) -> Self {
        Self { channel: None, tokens: None, ..Self::new(prefix, secret) }
    }

    /// The channel for a lock's hints: the scripts append the client's id.
    pub(super) fn channel(&self, key: &LockKey) -> Cow<'_, str> {
        match &self.channel {
            Some(channel) => Cow::Borrowed(channel),
            // On a cluster a script may only publish into its own slot.
            None => Cow::Owned(self.own_channel(key)),
        }
    }

    /// The channel of a lock alone.
    fn own_channel(&self, key: &LockKey) -> String {
        format!("{}:", key.in_store(&self.prefix, "wake"))
    }

    /// The script for a request's kind, with its keys and its holder.
    fn of(&self, request: &Request, by_kind: &[&'static Script; 4]) -> Encoded {
        let [mutex, reentrant, semaphore, rw] = *by_kind;
        let script = match request.kind {
            Kind::Mutex | Kind::Once(_) => mutex,
            Kind::Reentrant => reentrant,
            Kind::Semaphore { .. } => semaphore,
            Kind::Read | Kind::Write => rw,
        };
        self.lock(&request.key, script).arg(holder(request))
    }

    /// A script with a lock's keys.
    fn lock(&self, key: &LockKey, script: &'static Script) -> Encoded {
        self.shared_key(key, Encoded::new(script).lock_keys(key, &self.prefix))
    }

    /// Adds the key that all locks share, after all others, if the script has it.
    fn shared_key(&self, key: &LockKey, command: Encoded) -> Encoded {
        match (command.has_tokens(), &self.tokens) {
            (false, _) => command,
            (true, None) => command.key(&self.own_channel(key)),
            (true, Some(tokens)) => command.key(tokens),
        }
    }

    /// A command for a request, and how to decode its answer.
    pub(super) fn for_request(
        &self,
        request: &Request,
        command: RequestCommand,
    ) -> (Encoded, Decoder) {
        match command {
            RequestCommand::Acquire(waiting) => {
                (self.acquire(request, waiting), decode::to_acquire)
            }
            RequestCommand::Vote(again) => (self.vote(request, again), decode::to_acquire),
            RequestCommand::Renew => (self.renew(request), decode::to_renew),
            RequestCommand::KeepOffer(until) => {
                (self.keep_offer(request, until), decode::to_notice)
            }
            RequestCommand::Adopt(from) => (self.adopt(from, request), decode::to_adopt),
            RequestCommand::Release(keep) => (self.release(request, keep), decode::to_release),
            RequestCommand::ReleaseAndForget => {
                (self.release_and_forget(request), decode::to_release)
            }
            RequestCommand::Complete(success) => {
                (self.complete(request, success), decode::to_release)
            }
            RequestCommand::Linger(usage) => (self.linger(request, usage), decode::to_linger),
            RequestCommand::Cancel => (self.cancel(request), decode::to_question),
            RequestCommand::WasForced => (self.was_forced(request), decode::to_question),
            RequestCommand::Repair { token, lasts } => {
                (self.repair(request, token, lasts), decode::to_repair)
            }
        }
    }

    fn acquire(&self, request: &Request, waiting: Option<Waiting>) -> Encoded {
        if request.kind.is_mutex() {
            return self.acquire_mutex(request, waiting);
        }
        let mut command = self.of(request, &script::ACQUIRE).millis(request.ttl);
        if let Kind::Semaphore { limit, .. } = request.kind {
            command = command.number(limit);
        }
        command.arg(self.waits(waiting)).arg(&*self.channel(&request.key))
    }

    fn acquire_mutex(&self, request: &Request, waiting: Option<Waiting>) -> Encoded {
        let script = match request.kind {
            Kind::Once(_) => &script::MUTEX_ACQUIRE_ONCE,
            _ => &script::MUTEX_ACQUIRE,
        };
        let command = self.lock(&request.key, script).arg(&*asker(request));
        let command = command.millis(request.ttl).arg(self.waits(waiting));
        match request.kind {
            Kind::Once(once) => {
                let command = match once {
                    Once::For(lasts) => command.millis(lasts).arg(""),
                    Once::Per { period, offset } => command.millis(period).millis(offset),
                };
                command.millis(once.remembered())
            }
            _ => command,
        }
    }

    /// How a request waits: for how many milliseconds it counts as alive, its client's secret, and
    /// its position in the queue; if it has none, minus its age in microseconds. Empty if it does
    /// not wait.
    fn waits(&self, waiting: Option<Waiting>) -> String {
        let Some(Waiting { live, position }) = waiting else { return String::new() };
        let (live, secret) = (live.as_millis(), self.secret.text());
        match position {
            QueuePosition::Assigned(position) => format!("{live} {secret} {position}"),
            QueuePosition::New { age } => format!("{live} {secret} -{}", age.as_micros()),
        }
    }

    pub(super) fn renew(&self, request: &Request) -> Encoded {
        self.of(request, &script::RENEW).millis(request.ttl)
    }

    fn keep_offer(&self, request: &Request, until: Stamp) -> Encoded {
        self.lock(&request.key, &script::LOCK_KEEP_OFFER).arg(holder(request)).number(until)
    }

    fn adopt(&self, from: Detached, request: &Request) -> Encoded {
        let before = Request { id: from.id, ..request.clone() };
        let command = self.of(request, &script::ADOPT).arg(&*holder(&before)).millis(request.ttl);
        if request.kind.is_mutex() { command.number(from.most) } else { command }
    }

    /// Afterwards a mutex stays held without a holder for `keep`. Its free record is kept.
    fn release(&self, request: &Request, keep: Duration) -> Encoded {
        if request.kind.is_mutex() {
            let keep = format!(":{}", keep.as_millis());
            let ends = [request.id.as_bytes(), keep.as_bytes()].concat();
            return self.lock(&request.key, &script::MUTEX_RELEASE).arg(ends);
        }
        self.of(request, &script::RELEASE).arg(&*self.channel(&request.key))
    }

    /// Where its record is kept all the same, it is a release.
    fn release_and_forget(&self, request: &Request) -> Encoded {
        if request.kind.is_mutex() && !self.is_cluster() {
            self.of(request, &script::RELEASE)
        } else {
            self.release(request, Duration::ZERO)
        }
    }

    fn complete(&self, request: &Request, success: Success) -> Encoded {
        let Kind::Once(once) = request.kind else { unreachable!("no other work counts as done") };
        let (Once::For(lasts) | Once::Per { period: lasts, .. }) = once;
        let command = self.of(request, &[&script::MUTEX_COMPLETE; 4]).millis(lasts);
        let [began, granted] = success.tick.map_or([0; 2], |tick| [tick.began, tick.granted]);
        let command = command.number(began).number(granted).millis(once.remembered());
        let command = command.number(success.token.unwrap_or(0));
        command.arg(&*self.channel(&request.key))
    }

    fn linger(&self, request: &Request, usage: Usage) -> Encoded {
        let command = self.of(request, &script::LINGER).millis(request.ttl);
        let code = u8::from(usage.is_in_use()) + 2 * u8::from(usage.is_recalled());
        command.number(code).arg(&*self.channel(&request.key))
    }

    pub(super) fn cancel(&self, request: &Request) -> Encoded {
        self.of(request, &script::CANCEL).arg(&*self.channel(&request.key))
    }

    /// At most `most` holders and `most` waiters are listed.
    pub(super) fn inspect(&self, key: &LockKey, most: u64) -> Encoded {
        self.lock(key, &script::LOCK_INSPECT).number(most)
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.channel.is_none()
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The server's pattern for all keys of the prefix.
    pub(super) fn all_keys(&self) -> String {
        let mut keys: String = String::with_capacity(self.prefix.len() + 2);
        for c in self.prefix.chars() {
            if "*?[]\\^".contains(c) {
                keys.push('\\');
            }
            keys.push(c);
        }
        keys + ":*"
    }

    pub(super) fn introduce(&self, client: &ClientInfo, lasts: Duration) -> Encoded {
        let command = Encoded::new(&script::CLIENT_INTRODUCE).key(&self.client(client.id));
        let command = command.arg(&client.service).arg(&client.host).number(client.process);
        command.millis(lasts)
    }

    pub(super) fn describe(&self, client: ClientId) -> Encoded {
        Encoded::new(&script::CLIENT_DESCRIBE).key(&self.client(client))
    }

    fn was_forced(&self, request: &Request) -> Encoded {
        self.lock(&request.key, &script::LOCK_WAS_FORCED).arg(holder(request))
    }

    /// A member of a quorum has a script for readers and writers alone.
    fn vote(&self, request: &Request, again: Duration) -> Encoded {
        if !matches!(request.kind, Kind::Read | Kind::Write) {
            return self.acquire(request, None);
        }
        self.of(request, &[&script::RW_VOTE; 4]).millis(request.ttl).millis(again)
    }

    fn repair(&self, request: &Request, token: u64, lasts: Duration) -> Encoded {
        let is_mutex = request.kind.is_mutex();
        let script = if is_mutex { &script::MUTEX_REPAIR } else { &script::RW_REPAIR };
        let command = self.of(request, &[script; 4]).number(token).millis(lasts);
        if is_mutex { command.arg(suffix(request)) } else { command }
    }

    /// The key of a client's description of itself.
    fn client(&self, id: ClientId) -> String {
        format!("{}:client:{{{id}}}", self.prefix)
    }
}
