//! Hints: what the server tells this client unasked, by which connection it
//! does, and who hears them.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use redis::{PushInfo, PushKind, Value};

use super::lock;
use super::server_state::Health;
use crate::store::{ClientId, Hint, Listener, RequestId};

/// A client's ears on one server.
#[derive(Debug)]
pub(super) struct Ears {
    pub(super) client: ClientId,
    /// What the scripts publish to.
    pub(super) channel: String,
    /// What is offered is to be asked for again, and not taken as it is.
    are_wary: bool,
    listener: Mutex<Option<Weak<dyn Listener>>>,
    /// The connection that is subscribed.
    source: Mutex<Option<Arc<Health>>>,
}

impl Ears {
    pub(super) fn new(client: ClientId, channel: String) -> Self {
        let (listener, source) = (Mutex::default(), Mutex::default());
        Self { client, channel, are_wary: false, listener, source }
    }

    /// The same, for a client that asks for what it is offered.
    pub(super) fn wary(self, are_wary: bool) -> Self {
        Self { are_wary, ..self }
    }

    /// From now on hints go to `listener`.
    pub(super) fn listen(&self, listener: Weak<dyn Listener>) {
        *lock(&self.listener) = Some(listener);
    }

    /// From now on hints come by this connection, or by none.
    pub(super) fn hear_by(&self, source: Option<Arc<Health>>) {
        *lock(&self.source) = source;
    }

    /// Whether the connection that hints come by is there.
    pub(super) fn are_open(&self) -> bool {
        lock(&self.source).as_ref().is_some_and(|source| !source.is_given_up())
    }

    pub(super) fn tell(&self, hint: Hint) {
        let listener = lock(&self.listener).as_ref().and_then(Weak::upgrade);
        if let Some(listener) = listener {
            listener.hear(hint);
        }
    }

    /// Takes what the driver was pushed; what is not for us is left alone.
    pub(super) fn take(&self, push: &PushInfo) {
        if let (PushKind::Message, [Value::BulkString(channel), Value::BulkString(message)]) =
            (&push.kind, &push.data[..])
            && channel == self.channel.as_bytes()
        {
            self.take_message(message);
        }
    }

    /// Takes a message of our channel.
    pub(super) fn take_message(&self, message: &[u8]) {
        if let Some(hint) = read(message).filter(|(id, _)| id.client() == self.client) {
            self.tell(match hint.1 {
                Hint::Offered { id, .. } if self.are_wary => Hint::Free { id },
                hint => hint,
            });
        }
    }
}

/// Reads what the scripts tell: a request's id alone if it should ask for the lock, with an
/// `F` if it should ask whether it was forced; or with the token, until when the waiter is
/// known to live, and by how many milliseconds sooner the offer ends, each of a fixed width.
/// Anybody may have sent it.
fn read(message: &[u8]) -> Option<(RequestId, Hint)> {
    let (id, rest) = message.split_at_checked(RequestId::LENGTH)?;
    let id = RequestId::read(id)?;
    if rest.is_empty() {
        return Some((id, Hint::Free { id }));
    }
    if rest == b"F" {
        return Some((id, Hint::Forced { id }));
    }
    let (token, rest) = rest.split_at_checked(16)?;
    let (until, early) = rest.split_at_checked(13).filter(|(_, early)| early.len() == 5)?;
    let (token, until) = (number(token)?, number(until)?);
    Some((id, Hint::Offered { id, token, until, early: Duration::from_millis(number(early)?) }))
}

/// A number of digits alone, at most 19.
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
    fn only_what_the_scripts_send_is_read() {
        let id = RequestId::next(ClientId::random(), &AtomicU64::new(7));
        let good = format!("{id:?}1700000000000064170000000012304321");
        let (token, until) = (1_700_000_000_000_064, 1_700_000_000_123);
        let hint = Hint::Offered { id, token, until, early: Duration::from_millis(4321) };
        assert_eq!(read(good.as_bytes()), Some((id, hint)));
        for end in (0..good.len()).filter(|end| *end != RequestId::LENGTH) {
            assert_eq!(read(&good.as_bytes()[..end]), None, "{end} bytes");
        }
        let id_alone = &good.as_bytes()[..RequestId::LENGTH];
        assert_eq!(read(id_alone), Some((id, Hint::Free { id })));
        let forced = Some((id, Hint::Forced { id }));
        assert_eq!(read(format!("{id:?}F").as_bytes()), forced);
        for bad in [
            format!("{id:?}FF"),
            format!("{good}4"),
            good.replace("123", "-23"),
            good.replace("64", "+4"),
        ] {
            assert_eq!(read(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(read(&[0xff; 68]), None);
        assert_eq!(read(&[b'9'; 9999]), None);
    }
}
