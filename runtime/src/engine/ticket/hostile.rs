//! Texts that are no tickets, and tickets that nobody has made.

use proptest::prelude::*;

use super::*;
use crate::api::locks::Locks;

fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<u64>().prop_map(|number| number.to_string()),
        (0_u64..100_000).prop_map(|number| number.to_string()),
        prop::sample::select(vec!["", "-", "0", "1", "+1", "-1", "YQ", "YQ==", "é", "S1-", "S0-0"])
            .prop_map(str::to_owned),
        "\\PC{0,6}",
    ]
}

fn encoded() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>().prop_map(|text| URL_SAFE_NO_PAD.encode(text)),
        "[a-z]{1,3}(\n\\PC{0,9})?".prop_map(|text| URL_SAFE_NO_PAD.encode(text)),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(|bytes| URL_SAFE_NO_PAD.encode(bytes)),
        field(),
    ]
}

/// Texts with the right number of fields, most of which are plausible.
fn nearly_a_ticket() -> impl Strategy<Value = String> {
    let kind = prop_oneof!["M|E|R|W|S[0-9]{1,10}-[0-9]{1,10}", field()];
    let id = prop_oneof!["[0-9a-f]{34}", "\\PC{34}", field()];
    let times = (field(), field(), prop_oneof![Just("-".to_owned()), field()]);
    (kind, id, times, "[01]", encoded(), encoded()).prop_map(
        |(kind, id, (ttl, keep, most), renew, owner, name)| {
            format!("{VERSION}.{kind}.{id}.{ttl}.{keep}.{most}.{renew}.{owner}.{name}")
        },
    )
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = text.parse::<Ticket>();
    }

    /// A ticket that is read can be written and read again, and nobody gets a lock by a ticket
    /// that nobody has made.
    #[test]
    fn no_ticket_makes_a_client_panic(text in nearly_a_ticket()) {
        let Ok(ticket) = text.parse::<Ticket>() else { return Ok(()) };
        let written = ticket.to_string();
        let again: Ticket = written.parse().expect("it was written");
        prop_assert_eq!(again.to_string(), written);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let adopted = runtime.expect("a runtime").block_on(async {
            Locks::in_memory().adopt(ticket).await.map(drop)
        });
        prop_assert!(adopted.is_err());
    }
}
