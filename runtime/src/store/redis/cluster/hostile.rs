//! Reports of slots that no node gives.

use proptest::prelude::*;
use redis::Value;

use super::super::hostile::value;
use super::slots::{COUNT, read};

fn number() -> impl Strategy<Value = Value> {
    let near = prop::sample::select(vec![-1, 0, 1, 16_383, 16_384, 65_535, 65_536]);
    let number = prop_oneof![4 => 0_i64..16_384, 1 => near, 1 => any::<i64>()];
    prop_oneof![19 => number.prop_map(Value::Int), 1 => value()]
}

fn node() -> impl Strategy<Value = Value> {
    let host = prop_oneof![
        9 => "[a-c?]?".prop_map(|host| Value::BulkString(host.into_bytes())),
        1 => Just(Value::Nil),
        1 => value(),
    ];
    let node = (host, number(), prop::collection::vec(value(), 0..2));
    node.prop_map(|(host, port, rest)| Value::Array([host, port].into_iter().chain(rest).collect()))
}

fn report() -> impl Strategy<Value = Value> {
    let range = (number(), number(), prop::collection::vec(node(), 0..3)).prop_map(
        |(first, last, nodes)| Value::Array([first, last].into_iter().chain(nodes).collect()),
    );
    let range = prop_oneof![19 => range, 1 => value()];
    prop_oneof![9 => prop::collection::vec(range, 0..4).prop_map(Value::Array), 1 => value()]
}

proptest! {
    #[test]
    fn no_report_makes_it_panic(report in report()) {
        let Some(ranges) = read(&report, "own") else { return Ok(()) };
        let Value::Array(reported) = &report else { unreachable!("it was read") };
        prop_assert_eq!(ranges.len(), reported.len());
        prop_assert!(!ranges.is_empty() && ranges.is_sorted());
        for range in ranges {
            prop_assert!(usize::from(range.first.max(range.last)) < COUNT);
            prop_assert!(!matches!(&*range.host, "" | "?"));
        }
    }
}
