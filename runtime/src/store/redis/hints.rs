//! Hints: messages that the scripts publish for this client.

#[cfg(test)]
mod hostile;

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use redis::{PushInfo, PushKind, Value};

use super::link_state::LinkState;
use super::secret::Secret;
use crate::core::key::LockKey;
use crate::core::sync::lock;
use crate::store::{ClientId, Hint, Listener, RESUBSCRIBE, RequestId};
use crate::system;

/// Receives the hints of one server, or of a cluster, and hands them to the listener.
#[derive(Debug)]
pub(super) struct HintReceiver {
    pub(super) client: ClientId,
    /// The channel that the scripts publish to.
    pub(super) channel: String,
    /// The channel for all clients.
    pub(super) limits: String,
    /// How the keys of all locks begin.
    locks: String,
    /// A client that is offered a lock asks for it: the offer alone is not enough.
    pub(super) confirms_offers: bool,
    /// What the proofs of offers are made with.
    secret: Secret,
    listener: Mutex<Option<Weak<dyn Listener>>>,
    source: Mutex<Source>,
}

/// What the script says that changes a limit.
const LIMITS: &[u8] = b"limits";

/// What the script says that lets work run again, before the key of its lock.
pub(super) const AGAIN: &str = "again ";

/// Where hints come from.
#[derive(Debug, Default)]
enum Source {
    /// From nowhere, for now.
    #[default]
    None,
    /// The server has refused the subscription, and was asked the last time then.
    Refused { asked: Instant },
    /// This connection is subscribed.
    Open(Arc<LinkState>),
}

/// What the server has said to a subscription.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subscribed {
    /// This connection carries no hints.
    NotHere,
    Yes,
    Refused,
}

impl HintReceiver {
    /// A receiver of the hints that the scripts publish below this prefix.
    pub(super) fn new(client: ClientId, prefix: &str, secret: Secret) -> Self {
        Self {
            channel: format!("{prefix}:wake:{client}"),
            limits: format!("{prefix}:wake:limits"),
            locks: format!("{prefix}:lock:"),
            ..Self::silent(client, secret)
        }
    }

    fn silent(client: ClientId, secret: Secret) -> Self {
        let (listener, source) = (Mutex::default(), Mutex::default());
        let (channel, limits, locks) = (String::new(), String::new(), String::new());
        Self { client, channel, limits, locks, confirms_offers: false, secret, listener, source }
    }

    /// A receiver for a cluster, where each lock has a channel of its own.
    #[cfg(feature = "cluster")]
    pub(super) fn on_cluster(client: ClientId, prefix: &str, secret: Secret) -> Arc<Self> {
        Arc::new(Self { locks: format!("{prefix}:lock:"), ..Self::silent(client, secret) })
    }

    /// A receiver without a channel, for connections that carry no hints.
    pub(super) fn without_channel(client: ClientId) -> Arc<Self> {
        Arc::new(Self::silent(client, Secret::random()))
    }

    /// Hands hints to `listener` from now on.
    pub(super) fn listen(&self, listener: Weak<dyn Listener>) {
        *lock(&self.listener) = Some(listener);
    }

    /// Notes which connection carries hints from now on.
    pub(super) fn set_source(&self, source: Option<Arc<LinkState>>) {
        *lock(&self.source) = source.map_or(Source::None, Source::Open);
    }

    /// Notes what the server has said to the subscription of a connection that is used from now on.
    pub(super) fn note(&self, subscribed: Subscribed, link: &Arc<LinkState>) {
        match subscribed {
            Subscribed::NotHere => {}
            Subscribed::Yes => self.set_source(Some(link.clone())),
            Subscribed::Refused => {
                *lock(&self.source) = Source::Refused { asked: system::now() };
            }
        }
    }

    /// Notes that the server is asked again.
    pub(super) fn note_asked_again(&self) {
        if let Source::Refused { asked } = &mut *lock(&self.source) {
            *asked = system::now();
        }
    }

    /// Returns true if the server has refused the subscription, and is to be asked again now.
    pub(super) fn is_to_ask_again(&self) -> bool {
        matches!(&*lock(&self.source), Source::Refused { asked } if system::since(*asked) >= RESUBSCRIBE)
    }

    /// Returns true if a working connection carries hints.
    pub(super) fn is_open(&self) -> bool {
        matches!(&*lock(&self.source), Source::Open(source) if !source.is_abandoned())
    }

    /// Hands a hint to the listener.
    pub(super) fn deliver(&self, hint: Hint) {
        let listener = lock(&self.listener).as_ref().and_then(Weak::upgrade);
        if let Some(listener) = listener {
            listener.hear(hint);
        }
    }

    /// Takes a push of the driver. It ignores those of other channels.
    pub(super) fn take_push(&self, push: &PushInfo) {
        if let (PushKind::Message, [Value::BulkString(channel), Value::BulkString(message)]) =
            (&push.kind, &push.data[..])
            && (channel == self.channel.as_bytes() || channel == self.limits.as_bytes())
        {
            self.take_message(message);
        }
    }

    /// Takes a message of our channels.
    pub(super) fn take_message(&self, message: &[u8]) {
        if message == LIMITS {
            self.deliver(Hint::LimitsChanged);
            return;
        }
        if let Some(lock) = message.strip_prefix(AGAIN.as_bytes()) {
            if let Some(key) = key_of(lock, &self.locks) {
                self.deliver(Hint::RunAgain { key });
            }
            return;
        }
        if let Some(hint) =
            read(message, &self.locks, &self.secret).filter(|(id, _)| id.client() == self.client)
        {
            self.deliver(match hint.1 {
                Hint::Offered { id, .. } if self.confirms_offers => Hint::Free { id },
                hint => hint,
            });
        }
    }
}

/// Reads a message. It is the id of a request, which should ask for the lock; or the id and an
/// `F`, if it should ask whether its lease was forced; or the id, an `R` and a lock's key, if its
/// client should ask whether it may keep the lock; or an offer: the id, the token, until
/// when the waiter is known to live, and how many milliseconds sooner the offer ends, each of
/// a fixed width, and a proof. Anybody may have sent a message, so all but an offer are questions
/// that the client takes to the store.
fn read(message: &[u8], locks: &str, secret: &Secret) -> Option<(RequestId, Hint)> {
    let (id, rest) = message.split_at_checked(RequestId::LENGTH)?;
    let id = RequestId::read(id)?;
    if rest.is_empty() {
        return Some((id, Hint::Free { id }));
    }
    if rest == b"F" {
        return Some((id, Hint::Forced { id }));
    }
    if let Some(lock) = rest.strip_prefix(b"R") {
        return Some((id, Hint::Recalled { key: key_of(lock, locks)? }));
    }
    let (_, rest) = secret.proven(message)?.split_at_checked(RequestId::LENGTH)?;
    let (token, rest) = rest.split_at_checked(16)?;
    let (until, early) = rest.split_at_checked(13).filter(|(_, early)| early.len() == 5)?;
    let (token, until) = (number(token)?, number(until)?);
    Some((id, Hint::Offered { id, token, until, early: Duration::from_millis(number(early)?) }))
}

/// The lock of a record's key.
fn key_of(record: &[u8], locks: &str) -> Option<LockKey> {
    LockKey::of_stored(str::from_utf8(record).ok()?.strip_prefix(locks)?)
}

/// Reads a number of at most 19 digits, and nothing but digits.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn only_messages_of_the_scripts_are_read() {
        let id = RequestId::next(ClientId::random(), &AtomicU64::new(7));
        let secret = Secret::random();
        let read = |message: &[u8], locks| super::read(message, locks, &secret);
        let offer = format!("{id:?}1700000000000064170000000012304321");
        let good = secret.sign(&offer);
        let (token, until) = (1_700_000_000_000_064, 1_700_000_000_123);
        let hint = Hint::Offered { id, token, until, early: Duration::from_millis(4321) };
        assert_eq!(read(good.as_bytes(), "p:lock:"), Some((id, hint)));
        for end in (0..good.len()).filter(|end| *end != RequestId::LENGTH) {
            assert_eq!(read(&good.as_bytes()[..end], "p:lock:"), None, "{end} bytes");
        }
        let id_alone = &good.as_bytes()[..RequestId::LENGTH];
        assert_eq!(read(id_alone, "p:lock:"), Some((id, Hint::Free { id })));
        let forced = Some((id, Hint::Forced { id }));
        assert_eq!(read(format!("{id:?}F").as_bytes(), "p:lock:"), forced);
        let recall = format!("{id:?}Rp:lock:{{a}}");
        let key = LockKey::new("a").unwrap();
        assert_eq!(read(recall.as_bytes(), "p:lock:"), Some((id, Hint::Recalled { key })));
        assert_eq!(read(recall.as_bytes(), "q:lock:"), None);
        for bad in [
            format!("{id:?}R"),
            format!("{id:?}Rp:lock:a"),
            format!("{id:?}Rp:lock:{{}}"),
            format!("{id:?}FF"),
            format!("{good}4"),
            secret.sign(&offer.replace("123", "-23")),
            secret.sign(&offer.replace("64", "+4")),
            Secret::random().sign(&offer),
            offer.clone() + &"0".repeat(20),
            good.replace("1700000000000064", "9999999999999999"),
        ] {
            assert_eq!(read(bad.as_bytes(), "p:lock:"), None, "{bad}");
        }
        assert_eq!(read(&[0xff; 68], "p:lock:"), None);
        assert_eq!(read(&[b'9'; 9999], "p:lock:"), None);
    }
}
