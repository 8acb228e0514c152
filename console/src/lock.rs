//! The page about one lock.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use tokio::time::timeout;

use super::app::App;
use super::chart::{Chart, History};
use super::down::{Down, advice, status};
use super::forced::Taken;
use super::frame::{Asked, Frame, html};
use super::holders::Line;
use super::limits;
use super::live::{Look, Topic};
use super::query::link;
use super::text::{counted, kind, permits, reason, render, short, shown};
use super::time::Time;
use leasehold::{ForcedBy, LastSuccess, LockError, LockInfo, LockKey, LockKind};

#[derive(Template)]
#[template(path = "lock.html")]
struct Page<'a> {
    frame: &'a Frame,
    name: String,
    events: String,
    forced: Option<Taken>,
}

/// The link to the page that takes the lock.
#[derive(Template)]
#[template(path = "take.html")]
struct Take<'a> {
    link: String,
    /// Empty if something can be taken.
    why_not: &'a str,
}

#[derive(Template)]
#[template(path = "state.html")]
struct Part {
    state: &'static str,
    kind: &'static str,
    held: u64,
    waiting: u64,
    kept: Option<Time>,
    /// When it was, and for how long it counts.
    success: Option<(Time, String)>,
    permits: Option<String>,
    limit: Option<String>,
    /// When it was last taken by force, and by whom.
    taken: Option<(Time, String)>,
    clock_behind: Option<String>,
    chart: Vec<(&'static str, String)>,
    summary: String,
    top: String,
    half: String,
    holders: Vec<Line>,
    more_holders: u64,
    waiters: Vec<Line>,
    more_waiters: u64,
}

/// A lock that has not answered for so long is one of a store that does not answer.
const LONGEST: Duration = Duration::from_secs(3);

pub(super) async fn page(asked: Asked) -> Response {
    let Asked { app, query, frame, .. } = &asked;
    let key = match LockKey::new(query.get("name")) {
        Ok(key) => key,
        Err(error) => return no_such_name(frame, &error),
    };
    let (status, part) = look(app, &key, &mut History::default()).await;
    let name = key.name();
    let forced = app.force.as_ref().and_then(|force| force.taken(query.get("forced"), name));
    let events = link("lock-events", [("name", name.into())]);
    let page = Page { frame, name: shown(name), events, forced };
    html(status, with_live_part(&render(&page), &part))
}

fn no_such_name(frame: &Frame, error: &LockError) -> Response {
    frame.problem(status(error), "No lock has this name", &error.to_string(), advice(error))
}

/// The live part of the page, and the status of a page that begins with it.
async fn look(app: &App, key: &LockKey, history: &mut History) -> (StatusCode, String) {
    let info = match timeout(LONGEST, app.locks.inspect(key)).await {
        Ok(info) => info.map_err(|error| Down::of(&error)),
        Err(_) => Err(Down::silent(LONGEST)),
    };
    let take = if app.force.is_some() { take(key.name(), &info) } else { String::new() };
    let now = info.map(|info| {
        history.add(&info);
        part(&info, history)
    });
    let now = now.map_err(|down| (down, String::new()));
    let (status, html) = app.last.part(&Topic::Lock(key.name().to_owned()), now);
    (status, html + &take)
}

fn take(name: &str, info: &Result<LockInfo, Down>) -> String {
    let why_not = match info {
        Err(_) => "Nothing can be taken: the lock store does not answer.",
        Ok(LockInfo { held: 0, kept: None, .. }) => "Nobody holds it: there is nothing to take.",
        Ok(_) => "",
    };
    render(&Take { link: link("force", [("name", name.into())]), why_not })
}

/// The mark comes from the template alone: text of others has no `<`.
fn with_live_part(page: &str, part: &str) -> String {
    page.replacen("<!--live-->", part, 1)
}

fn part(info: &LockInfo, history: &History) -> String {
    let Chart { lines, top, half, summary } = history.chart();
    let (holders, waiters) = (Line::holders(info), Line::waiters(info));
    let more = |all: u64, shown: usize| all.saturating_sub(shown as u64);
    render(&Part {
        state: state(info),
        kind: kind(info.kind),
        held: info.held,
        waiting: info.waiting,
        kept: info.kept.map(Time::until),
        success: info.last_success.as_ref().map(success),
        permits: permits(info),
        limit: info.limit.as_deref().map(limits::summary),
        taken: info.last_forced.as_deref().map(taken),
        clock_behind: info.clock_behind.map(short),
        chart: lines,
        summary,
        top,
        half,
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

fn taken(forced: &ForcedBy) -> (Time, String) {
    let why = reason(forced.why.as_deref());
    let from = counted(forced.held, "holder");
    (Time::of(forced.at), format!("from {from}, by {}{why}", shown(&forced.by)))
}

fn success(success: &LastSuccess) -> (Time, String) {
    let counts = if success.counts_for > Duration::ZERO {
        format!("it counts for another {}", short(success.counts_for))
    } else {
        "it counts no longer".to_owned()
    };
    (Time::of(success.completed), counts)
}

pub(super) async fn events(asked: Asked) -> Response {
    let key = match LockKey::new(asked.query.get("name")) {
        Ok(key) => key,
        Err(error) => return no_such_name(&asked.frame, &error),
    };
    let App { locks, live, .. } = &*asked.app;
    let topic = Topic::Lock(key.name().to_owned());
    let looks = || Looks { app: Arc::clone(&asked.app), key, history: History::default() };
    live.stream(locks, topic, looks)
}

struct Looks {
    app: Arc<App>,
    key: LockKey,
    history: History,
}

impl Look for Looks {
    const PAUSE: Duration = Duration::from_millis(500);

    async fn look(&mut self) -> String {
        look(&self.app, &self.key, &mut self.history).await.1
    }
}
