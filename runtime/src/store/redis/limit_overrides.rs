//! How the limits that operators set are stored: a hash with a field for each.

use std::time::Duration;

use redis::Value;

use super::answer::unreadable;
use crate::core::log_rate::seldom;
use crate::core::system_time::system_time;
use crate::store::{LimitOf, LimitOverride, StoreError};

/// How long limits stay that no process looks at.
pub(super) const KEEP: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The field of a limit.
pub(super) fn field(of: &LimitOf) -> String {
    match of {
        LimitOf::Label(label) => format!("l{label}"),
        LimitOf::Name(name) => format!("n{name}"),
    }
}

/// Reads the hash. What another version may have written is left out.
pub(super) fn read(answer: &Value) -> Result<Vec<LimitOverride>, StoreError> {
    // By RESP3 too, a script's answer is a list.
    let Value::Array(parts) = answer else { return Err(unreadable(answer)) };
    let limits = parts.chunks(2).filter_map(|pair| {
        let read = match pair {
            [Value::BulkString(field), Value::BulkString(value)] => limit(field, value),
            _ => None,
        };
        if read.is_none()
            && let Some(left_out) = seldom("limits", "limits")
        {
            tracing::warn!(
                left_out,
                "an operator's limit is not understood, and has no effect: another version wrote it"
            );
        }
        read
    });
    Ok(limits.collect())
}

fn limit(field: &[u8], value: &[u8]) -> Option<LimitOverride> {
    let (kind, of) = str::from_utf8(field).ok()?.split_at_checked(1)?;
    let of = match kind {
        "l" => LimitOf::Label(of.to_owned()),
        "n" => LimitOf::Name(of.to_owned()),
        _ => return None,
    };
    let (at, rest) = str::from_utf8(value).ok()?.split_once(' ')?;
    let mut lines = rest.splitn(3, '\n');
    let limit = lines.next()?.parse().ok()?;
    let (by, why) = (lines.next()?.to_owned(), lines.next()?);
    let why = (!why.is_empty()).then(|| why.to_owned());
    Some(LimitOverride { of, limit, by, why, at: system_time(at.parse().ok()?) })
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn bulk(text: &[u8]) -> Value {
        Value::BulkString(text.to_vec())
    }

    #[test]
    fn what_was_written_is_read() {
        for of in [LimitOf::Label("a:{b}".into()), LimitOf::Name("l".into())] {
            let pair = vec![bulk(field(&of).as_bytes()), bulk(b"1700000000123 0\nann\n")];
            let limit = read(&Value::Array(pair)).unwrap().remove(0);
            assert_eq!(limit.of, of);
            assert_eq!((limit.limit, &*limit.by, limit.why), (0, "ann", None));
            assert_eq!(limit.at, UNIX_EPOCH + Duration::from_millis(1_700_000_000_123));
        }
        let pair = vec![bulk(b"na"), bulk(b"1 4294967295\nann\nwhy \xc3\xa4")];
        let limit = read(&Value::Array(pair)).unwrap().remove(0);
        assert_eq!((limit.limit, limit.why.as_deref()), (u32::MAX, Some("why ä")));
    }

    #[test]
    fn what_is_not_understood_is_left_out() {
        let good = [bulk(b"na"), bulk(b"1 2\nann\nwhy")];
        for (field, value) in [
            (&b"xa"[..], &b"1 2\nann\nwhy"[..]),
            (b"", b"1 2\nann\nwhy"),
            (b"n\xff", b"1 2\nann\nwhy"),
            (b"na", b""),
            (b"na", b"1"),
            (b"na", b"1 2"),
            (b"na", b"1 2\nann"),
            (b"na", b"1 -2\nann\n"),
            (b"na", b"1 4294967296\nann\n"),
            (b"na", b"x 2\nann\n"),
            (b"na", b"1 2\n\xff\n"),
        ] {
            let both = [&[bulk(field), bulk(value)][..], &good].concat();
            assert_eq!(read(&Value::Array(both)).unwrap().len(), 1, "{field:?} {value:?}");
        }
        assert!(read(&Value::Array(vec![bulk(b"na")])).unwrap().is_empty());
        assert!(read(&Value::Nil).is_err());
    }
}
