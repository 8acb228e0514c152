//! The forms that change something, and which of them are refused.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;

use super::frame::Asked;
use super::query::Query;
use super::token::Token;

/// What came with a request that should be a form.
pub(super) type Sent = (HeaderMap, Result<Bytes, BytesRejection>);

/// The fields of a form that comes from a page of this console, or the page that refuses it.
pub(super) fn read(
    asked: &Asked,
    (headers, body): Sent,
    token: &Token,
) -> Result<Query, Box<Response>> {
    let refused =
        |status, text| Err(Box::new(asked.frame.problem(status, "The form was refused", text, "")));
    if !is_own(&headers, asked.authority.as_deref()) {
        return refused(StatusCode::FORBIDDEN, "It came from another site than this console.");
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "It is not a form.");
    }
    let form = match body {
        Ok(body) => String::from_utf8(body.into()).ok().and_then(|text| Query::parse(&text).ok()),
        Err(error) => {
            return refused(error.status(), "It is too long, or was not sent to its end.");
        }
    };
    let Some(form) = form else {
        return refused(StatusCode::BAD_REQUEST, "Its fields are too long, or not UTF-8.");
    };
    if !token.is(form.get("token")) {
        let text = "It is not from this process, or from before its restart. Go back, reload the \
                    page, and send the form again.";
        return refused(StatusCode::FORBIDDEN, text);
    }
    Ok(form)
}

/// True if a browser sent the request because of a page of the same origin.
///
/// Browsers say so themselves with `Sec-Fetch-Site`, over HTTPS and to localhost. To another host
/// over HTTP they send the origin alone.
fn is_own(headers: &HeaderMap, authority: Option<&str>) -> bool {
    let text = |name| headers.get(name).map(|it| it.to_str().unwrap_or("?"));
    if let Some(site) = text(header::HeaderName::from_static("sec-fetch-site")) {
        return site == "same-origin";
    }
    let origin = text(header::ORIGIN).and_then(|origin| origin.split_once("://"));
    let host = text(header::HOST).or(authority);
    matches!((origin, host), (Some((_, origin)), Some(host)) if origin.eq_ignore_ascii_case(host))
}
