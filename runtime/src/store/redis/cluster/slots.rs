//! Slots: which one a key is in, and which masters a node reports for them.

use redis::Value;

/// The number of slots.
pub(super) const COUNT: usize = SLOTS as usize;
const SLOTS: u16 = 16_384;

/// The slot of a key. Only the text in its first braces counts, unless there is none.
pub(super) fn of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let inside = &key[open + 1..];
        let length = inside.iter().position(|byte| *byte == b'}')?;
        (length > 0).then_some(&inside[..length])
    });
    crc16::State::<crc16::XMODEM>::calculate(tag.unwrap_or(key)) % SLOTS
}

/// Consecutive slots, and their master.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) host: String,
    pub(super) port: u16,
}

/// Reads the answer to `CLUSTER SLOTS` of the node at `host`. `None` if it is malformed, or no
/// slot has a master.
pub(super) fn read(answer: &Value, host: &str) -> Option<Vec<Range>> {
    let Value::Array(ranges) = answer else { return None };
    let mut ranges = ranges.iter().map(|it| range(it, host)).collect::<Option<Vec<_>>>()?;
    ranges.sort_unstable();
    (!ranges.is_empty()).then_some(ranges)
}

fn range(range: &Value, own: &str) -> Option<Range> {
    let Value::Array(range) = range else { return None };
    let [first, last, Value::Array(master), ..] = &range[..] else { return None };
    let [host, port, ..] = &master[..] else { return None };
    let number = |value: &Value| match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    };
    let is_slot = |slot: &u16| *slot < SLOTS;
    let host = match host {
        Value::BulkString(host) => str::from_utf8(host).ok()?,
        Value::Nil => "",
        _ => return None,
    };
    Some(Range {
        first: number(first).filter(is_slot)?,
        last: number(last).filter(is_slot)?,
        host: host_or_own(host, own).to_owned(),
        port: number(port)?,
    })
}

/// The host that the node at `own` reports: its own, if it reports an unknown one.
pub(super) fn host_or_own<'a>(host: &'a str, own: &'a str) -> &'a str {
    if matches!(host, "" | "?") { own } else { host }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_in_the_slot_of_its_tag() {
        // As CLUSTER KEYSLOT says.
        for (key, slot) in [
            ("123456789", 12_739),
            ("foo", 12_182),
            ("leasehold:lock:{foo}", 12_182),
            ("{foo}{bar}", 12_182),
            ("a}{foo}", 12_182),
            // Without a tag, the braces count too.
            ("{}foo", 9_500),
            ("{foo", 13_308),
        ] {
            assert_eq!(of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn the_answer_of_a_node_is_read() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let node =
            |host| Value::Array(vec![host, Value::Int(7000), text("id"), Value::Array(vec![])]);
        let range = |first, last, host| {
            Value::Array(vec![
                Value::Int(first),
                Value::Int(last),
                node(host),
                node(text("replica")),
            ])
        };
        let answered = |ranges: Vec<Value>| read(&Value::Array(ranges), "own");
        let two = answered(vec![range(5, 9, text("b")), range(0, 4, text("a"))]).unwrap();
        let of_two = |at: usize| (two[at].first, two[at].last, &*two[at].host, two[at].port);
        assert_eq!((of_two(0), of_two(1)), ((0, 4, "a", 7000), (5, 9, "b", 7000)));
        for unknown in [text(""), text("?"), Value::Nil] {
            assert_eq!(answered(vec![range(0, 4, unknown)]).unwrap()[0].host, "own");
        }
        assert_eq!(answered(vec![]), None);
        for odd in [range(0, 16_384, text("a")), range(-1, 4, text("a")), Value::Int(3)] {
            assert_eq!(answered(vec![odd]), None);
        }
        assert_eq!(read(&Value::Okay, "own"), None);
    }
}
