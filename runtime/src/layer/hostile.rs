//! Requests and templates that want to be something else.

use http::{HeaderValue, Request};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};
use proptest::prelude::*;

use super::grpc;
use super::key::{KeyError, RequestKey};
use super::reject::Refusal;
use super::request_values::RequestValues;
use super::template::{Piece, any_source, has_source, pieces};
use super::template_key::template_key;

/// Text that is made of what has a meaning in a template, a URL or a key.
fn text() -> impl Strategy<Value = String> {
    let with_meaning = [
        "{",
        "}",
        "{{",
        "}}",
        "{header:x}",
        "{query:a}",
        "{peer}",
        "%",
        "%7B",
        "%ff",
        "&",
        "=",
        "+",
        "a",
        ":",
        "/",
        "?",
        "#",
        " ",
        "é",
    ];
    let piece = prop_oneof![
        prop::sample::select(with_meaning.to_vec()).prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..20)
}

/// The name that a header and a parameter of the query make.
fn key(header: &HeaderValue, query: &str) -> Option<String> {
    let source = template_key("k:{header:x}:{query:a}");
    let request = Request::get(format!("/?a={query}")).header("x", header).body(()).ok()?;
    let key = source.lock_key(&mut request.into_parts().0).ok()??;
    Some(key.name().to_owned())
}

proptest! {
    #[test]
    fn no_template_makes_it_panic(template in text()) {
        // A template lives as long as the program.
        let template: &'static str = Box::leak(template.into_boxed_str());
        let _ = has_source(template);
        if let Ok(pieces) = pieces(template, any_source) {
            let is_empty = |piece: &Piece| matches!(piece, Piece::Text(text) if text.is_empty());
            prop_assert!(!pieces.iter().any(is_empty));
        }
    }

    /// Doubled braces are text, whatever is between them.
    #[test]
    fn escaped_text_has_no_values(text in text()) {
        let escaped = text.replace('{', "{{").replace('}', "}}");
        let escaped: &'static str = Box::leak(escaped.into_boxed_str());
        let read = pieces(escaped, any_source).expect("it has no values");
        let read: Option<String> = read
            .into_iter()
            .map(|piece| if let Piece::Text(text) = piece { Some(text) } else { None })
            .collect();
        prop_assert_eq!(read, Some(text));
    }

    #[test]
    fn a_parameter_is_read_as_it_was_meant(value in text(), before in "[!-~]{0,20}") {
        let encoded = utf8_percent_encode(&value, NON_ALPHANUMERIC);
        let before = before.replace(['?', '#', '&', '=', '%', '+'], "");
        let Ok(request) = Request::get(format!("/{before}?{before}&a={encoded}")).body(()) else {
            return Ok(());
        };
        let mut parts = request.into_parts().0;
        let is_there_twice = before == "a";
        let read = RequestValues::new(&mut parts).query("a");
        prop_assert_eq!(read.ok(), Some(value).filter(|_| !is_there_twice));
    }

    #[test]
    fn no_request_makes_it_panic(
        query in "([!-~]{0,9}&)?a=[!-~]{0,40}|[!-~]{0,40}",
        header in prop_oneof!["[ -~]{0,20}".prop_map(String::into_bytes), bytes()],
    ) {
        if let Ok(header) = HeaderValue::from_bytes(&header) {
            let _ = key(&header, &query);
        }
    }

    /// No client can choose its values so that they make the key of others.
    #[test]
    fn no_two_requests_make_one_key(
        headers in prop::array::uniform2("[:%7BA-]{1,4}"),
        values in prop::array::uniform2(prop_oneof![text(), "[:%7BA-]{1,4}"]),
    ) {
        let encoded = values.map(|value| utf8_percent_encode(&value, NON_ALPHANUMERIC).to_string());
        let keys: Vec<_> = headers
            .iter()
            .zip(&encoded)
            .map(|(header, value)| key(&HeaderValue::from_str(header).expect("ASCII"), value))
            .collect();
        let is_same = headers[0] == headers[1] && encoded[0] == encoded[1];
        if let [Some(one), Some(other)] = &keys[..] {
            prop_assert_eq!(one == other, is_same, "{} {}", one, other);
        }
    }

    /// A message goes into a header, whatever it says, and comes out as it was.
    #[test]
    fn a_grpc_message_arrives(text in text()) {
        let refusal = Refusal::NoKey(KeyError::new(text));
        let response = grpc::response(&refusal);
        let message = response.headers()["grpc-message"].as_bytes();
        let read = percent_decode(message).decode_utf8().expect("UTF-8");
        prop_assert_eq!(&*read, refusal.detail());
    }
}
