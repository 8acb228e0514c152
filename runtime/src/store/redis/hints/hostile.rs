//! Messages on our channel: anybody may have sent them.

use std::sync::atomic::AtomicU64;

use proptest::prelude::*;

use super::*;

const LOCKS: &str = "p:lock:";

fn id() -> impl Strategy<Value = Vec<u8>> {
    let ours = any::<u64>().prop_map(|number| {
        RequestId::next(ClientId::random(), &AtomicU64::new(number)).as_bytes().to_vec()
    });
    prop_oneof![ours, prop::collection::vec(any::<u8>(), RequestId::LENGTH)]
}

fn rest() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        "[0-9]{34}".prop_map(String::into_bytes),
        "[0-9]{16}[0-9+\\-]{18}".prop_map(String::into_bytes),
        "F?R?(p:lock:)?\\{?\\PC{0,9}\\}?".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn no_message_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = read(&bytes, LOCKS, &Secret::random());
    }

    /// A message is read as one that the scripts write, or not at all.
    #[test]
    fn what_is_read_is_what_was_written(id in id(), rest in rest(), is_signed: bool) {
        let (mut message, secret) = ([&id[..], &rest].concat(), Secret::random());
        if is_signed && let Ok(text) = str::from_utf8(&message) {
            message = secret.sign(text).into_bytes();
        }
        let Some((read, hint)) = read(&message, LOCKS, &secret) else { return Ok(()) };
        prop_assert_eq!(read.as_bytes(), &id[..]);
        let is_offer = matches!(hint, Hint::Offered { .. });
        let written = match hint {
            Hint::Free { .. } => String::new(),
            Hint::Forced { .. } => "F".to_owned(),
            Hint::Recalled { key } => format!("R{}", key.in_store("p", "lock")),
            Hint::Offered { token, until, early, .. } => {
                format!("{token:016}{until:013}{:05}", early.as_millis())
            }
            Hint::LimitsChanged | Hint::RunAgain { .. } | Hint::Missed => return Err(TestCaseError::fail("no message of a request says that")),
        };
        // Behind an offer is its proof.
        let end = if is_offer { message.len() - 20 } else { message.len() };
        prop_assert_eq!([read.as_bytes(), written.as_bytes()].concat(), &message[..end]);
    }
}
