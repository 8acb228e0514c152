//! The page with the limits that operators have set, and the form that changes them.

use std::borrow::Cow;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use leasehold::{LimitHandle, LimitOf, LimitOverride, LockError, LockKey, Locks};

use super::app::App;
use super::down::Down;
use super::form::Form;
use super::frame::{Asked, Frame, html};
use super::query::Query;
use super::text::{reason, render, short, shown};
use super::time::Time;
use super::token::Token;

#[derive(Template)]
#[template(path = "limits.html")]
struct Page<'a> {
    frame: &'a Frame,
    limits: Vec<Row>,
    /// Empty in a console that only shows them.
    token: &'a str,
    problem: &'a str,
    /// What was typed before.
    form: &'a Query,
}

/// A limit, for people.
struct Row {
    limit: u32,
    of: String,
    /// The name or the label itself, for the form.
    raw: String,
    is_label: bool,
    set: Time,
    by: String,
    why: String,
}

impl Row {
    fn of(set: &LimitOverride) -> Self {
        let (raw, is_label) = match &set.of {
            LimitOf::Label(label) => (label.clone(), true),
            LimitOf::Name(name) => (name.clone(), false),
            other => (other.to_string(), false),
        };
        Self {
            limit: set.limit,
            of: shown(&raw),
            raw,
            is_label,
            set: Time::of(set.at),
            by: shown(&set.by),
            why: shown(set.why.as_deref().unwrap_or_default()),
        }
    }
}

/// A limit in one line, for the page about a lock.
pub(super) fn summary(set: &LimitOverride) -> String {
    let limit = if set.limit == 0 { "0, closed".to_owned() } else { set.limit.to_string() };
    let why = reason(set.why.as_deref());
    let (of, by) = (shown(&set.of.to_string()), shown(&set.by));
    let ago = short(set.at.elapsed().unwrap_or_default());
    format!("{limit}, set for {of} by {by} {ago} ago{why}")
}

/// The form that sets and unsets limits.
pub(super) struct Limits;

impl Form for Limits {
    const PAGE: &'static str = "limits";

    fn token(app: &App) -> Option<&Token> {
        app.limits.as_ref()
    }

    async fn change(locks: &Locks, form: &Query) -> Result<(), Cow<'static, str>> {
        changed(locks, form).await
    }

    async fn page(asked: &Asked, typed: &Query, code: StatusCode, problem: &str) -> Response {
        let limits = match asked.app.locks.limits().list().await {
            Ok(limits) => limits,
            Err(error) => return asked.frame.store_failed(&Down::of(&error)),
        };
        let page = Page {
            frame: &asked.frame,
            limits: limits.iter().map(Row::of).collect(),
            token: Self::token(&asked.app).map_or("", Token::text),
            problem: &shown(problem),
            form: typed,
        };
        html(code, render(&page))
    }
}

/// Does what a form says, or says what is wrong with it.
async fn changed(locks: &Locks, form: &Query) -> Result<(), Cow<'static, str>> {
    let said = |error: LockError| Cow::Owned(error.to_string());
    let handle = handle(locks, form).map_err(said)?;
    let (by, why) = (form.get("by").trim(), form.get("why").trim());
    if form.get("do") == "unset" {
        return handle.unset().await.map(drop).map_err(said);
    }
    let limit = form.get("limit").trim().parse();
    let limit = limit.map_err(|_| "The limit is a whole number from 0, such as 4.")?;
    if by.is_empty() || why.is_empty() {
        return Err("Say who sets the limit, and why: whoever is refused reads it.".into());
    }
    let of = form.get("of");
    if form.get("kind") != "label" && of.contains('{') {
        let key = LockKey::new(of).map_err(said)?;
        if locks.inspect(key).await.map_err(said)?.kind.is_none() {
            return Err(
                "No lock has exactly this name. For all names of a template, choose its label."
                    .into(),
            );
        }
    }
    handle.by(by).why(why).set(limit).await.map_err(said)
}

fn handle(locks: &Locks, form: &Query) -> Result<LimitHandle, LockError> {
    let (limits, of) = (locks.limits(), form.get("of"));
    // Exactly that name: the list shows it.
    Ok(if form.get("kind") == "label" { limits.label(of) } else { limits.name(LockKey::new(of)?) })
}
