//! Names that want to be another lock's.

use proptest::prelude::*;

use super::*;

/// Names that are made of what has a meaning in a key.
fn name() -> impl Strategy<Value = String> {
    let with_meaning = ["{", "}", "{}", "%", "%7B", "%7D", "%25", "7B", ":", "a", "lock", "é", "*"];
    let piece = prop_oneof![
        prop::sample::select(with_meaning.to_vec()).prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// The key leads back to the name, so no other name has it.
    #[test]
    fn no_two_names_make_one_key(name in name()) {
        let Ok(key) = LockKey::new(&name) else { return Ok(()) };
        let stored = key.in_store("p", "lock");
        let end = stored.strip_prefix("p:lock:").expect("the prefix and the role");
        let read = LockKey::of_stored(end).expect("it was written");
        prop_assert_eq!(read.name(), &name);
        // A cluster takes the slot from what is between the first two braces, if anything is.
        let (_, tag) = end.split_once('{').expect("a brace");
        prop_assert!(tag.find('}').is_some_and(|length| length > 0), "{}", stored);
    }

    #[test]
    fn no_stored_key_makes_it_panic(text in any::<String>(), name in name()) {
        for stored in [&text, &name, &format!("{{{name}}}"), &format!("{{{name}")] {
            if let Some(key) = LockKey::of_stored(stored) {
                prop_assert!(LockKey::new(key.name()).is_ok(), "{:?}", key);
            }
        }
    }

    #[test]
    fn no_name_makes_it_panic(text in any::<String>(), name in name()) {
        for name in [&*text, &*name] {
            if let Ok(key) = name.into_lock_key() {
                prop_assert!(!has_placeholder(key.name()));
            }
        }
    }
}
