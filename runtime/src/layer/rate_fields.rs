//! What a response says of the rates of its request: the fields `RateLimit-Policy` and `RateLimit` of
//! the IETF draft <https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/10/>.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::core::key::LockKey;
use crate::core::rate::Rate;
use crate::engine::rate_status::RateStatus;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Says how each rate stands, beside what an inner layer or the handler says.
pub(super) fn add(headers: &mut HeaderMap, rates: &[RateStatus]) {
    for status in rates {
        add_one(headers, status.key(), status.rate(), status.remaining(), status.full_after());
    }
}

/// Says that nothing is left of a rate until then.
pub(super) fn add_used_up(headers: &mut HeaderMap, key: &LockKey, rate: Rate, until: Duration) {
    add_one(headers, key, rate, 0, until);
}

fn add_one(headers: &mut HeaderMap, key: &LockKey, rate: Rate, left: u32, after: Duration) {
    let name = name(key);
    // Both are whole numbers. In a part of a second, it is so many in each second.
    let window = whole_seconds(rate.period());
    let quota = u128::from(rate.count()) * Duration::from_secs(window).as_nanos();
    let quota = quota / rate.period().as_nanos().max(1);
    let after = whole_seconds(after);
    for (field, text) in [
        (POLICY, format!("\"{name}\";q={quota};w={window}")),
        (LIMIT, format!("\"{name}\";r={left};t={after}")),
    ] {
        // A name has nothing that a field can't have.
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.append(field, value);
        }
    }
}

/// The label of a rate, as a string of structured fields has it. Its name may be personal.
fn name(key: &LockKey) -> String {
    let label = key.label().filter(|label| *label != key.name()).unwrap_or("rate");
    let mut text = String::with_capacity(label.len());
    for char in label.chars() {
        match char {
            '"' | '\\' => text.extend(['\\', char]),
            ' '..='~' => text.push(char),
            _ => text.push('?'),
        }
    }
    text
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(name: &str, label: &'static str, rate: Rate, millis: u64) -> [String; 2] {
        let (mut headers, key) = (HeaderMap::new(), LockKey::new(name).unwrap().with_label(label));
        add_used_up(&mut headers, &key, rate, Duration::from_millis(millis));
        [POLICY, LIMIT].map(|field| headers[field].to_str().unwrap().to_owned())
    }

    #[test]
    fn fields_are_structured() {
        let rate = Rate::per_minute(100);
        let told = fields("tenant:acme", "tenant:{id}", rate, 600);
        assert_eq!(told, ["\"tenant:{id}\";q=100;w=60", "\"tenant:{id}\";r=0;t=1"]);
        let rate = Rate::new(5, Duration::from_millis(250));
        let told = fields("a", "\"ü\\", rate, 2001);
        assert_eq!(told, ["\"\\\"?\\\\\";q=20;w=1", "\"\\\"?\\\\\";r=0;t=3"]);
        let told = fields("ann@example.org", "ann@example.org", rate, 0);
        assert_eq!(told[1], "\"rate\";r=0;t=0", "a name may be personal");
    }
}
