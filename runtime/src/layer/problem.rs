//! Problem bodies after RFC 9457.

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

/// What a problem body says beside the status.
pub(super) struct Problem<'a> {
    /// The last part of its type.
    pub(super) kind: &'a str,
    pub(super) title: &'a str,
    pub(super) detail: &'a str,
    /// The label of the lock.
    pub(super) lock: Option<&'a str>,
    /// When the client may try again, if that is known more exactly than in seconds.
    pub(super) retry_after: Option<Duration>,
}

/// The page that explains the types. An `http::Uri` has no fragment, so the query names the type.
pub(super) const TYPES: &str =
    "https://docs.rs/leasehold/latest/leasehold/guide/http/index.html?problem=";

/// A response with a problem body after RFC 9457.
pub(super) fn problem(
    status: StatusCode,
    Problem { kind, title, detail, lock, retry_after: exact }: &Problem<'_>,
    retry_after: Option<Duration>,
) -> Response<Bytes> {
    let mut text = String::from("{");
    member(&mut text, "type", &string(&format!("{TYPES}{kind}")));
    member(&mut text, "status", status.as_str());
    member(&mut text, "title", &string(title));
    member(&mut text, "detail", &string(detail));
    if let Some(lock) = lock {
        member(&mut text, "lock", &string(lock));
    }
    if let Some(time) = retry_after {
        member(&mut text, "retry_after", &time.as_secs().to_string());
    }
    if let Some(time) = exact {
        member(&mut text, "retry_after_ms", &time.as_micros().div_ceil(1000).to_string());
    }
    text.push('}');
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn member(text: &mut String, name: &str, value: &str) {
    if text.len() > 1 {
        text.push(',');
    }
    // A string takes every text.
    let _ = write!(text, "\"{name}\":{value}");
}

/// A string of JSON. A library for six members would bring six crates.
fn string(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for each in text.chars() {
        match each {
            '"' | '\\' => json.extend(['\\', each]),
            '\0'..='\x1f' => {
                let _ = write!(json, "\\u{:04x}", u32::from(each));
            }
            _ => json.push(each),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_json_with_its_status_in_it() {
        let problem = |lock| Problem {
            kind: "held",
            title: "Held",
            detail: "held \"by\" another",
            lock,
            retry_after: None,
        };
        let response = super::problem(
            StatusCode::CONFLICT,
            &problem(Some("held")),
            Some(Duration::from_secs(3)),
        );
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert_eq!(
            response.body(),
            concat!(
                r#"{"type":"https://docs.rs/leasehold/latest/leasehold/guide/http/index.html"#,
                r#"?problem=held","status":409,"title":"Held","#,
                r#""detail":"held \"by\" another","lock":"held","retry_after":3}"#
            )
        );
        let response = super::problem(StatusCode::CONFLICT, &problem(None), None);
        let text = std::str::from_utf8(response.body()).unwrap();
        assert!(text.ends_with(r#""detail":"held \"by\" another"}"#), "{text}");
    }

    #[test]
    fn any_text_becomes_a_string_of_json() {
        assert_eq!(
            string("a\"b\\c\n\u{1f}\u{7f}é\u{2028}"),
            "\"a\\\"b\\\\c\\u000a\\u001f\u{7f}é\u{2028}\""
        );
    }
}
