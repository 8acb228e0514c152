//! Answers about a lock that no script of ours gives, and some that nearly are ours.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::super::hostile::{digits, value};
use super::*;

fn bulk(bytes: Vec<u8>) -> Value {
    Value::BulkString(bytes)
}

/// A lock's record, or nearly one.
fn record() -> impl Strategy<Value = Value> {
    let token = prop_oneof![
        prop::sample::select(vec!["0000000000000000", "9999999999999999", "-000000000000001"])
            .prop_map(str::to_owned),
        "[0-9]{16}",
    ];
    let parts = (
        prop::sample::select(b"MESRX".to_vec()),
        prop::sample::select(b"HOKFX".to_vec()),
        prop::collection::vec(any::<u8>(), 34),
        token,
        prop::collection::vec(any::<u8>(), 30..60),
    );
    parts.prop_map(|(kind, state, id, token, rest)| {
        bulk([&[kind, state][..], &id, token.as_bytes(), &rest].concat())
    })
}

/// Requests with what is known of them, one after the other.
fn members() -> impl Strategy<Value = Value> {
    let how = prop_oneof![
        Just(Vec::new()),
        "(:[0-9]{0,12}|w|)(@\\PC{0,5})?(\n\\PC{0,5})?".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..20),
    ];
    let id = prop_oneof![9 => Just(34_usize), 1 => 33_usize..36];
    let id = id.prop_flat_map(|length| prop::collection::vec(any::<u8>(), length));
    let member = (id, how, digits())
        .prop_map(|(id, how, digits)| [bulk([id, how].concat()), bulk(digits.into_bytes())]);
    prop::collection::vec(member, 0..3).prop_map(|all| Value::Array(all.concat()))
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::Int),
        digits().prop_map(|digits| bulk(digits.into_bytes())),
    ]
}

fn texts() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "-[0-9]{0,20}".prop_map(String::into_bytes),
        "[0-9]{14}[MSRW][0-9]{0,3}(@a)?".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..60),
    ];
    prop::collection::vec(text, 0..3)
        .prop_map(|all| Value::Array(all.into_iter().map(bulk).collect()))
}

/// The service, the host and the process of a client, or nearly.
fn description() -> impl Strategy<Value = Value> {
    let text = || prop::collection::vec(any::<u8>(), 0..9).prop_map(bulk);
    (text(), text(), prop_oneof![number(), text()], number(), number()).prop_map(
        |(service, host, process, lasts, left)| {
            Value::Array(vec![service, host, process, lasts, left])
        },
    )
}

fn nearly_ours() -> impl Strategy<Value = Value> {
    let done = || "([0-9]{39,90}|\\PC{0,40})".prop_map(|text| bulk(text.into_bytes()));
    let first = (number(), record(), number(), number(), members());
    let then = (number(), members(), texts(), texts(), texts());
    (first, then, (done(), done(), done(), done())).prop_map(
        |(
            (now, record, left, held, holders),
            (waiting, waiters, fields, marks, since),
            (done, runs, again, freed),
        )| {
            Value::Array(vec![
                now, record, left, held, holders, waiting, waiters, fields, marks, since, done,
                runs, again, freed,
            ])
        },
    )
}

/// Or the next test would see nothing.
#[test]
fn some_of_these_answers_are_read() {
    let (mut runner, answers) = (TestRunner::deterministic(), nearly_ours());
    let read = (0..2_000).filter(|_| {
        let answer = answers.new_tree(&mut runner).expect("an answer").current();
        Inspection::read(&answer).is_some()
    });
    assert!(read.count() > 50);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(4_000)))]

    #[test]
    fn no_answer_about_a_lock_makes_it_panic(answer in prop_oneof![nearly_ours(), value()]) {
        let Some(lock) = Inspection::read(&answer) else { return Ok(()) };
        let (clients, named) = (lock.clients(), lock.holders.len() + 1);
        prop_assert!(clients.len() <= named + lock.waiters.len());
        let info = lock.info(&HashMap::new());
        prop_assert!(info.holders.len() <= named);
        let _ = format!("{info:?}");
    }

    #[test]
    fn no_description_of_a_client_makes_it_panic(
        answer in prop_oneof![value(), description()],
        id in any::<[u8; 34]>(),
    ) {
        let id = RequestId::read(&id).expect("its length").client();
        let _ = client(id, &answer);
    }
}
