//! The answers for operators as serde writes them: durations as seconds, times of the server's
//! clock as RFC 3339, ids as text, tokens as numbers.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use super::ClientId;
use crate::core::fence::Fence;
use crate::core::limit_override::{LimitOf, LimitOverride};

impl Serialize for ClientId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Serialize for Fence {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(self.get())
    }
}

/// With `label` or `name`, for what it is.
impl Serialize for LimitOverride {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            label: Option<&'a str>,
            name: Option<&'a str>,
            limit: u32,
            by: &'a str,
            why: Option<&'a str>,
            #[serde(serialize_with = "rfc3339")]
            at: SystemTime,
        }
        let (label, name) = match &self.of {
            LimitOf::Label(label) => (Some(&**label), None),
            LimitOf::Name(name) => (None, Some(&**name)),
        };
        let (limit, by, why) = (self.limit, &*self.by, self.why.as_deref());
        Fields { label, name, limit, by, why, at: self.at }.serialize(to)
    }
}

pub(super) fn seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    time.as_secs_f64().serialize(to)
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
pub(super) fn some_seconds<S: Serializer>(
    time: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(to)
}

pub(super) fn rfc3339<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    text(*time).serialize(to)
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
pub(super) fn some_rfc3339<S: Serializer>(
    time: &Option<SystemTime>,
    to: S,
) -> Result<S::Ok, S::Error> {
    time.and_then(text).serialize(to)
}

/// `None` if the time is after the year 9999: someone else has written it.
fn text(time: SystemTime) -> Option<String> {
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_millis(time)).ok().map(|()| text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::system_time::system_time;

    #[test]
    fn a_time_that_has_no_text_is_left_out() {
        assert_eq!(text(system_time(1_500)).as_deref(), Some("1970-01-01T00:00:01.500Z"));
        assert_eq!(text(system_time(u64::MAX)), None);
    }
}
