//! Taking a lock from its holders: a page to confirm it, and the form that does it.

use askama::Template;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::forced::Taken;
use super::frame::{Asked, Frame, advice, html, render, status};
use super::holders::Line;
use super::query::{Query, link};
use super::text::shown;
use leasehold::{Forced, LockError, LockInfo, LockKey};

/// In bytes.
const LONGEST_REASON: usize = 200;

#[derive(Template)]
#[template(path = "force.html")]
struct Page<'a> {
    frame: &'a Frame,
    name: String,
    /// The name itself, for the form.
    raw: &'a str,
    token: &'a str,
    problem: &'a str,
    held: String,
    holders: Vec<Line>,
    confirm: &'a str,
    reason: &'a str,
    back: String,
}

pub(super) async fn page(asked: Asked) -> Response {
    confirmation(&asked, &asked.query, StatusCode::OK, "").await
}

/// The page to confirm, with what was typed before.
async fn confirmation(asked: &Asked, form: &Query, code: StatusCode, problem: &str) -> Response {
    let Some(force) = &asked.app.force else { return asked.not_found() };
    let name = form.get("name");
    let inspected = match LockKey::new(name) {
        Ok(key) => asked.app.locks.inspect(key).await,
        Err(error) => Err(error),
    };
    let info = match inspected {
        Ok(info) => info,
        Err(error) => return failed(asked, &error),
    };
    let page = Page {
        frame: &asked.frame,
        name: shown(name),
        raw: name,
        token: force.token(),
        problem,
        held: count(&info),
        holders: Line::holders(&info),
        confirm: form.get("confirm"),
        reason: form.get("reason"),
        back: link("lock", [("name", name.into())]),
    };
    html(code, render(&page))
}

fn count(info: &LockInfo) -> String {
    match (info.held, info.holders.len() as u64) {
        (1, _) => "1 holder".to_owned(),
        (all, listed) if all > listed => format!("{all} holders, of whom {listed} are listed,"),
        (all, _) => format!("{all} holders"),
    }
}

fn failed(asked: &Asked, error: &LockError) -> Response {
    let (status, text) = (status(error), error.to_string());
    asked.frame.problem(status, "The lock can't be taken", &text, advice(error))
}

/// Takes the lock, if the form comes from the page above.
pub(super) async fn take(
    asked: Asked,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let Some(force) = &asked.app.force else { return asked.not_found() };
    let refused = |status, text| asked.frame.problem(status, "The form was refused", text, "");
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
    if !force.is_token(form.get("token")) {
        let text = "It is not from this process, or from before its restart. Go back, reload the \
                    page, and send the form again.";
        return refused(StatusCode::FORBIDDEN, text);
    }
    let (name, reason) = (form.get("name"), form.get("reason").trim());
    if !is_confirmed(form.get("confirm"), name) {
        let problem = "The name that you typed is not the name of this lock.";
        return confirmation(&asked, &form, StatusCode::UNPROCESSABLE_ENTITY, problem).await;
    }
    if reason.is_empty() || reason.len() > LONGEST_REASON {
        let problem = "Give a reason of at most 200 bytes. It goes to the log.";
        return confirmation(&asked, &form, StatusCode::UNPROCESSABLE_ENTITY, problem).await;
    }
    let forced = match LockKey::new(name) {
        Ok(key) => asked.app.locks.force_release(key).await,
        Err(error) => Err(error),
    };
    match forced {
        Ok(Forced::Released { held, fence }) => {
            // Debug escapes control characters.
            tracing::warn!(held, %fence, ?reason, "a person took a lock by force in the console");
            tracing::debug!(?name, "the lock that was taken in the console");
            let id = force.keep(Taken { name: name.to_owned(), held, fence });
            let to = link("./lock", [("name", name.into()), ("forced", id.into())]);
            (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
        }
        Ok(Forced::Foreign) => {
            let problem = "Something that is not a lock has this name. Nothing has changed.";
            confirmation(&asked, &form, StatusCode::CONFLICT, problem).await
        }
        Ok(_) => {
            let problem = "Nobody held the lock any more. Nothing has changed.";
            confirmation(&asked, &form, StatusCode::CONFLICT, problem).await
        }
        Err(error) => failed(&asked, &error),
    }
}

/// A name with characters that are not seen can be typed as the page shows it.
fn is_confirmed(typed: &str, name: &str) -> bool {
    let typed = typed.trim();
    !typed.is_empty() && (typed == name.trim() || typed == shown(name).trim())
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
