//! The forms that change something: which of them are refused, and what comes after them.

use std::borrow::Cow;
use std::future::Future;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold::Locks;

use super::app::App;
use super::frame::Asked;
use super::query::Query;
use super::token::Token;

/// A form that changes something, on a page that shows what there is to change.
pub(super) trait Form: 'static {
    /// The page. A browser is sent there when the change is done.
    const PAGE: &'static str;

    /// The secret of the form; `None` in a console that only shows.
    fn token(app: &App) -> Option<&Token>;

    /// Does what a form says, or says what is wrong with it.
    fn change(
        locks: &Locks,
        form: &Query,
    ) -> impl Future<Output = Result<(), Cow<'static, str>>> + Send;

    /// The page, with what was typed before and what is wrong with it.
    fn page(
        asked: &Asked,
        typed: &Query,
        code: StatusCode,
        problem: &str,
    ) -> impl Future<Output = Response> + Send;
}

/// The page with a form. Nothing is typed in it: no link fills it in.
pub(super) async fn page<F: Form>(asked: Asked) -> Response {
    F::page(&asked, &Query::default(), StatusCode::OK, "").await
}

/// Does what a form says, if it comes from its page.
pub(super) async fn post<F: Form>(
    asked: Asked,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let Some(token) = F::token(&asked.app) else { return asked.not_found() };
    let form = match read(&asked, (headers, body), token) {
        Ok(form) => form,
        Err(refused) => return *refused,
    };
    match F::change(&asked.app.locks, &form).await {
        Ok(()) => {
            let to = format!("./{}", F::PAGE);
            (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
        }
        Err(problem) => F::page(&asked, &form, StatusCode::UNPROCESSABLE_ENTITY, &problem).await,
    }
}

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
