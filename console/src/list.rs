//! The page with all locks: its rows go out as they are found.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::body::Body;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, timeout_at};

use super::app::App;
use super::down::{Down, advice};
use super::frame::{Asked, Frame, html};
use super::live::{Look, Topic};
use super::query::{Way, link};
use super::search::{Found, KINDS, Search};
use super::text::{ClientText, kind, render, short, shown};
use super::time::Time;
use leasehold::{LockError, LockInfo, LockKey};

/// How long the page waits for its first row. Then its head goes out without one.
const FIRST: Duration = Duration::from_secs(2);
/// How long it then waits for others, to sort them.
const TOGETHER: Duration = Duration::from_millis(50);

#[derive(Template)]
#[template(path = "list.html")]
struct Page<'a> {
    frame: &'a Frame,
    text: &'a str,
    kind: &'static str,
    kinds: [(&'static str, &'static str); KINDS.len()],
    /// The link to the lock that has the search as its name.
    exact: String,
    /// Only the first page is live.
    events: String,
}

#[derive(Template)]
#[template(path = "rows_top.html")]
struct Top;

#[derive(Template)]
#[template(path = "row.html")]
struct Row<'a> {
    up: &'a str,
    key: &'a str,
    link: String,
    name: String,
    kind: &'static str,
    held: String,
    /// The client that has held it for the longest time, and the link to it.
    by: String,
    by_link: String,
    since: Time,
    waiting: u64,
}

#[derive(Template)]
#[template(path = "rows_end.html")]
struct End<'a> {
    error: String,
    advice: &'a str,
    count: usize,
    page: usize,
    is_filtered: bool,
    is_cut: bool,
    previous: String,
    next: String,
}

pub(super) async fn page(asked: Asked) -> Response {
    let search = match Search::of(&asked.query) {
        Ok(search) => search,
        Err(text) => return asked.frame.problem(StatusCode::BAD_REQUEST, "Bad request", &text, ""),
    };
    let is_name = LockKey::new(&search.text).is_ok();
    // The events' own address does not say how the page of a viewer begins.
    let at_root = (asked.frame.way.up != "./").then(|| ("root", "1".into()));
    let is_live = search.page == 1;
    let events = if is_live { search.query_of("list-events", at_root) } else { String::new() };
    let page = render(&Page {
        frame: &asked.frame,
        text: &search.text,
        kind: search.kind,
        kinds: KINDS.map(|(value, title, _)| (value, title)),
        exact: if is_name {
            link("lock", [("name", (&*search.text).into())])
        } else {
            String::new()
        },
        events,
    });
    // The mark comes from the template alone: text of others has no `<`.
    let (before, after) = page.split_once("<!--live-->").unwrap_or_default();

    let way = asked.frame.way.clone();
    let mut found = search.begin(&asked.app.locks);
    let (mut rows, mut ended) = (Vec::new(), None);
    let mut wait = Instant::now() + FIRST;
    // A list that is found at once is sorted. One that takes longer is shown as it comes.
    while let Ok(next) = timeout_at(wait, found.next()).await {
        match next {
            Some(Ok(info)) => {
                wait = wait.min(Instant::now() + TOGETHER);
                rows.push(row(&way.up, info));
            }
            Some(Err(error)) if rows.is_empty() => {
                let topic = topic(&search, &way);
                let (status, part) = asked.app.last.part(&topic, Err(Down::of(&error)));
                return html(status, format!("{before}{part}{after}"));
            }
            next => {
                ended = Some(end(&way.home, &search, &found, next.and_then(Result::err)));
                break;
            }
        }
    }
    let begin = format!("{before}{}{}", render(&Top), sorted(rows));
    let after = after.to_owned();
    let rest = match ended {
        Some(end) => stream::iter([end]).left_stream(),
        None => rest(way, search, found).right_stream(),
    };
    let all = stream::iter([begin]).chain(rest).chain(stream::iter([after]));
    let body = Body::from_stream(all.map(|text| Ok::<_, Infallible>(Bytes::from(text))));
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], body).into_response()
}

/// The rows that are found later, and the end of the table.
fn rest(way: Way, search: Search, found: Found) -> impl futures_util::Stream<Item = String> + Send {
    stream::unfold(Some((way, search, found)), |state| async move {
        let (way, search, mut found) = state?;
        match found.next().await {
            Some(Ok(info)) => Some((row(&way.up, info).1, Some((way, search, found)))),
            next => Some((end(&way.home, &search, &found, next.and_then(Result::err)), None)),
        }
    })
}

fn end(home: &str, search: &Search, found: &Found, error: Option<LockError>) -> String {
    let next = if found.has_more { search.link(home, search.page + 1) } else { String::new() };
    render(&End {
        advice: error.as_ref().map(advice).unwrap_or_default(),
        error: error.map(|error| shown(&error.to_string())).unwrap_or_default(),
        count: found.count(),
        page: search.page,
        is_filtered: search.is_filtered(),
        is_cut: found.has_more,
        previous: search.link(home, search.page - 1),
        next,
    })
}

fn sorted(mut rows: Vec<(String, String)>) -> String {
    rows.sort();
    rows.into_iter().map(|(_, row)| row).collect()
}

/// A lock's name and its row. What else is known of it would need far more memory.
fn row(up: &str, info: LockInfo) -> (String, String) {
    let first = info.longest_holder();
    let client = first.and_then(|holder| holder.client.as_ref());
    let by = client.map(|client| match &*client.host {
        "" => shown(&client.service),
        host => format!("{} on {}", shown(&client.service), shown(host)),
    });
    let since = first.and_then(|holder| holder.held_for);
    let row = render(&Row {
        up,
        key: &info.name,
        link: link("lock", [("name", (&*info.name).into())]),
        name: shown(&info.name),
        kind: kind(info.kind),
        held: match info.kept {
            Some(kept) if info.held == 0 => format!("0, kept for {}", short(kept)),
            _ => info.held.to_string(),
        },
        by: by.unwrap_or_default(),
        by_link: client.map(|client| ClientText::new(client).link).unwrap_or_default(),
        since: since.map_or_else(|| Time::unknown("–"), Time::since),
        waiting: info.waiting,
    });
    (info.name, row)
}

pub(super) async fn events(asked: Asked) -> Response {
    let search = match Search::of(&asked.query) {
        Ok(search) => Search { page: 1, ..search },
        Err(text) => return asked.frame.problem(StatusCode::BAD_REQUEST, "Bad request", &text, ""),
    };
    let way = &asked.frame.way;
    let way = if asked.query.get("root").is_empty() { way.clone() } else { way.of_root() };
    let App { locks, live, .. } = &*asked.app;
    live.stream(locks, topic(&search, &way), || Looks { app: Arc::clone(&asked.app), search, way })
}

fn topic(search: &Search, way: &Way) -> Topic {
    Topic::List(search.clone(), way.clone())
}

struct Looks {
    app: Arc<App>,
    search: Search,
    way: Way,
}

impl Look for Looks {
    const PAUSE: Duration = Duration::from_secs(2);

    async fn look(&mut self) -> String {
        let now = self.now().await.map_err(|error| Down::of(&error));
        self.app.last.part(&topic(&self.search, &self.way), now).1
    }
}

impl Looks {
    async fn now(&self) -> Result<String, LockError> {
        let (mut found, mut rows) = (self.search.begin(&self.app.locks), Vec::new());
        while let Some(next) = found.next().await {
            rows.push(row(&self.way.up, next?));
        }
        let end = end(&self.way.home, &self.search, &found, None);
        Ok(format!("{}{}{end}", render(&Top), sorted(rows)))
    }
}
