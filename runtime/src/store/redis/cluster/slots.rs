//! Slots: which one a key is in, and who has them, as a node tells it.

use redis::Value;

/// How many there are.
pub(super) const COUNT: usize = MOST as usize;
const MOST: u16 = 16_384;

/// The slot of a key: of what stands in its first braces, if that is anything.
pub(super) fn of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let inside = &key[open + 1..];
        let length = inside.iter().position(|byte| *byte == b'}')?;
        (length > 0).then_some(&inside[..length])
    });
    crc16::State::<crc16::XMODEM>::calculate(tag.unwrap_or(key)) % MOST
}

/// Slots that are one behind the other, and their master.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) host: String,
    pub(super) port: u16,
}

/// Reads the answer to `CLUSTER SLOTS`, of a node at `host`; nothing if it is none, or no
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
    let is_slot = |slot: &u16| *slot < MOST;
    let host = match host {
        Value::BulkString(host) => str::from_utf8(host).ok()?,
        Value::Nil => "",
        _ => return None,
    };
    Some(Range {
        first: number(first).filter(is_slot)?,
        last: number(last).filter(is_slot)?,
        host: known(host, own).to_owned(),
        port: number(port)?,
    })
}

/// The host that a node at `own` names: itself, if it knows none.
pub(super) fn known<'a>(host: &'a str, own: &'a str) -> &'a str {
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
            // What is no tag is of the key, braces and all.
            ("{}foo", 9_500),
            ("{foo", 13_308),
        ] {
            assert_eq!(of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn what_a_node_says_is_read() {
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
        let told = |ranges: Vec<Value>| read(&Value::Array(ranges), "own");
        let two = told(vec![range(5, 9, text("b")), range(0, 4, text("a"))]).unwrap();
        let of_two = |at: usize| (two[at].first, two[at].last, &*two[at].host, two[at].port);
        assert_eq!((of_two(0), of_two(1)), ((0, 4, "a", 7000), (5, 9, "b", 7000)));
        for unknown in [text(""), text("?"), Value::Nil] {
            assert_eq!(told(vec![range(0, 4, unknown)]).unwrap()[0].host, "own");
        }
        assert_eq!(told(vec![]), None);
        for odd in [range(0, 16_384, text("a")), range(-1, 4, text("a")), Value::Int(3)] {
            assert_eq!(told(vec![odd]), None);
        }
        assert_eq!(read(&Value::Okay, "own"), None);
    }
}
