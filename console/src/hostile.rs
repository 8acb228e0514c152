//! Addresses and forms that want to be something else.

use proptest::prelude::*;

use super::query::{Query, Way, link};

/// Text that is made of what has a meaning in a URL or a page.
fn text() -> impl Strategy<Value = String> {
    let with_meaning = [
        "&", "=", "+", "%", "%ff", "%00", "?", "#", "/", "//", "..", "\"", "<", "'", " ", "é", "a",
    ];
    let piece = prop_oneof![
        prop::sample::select(with_meaning.to_vec()).prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_parameters_make_it_panic(text in text(), any in any::<String>()) {
        for text in [&text, &any] {
            if let Ok(query) = Query::parse(text) {
                let _ = query.get("name");
            }
        }
    }

    /// A link leads to what it was made for, and nothing in a name ends it.
    #[test]
    fn a_link_leads_to_its_name(name in text(), reason in text()) {
        let link = link("./lock", [("name", (&*name).into()), ("reason", (&*reason).into())]);
        prop_assert!(!link.contains(['"', '<', '>', '\'', ' ', '#']), "{}", link);
        let query = link.split_once('?').map_or("", |(_, query)| query);
        let query = Query::parse(query).expect("it was made here");
        prop_assert_eq!((query.get("name"), query.get("reason")), (&*name, &*reason));
    }

    /// However a page is reached, its links stay on this host.
    #[test]
    fn links_stay_on_this_host(original in text(), inside in text()) {
        let inside = format!("/{}", inside.trim_start_matches('/'));
        for original in [format!("/{original}{inside}"), original, inside.clone()] {
            let way = Way::from(&original, &inside);
            for link in [&way.home, &way.up, &way.of_root().home, &way.of_root().up, &way.of_folder().home] {
                prop_assert!(link.starts_with("./") || link.starts_with("../"), "{}", link);
            }
        }
    }
}
