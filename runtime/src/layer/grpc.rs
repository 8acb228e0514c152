//! Refusals of gRPC calls: a status in place of a problem body.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::rate_fields;
use super::reject::Refusal;
use crate::core::error::LockError;

const GRPC: &str = "application/grpc";
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// In milliseconds, when to try again; a negative number means not at all.
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// What a message escapes, besides all that is not ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// Returns true for the requests of gRPC, and not for those of gRPC-Web, whose clients read
/// the status of HTTP.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = content_type.and_then(|text| text.strip_prefix(GRPC.as_bytes()));
    matches!(rest, Some([] | [b'+' | b';' | b' ', ..]))
}

/// Returns true if the headers or the trailers of a response say that a call has failed.
pub(super) fn is_failure(headers: &HeaderMap) -> bool {
    headers.get(STATUS).is_some_and(|status| status != "0")
}

/// The number of a refusal's status.
fn code(refusal: &Refusal) -> u16 {
    const UNKNOWN: u16 = 2;
    const INVALID_ARGUMENT: u16 = 3;
    const DEADLINE_EXCEEDED: u16 = 4;
    const ALREADY_EXISTS: u16 = 6;
    const RESOURCE_EXHAUSTED: u16 = 8;
    const ABORTED: u16 = 10;
    const INTERNAL: u16 = 13;
    const UNAVAILABLE: u16 = 14;
    match refusal {
        Refusal::NoKey(error) if error.is_of_server => INTERNAL,
        Refusal::NoKey(_) | Refusal::NoWeight(_) | Refusal::NoLimit(_) | Refusal::NoOwner(_) => {
            INVALID_ARGUMENT
        }
        Refusal::Held(_) => ABORTED,
        Refusal::Done(_) => ALREADY_EXISTS,
        Refusal::Full(_)
        | Refusal::RateLimited(_)
        | Refusal::Crowded { status: StatusCode::TOO_MANY_REQUESTS, .. } => RESOURCE_EXHAUSTED,
        Refusal::Crowded { .. } | Refusal::Unavailable(_) | Refusal::Closed(_) => UNAVAILABLE,
        // Clients may send an `UNAVAILABLE` call again by themselves.
        Refusal::Lost(_) => UNKNOWN,
        Refusal::TookTooLong => DEADLINE_EXCEEDED,
        Refusal::HeldByItself(_) | Refusal::Misconfigured(_) => INTERNAL,
    }
}

/// A response without a body, whose head has what is otherwise in the trailers.
pub(super) fn response(refusal: &Refusal) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    headers.insert(STATUS, code(refusal).into());
    let message = utf8_percent_encode(&refusal.detail(), ESCAPED).to_string();
    // What is escaped is a header's text.
    headers.extend(message.parse().ok().map(|message: HeaderValue| (MESSAGE, message)));
    let pushback = match refusal.exact_retry_after().or_else(|| refusal.retry_after()) {
        Some(time) => u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX).into(),
        None => HeaderValue::from_static("-1"),
    };
    headers.insert(PUSHBACK, pushback);
    if let Refusal::RateLimited(LockError::RateLimited { key, rate, retry_after }) = refusal {
        rate_fields::add_used_up(headers, key, *rate, *retry_after);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::key::KeyError;

    #[test]
    fn a_call_is_known_by_its_content_type() {
        let of = |text: &'static str| {
            is_grpc(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(text))]))
        };
        for text in ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"]
        {
            assert!(of(text), "{text}");
        }
        for text in ["application/grpc-web", "application/grpc-web+proto", "application/json", ""] {
            assert!(!of(text), "{text}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }

    #[test]
    fn a_message_is_escaped() {
        let response = response(&Refusal::NoKey(KeyError::new("100 % of\n\"ö\"")));
        assert_eq!(
            response.headers()[MESSAGE],
            "The request has no usable key for its limit or lock: 100 %25 of%0A\"%C3%B6\"."
        );
        assert_eq!(response.headers()[STATUS], "3");
        assert_eq!(response.headers()[PUSHBACK], "-1");
    }

    #[test]
    fn the_servers_mistakes_are_not_the_clients() {
        let refusal = Refusal::NoKey(KeyError::of_server("no extension".to_owned()));
        assert_eq!(response(&refusal).headers()[STATUS], "13");
    }
}
