//! The page about one lock.

use std::time::Duration;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;

use super::chart::{Chart, History};
use super::forced::Taken;
use super::frame::{App, Asked, Frame, advice, html, render, status, store_down};
use super::holders::Line;
use super::limits;
use super::live::{Look, Topic};
use super::query::link;
use super::text::{kind, short, shown};
use leasehold::{LastSuccess, LockError, LockInfo, LockKey, LockKind, Locks};

#[derive(Template)]
#[template(path = "lock.html")]
struct Page<'a> {
    frame: &'a Frame,
    name: String,
    events: String,
    /// The link to the page that takes it; empty in a console that only shows.
    force: String,
    forced: Option<Taken>,
}

#[derive(Template)]
#[template(path = "state.html")]
struct Part {
    state: &'static str,
    kind: &'static str,
    held: u64,
    waiting: u64,
    kept: Option<String>,
    success: Option<String>,
    limit: Option<String>,
    chart: Vec<(&'static str, String)>,
    summary: String,
    top: String,
    holders: Vec<Line>,
    more_holders: u64,
    waiters: Vec<Line>,
    more_waiters: u64,
}

pub(super) async fn page(asked: Asked) -> Response {
    let Asked { app, query, frame, .. } = &asked;
    let name = query.get("name");
    let inspected = match LockKey::new(name) {
        Ok(key) => app.locks.inspect(key).await,
        Err(error) => Err(error),
    };
    let (status, part) = match inspected {
        Ok(info) => (StatusCode::OK, part(&info, &History::default())),
        Err(error @ LockError::InvalidKey { .. }) => {
            let (text, advice) = (error.to_string(), advice(&error));
            return frame.problem(status(&error), "No lock has this name", &text, advice);
        }
        Err(error) => (status(&error), store_down(&error)),
    };
    let query_of = |page| link(page, [("name", name.into())]);
    let forced = app.force.as_ref().and_then(|force| force.taken(query.get("forced"), name));
    let page = Page {
        frame,
        name: shown(name),
        events: query_of("lock-events"),
        force: app.force.as_ref().map(|_| query_of("force")).unwrap_or_default(),
        forced,
    };
    html(status, with_live_part(&render(&page), &part))
}

/// The mark comes from the template alone: text of others has no `<`.
fn with_live_part(page: &str, part: &str) -> String {
    page.replacen("<!--live-->", part, 1)
}

fn part(info: &LockInfo, history: &History) -> String {
    let Chart { lines, top, summary } = history.chart();
    let (holders, waiters) = (Line::holders(info), Line::waiters(info));
    let more = |all: u64, shown: usize| all.saturating_sub(shown as u64);
    render(&Part {
        state: state(info),
        kind: kind(info.kind),
        held: info.held,
        waiting: info.waiting,
        kept: info.kept.map(short),
        success: info.last_success.as_ref().map(success),
        limit: info.limit.as_deref().map(limits::summary),
        chart: lines,
        summary,
        top,
        more_holders: more(info.held, holders.len()),
        holders,
        more_waiters: more(info.waiting, waiters.len()),
        waiters,
    })
}

fn state(info: &LockInfo) -> &'static str {
    match info {
        LockInfo { kind: Some(LockKind::Foreign), .. } => {
            "something else in the store has this name"
        }
        LockInfo { held: 1.., .. } => "held",
        LockInfo { kept: Some(_), .. } => "kept, although nobody holds it",
        LockInfo { waiting: 1.., .. } => "free; the first waiter gets it",
        _ => "free",
    }
}

fn success(success: &LastSuccess) -> String {
    let ago = success.completed.elapsed().unwrap_or_default();
    if success.counts_for > Duration::ZERO {
        return format!("{} ago; it counts for another {}", short(ago), short(success.counts_for));
    }
    format!("{} ago; it counts no longer", short(ago))
}

pub(super) async fn events(asked: Asked) -> Response {
    let App { locks, live, .. } = &*asked.app;
    let key = match LockKey::new(asked.query.get("name")) {
        Ok(key) => key,
        Err(error) => {
            let (text, advice) = (error.to_string(), advice(&error));
            return asked.frame.problem(status(&error), "No lock has this name", &text, advice);
        }
    };
    let topic = Topic::Lock(key.name().to_owned());
    live.stream(locks, topic, || Looks { locks: locks.clone(), key, history: History::default() })
}

struct Looks {
    locks: Locks,
    key: LockKey,
    history: History,
}

impl Look for Looks {
    const PAUSE: Duration = Duration::from_millis(500);

    async fn look(&mut self) -> String {
        match self.locks.inspect(&self.key).await {
            Ok(info) => {
                self.history.add(&info);
                part(&info, &self.history)
            }
            Err(error) => store_down(&error),
        }
    }
}
