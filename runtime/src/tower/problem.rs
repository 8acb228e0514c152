//! Problem bodies after RFC 9457.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode, Uri};
use problem_details::{JsonProblemDetails, ProblemDetails};

/// What a problem body says beside the status.
pub(super) struct Problem<'a> {
    /// The last part of its type. Without one, the status says all.
    pub(super) kind: Option<&'a str>,
    pub(super) title: &'a str,
    pub(super) detail: &'a str,
}

/// The page that explains the types. An `http::Uri` has no fragment, so the query names the type.
pub(super) const TYPES: &str =
    "https://docs.rs/leasehold/latest/leasehold/guide/http/index.html?problem=";

/// A response with a problem body after RFC 9457.
pub(super) fn problem(
    status: StatusCode,
    Problem { kind, title, detail }: &Problem<'_>,
    retry_after: Option<Duration>,
) -> Response<Bytes> {
    let members: BTreeMap<_, _> =
        retry_after.map(|time| ("retry_after", time.as_secs())).into_iter().collect();
    let mut details = ProblemDetails::new()
        .with_status(status)
        .with_title(*title)
        .with_detail(*detail)
        .with_extensions(members);
    // A name of ours always makes an address.
    if let Some(uri) = kind.and_then(|kind| Uri::try_from(format!("{TYPES}{kind}")).ok()) {
        details = details.with_type(uri);
    }
    // Strings and numbers can always be written.
    let text = JsonProblemDetails::from(details).to_body_string().unwrap_or_default();
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let json = HeaderValue::from_static(JsonProblemDetails::<()>::CONTENT_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_json_with_its_status_in_it() {
        let problem = |kind, title| Problem { kind, title, detail: "held \"by\" another" };
        let response = super::problem(
            StatusCode::CONFLICT,
            &problem(Some("held"), "Held"),
            Some(Duration::from_secs(3)),
        );
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert_eq!(
            response.body(),
            concat!(
                r#"{"type":"https://docs.rs/leasehold/latest/leasehold/guide/http/index.html"#,
                r#"?problem=held","status":409,"title":"Held","#,
                r#""detail":"held \"by\" another","retry_after":3}"#
            )
        );
        let response = super::problem(StatusCode::CONFLICT, &problem(None, "Conflict"), None);
        assert_eq!(
            response.body(),
            r#"{"status":409,"title":"Conflict","detail":"held \"by\" another"}"#
        );
    }
}
