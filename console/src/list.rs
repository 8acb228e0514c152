//! The page with all locks: what is wrong first.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use tokio::time::timeout;

use super::app::App;
use super::frame::{Asked, Frame, html};
use super::listing::{self, Listing, Row, Totals};
use super::live::{Look, Topic, rest};
use super::query::{Way, link};
use super::search::{KINDS, ROWS, Search};
use super::sort::{COLUMNS, Sort};
use super::text::{render, short, shown};
use super::time::Time;
use leasehold::LockKey;

/// How long the page waits for the locks. Then its head goes out without them.
const FIRST: Duration = Duration::from_secs(2);

#[derive(Template)]
#[template(path = "list.html")]
struct Page<'a> {
    frame: &'a Frame,
    search: &'a Search,
    kinds: [(&'static str, &'static str); KINDS.len()],
    /// The link to the lock that has the search as its name.
    exact: String,
    /// Only the first page is live.
    events: String,
}

/// The live part.
#[derive(Template)]
#[template(path = "locks.html")]
struct Part<'a> {
    way: &'a Way,
    search: &'a Search,
    listing: &'a Listing,
    totals: &'a Totals,
    columns: Vec<ColumnText>,
    oldest_hold: Option<Most>,
    longest_wait: Option<Most>,
    /// Links; empty if there are no such pages.
    previous: String,
    next: String,
    /// The link to what is wrong first; empty if that is shown.
    trouble: String,
    /// How long the look took and how long the page rests; `None` if neither is felt.
    slow: Option<(String, String)>,
}

struct ColumnText {
    title: &'static str,
    link: String,
    /// For `aria-sort`; empty if the list is not sorted by it.
    direction: &'static str,
}

/// The longest time of all, and the lock that it is of.
struct Most {
    time: Time,
    name: String,
    link: String,
}

impl Most {
    fn of((time, name): &(Duration, String)) -> Self {
        Self { time: Time::since(*time), name: shown(name), link: lock_link(name) }
    }
}

impl Row {
    fn name(&self) -> String {
        shown(&self.key)
    }

    fn link(&self) -> String {
        lock_link(&self.key)
    }
}

fn lock_link(name: &str) -> String {
    link("lock", [("name", name.into())])
}

pub(super) async fn page(asked: Asked) -> Response {
    let search = match Search::of(&asked.query) {
        Ok(search) => search,
        Err(text) => return asked.frame.problem(StatusCode::BAD_REQUEST, "Bad request", &text, ""),
    };
    let way = asked.frame.way.clone();
    let mut events = String::new();
    if search.page == 1 {
        events = search.link("list-events");
        // The events' own address does not say which one of the console's the viewer's page has.
        events.push(if events.contains('?') { '&' } else { '?' });
        events.push_str(if way.up == "./" { "from=folder" } else { "from=root" });
    }
    let is_name = LockKey::new(&search.text).is_ok();
    let page = render(&Page {
        frame: &asked.frame,
        search: &search,
        kinds: KINDS.map(|(value, title, _)| (value, title)),
        exact: if is_name { lock_link(&search.text) } else { String::new() },
        events,
    });
    // The mark comes from the template alone: text of others has no `<`.
    let (before, after) = page.split_once("<!--live-->").unwrap_or_default();
    let (before, after) = (before.to_owned(), after.to_owned());

    let app = Arc::clone(&asked.app);
    let mut looked = Box::pin(async move { look(&app, &search, &way).await });
    if let Ok((status, part)) = timeout(FIRST, &mut looked).await {
        return html(status, before + &part + &after);
    }
    let rest = stream::once(async move { looked.await.1 + &after });
    let all = stream::iter([before]).chain(rest);
    let body = Body::from_stream(all.map(|text| Ok::<_, Infallible>(Bytes::from(text))));
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], body).into_response()
}

/// The live part, and the status of a page that begins with it.
async fn look(app: &App, search: &Search, way: &Way) -> (StatusCode, String) {
    let listing = listing::look(&app.locks, search, app.began).await;
    let html = part(way, search, &listing);
    let now = match listing.down {
        None => Ok(html),
        Some(down) if listing.rows.is_empty() => Err((down, String::new())),
        Some(down) => Err((down, html)),
    };
    app.last.part(&Topic::List(search.clone(), way.clone()), now)
}

fn part(way: &Way, search: &Search, listing: &Listing) -> String {
    let totals = &listing.totals;
    let column = |(column, title, small_first)| ColumnText {
        title,
        link: search.sort_link(&way.home, search.sort.after_click(column)),
        direction: search.sort.direction(column, small_first),
    };
    let has_more = totals.found > (search.page * ROWS) as u64;
    let page_link = |page| search.page_link(&way.home, page);
    let is_default = search.sort == Sort::default();
    let rest = rest(listing.took);
    let is_slow = search.page == 1 && rest > Looks::PAUSE;
    render(&Part {
        way,
        search,
        listing,
        totals,
        columns: COLUMNS.map(column).into(),
        oldest_hold: totals.oldest_hold.as_ref().map(Most::of),
        longest_wait: totals.longest_wait.as_ref().map(Most::of),
        previous: page_link(search.page - 1),
        next: if has_more { page_link(search.page + 1) } else { String::new() },
        slow: is_slow.then(|| (short(listing.took), short(rest))),
        trouble: if is_default {
            String::new()
        } else {
            search.sort_link(&way.home, Sort::default())
        },
    })
}

pub(super) async fn events(asked: Asked) -> Response {
    let search = match Search::of(&asked.query) {
        Ok(search) => Search { page: 1, ..search },
        Err(text) => return asked.frame.problem(StatusCode::BAD_REQUEST, "Bad request", &text, ""),
    };
    let way = &asked.frame.way;
    let way = match asked.query.get("from") {
        "root" => way.of_root(),
        "folder" => way.of_folder(),
        _ => way.clone(),
    };
    let App { locks, live, .. } = &*asked.app;
    let topic = Topic::List(search.clone(), way.clone());
    live.stream(locks, topic, || Looks { app: Arc::clone(&asked.app), search, way })
}

struct Looks {
    app: Arc<App>,
    search: Search,
    way: Way,
}

impl Look for Looks {
    const PAUSE: Duration = Duration::from_secs(2);

    async fn look(&mut self) -> String {
        look(&self.app, &self.search, &self.way).await.1
    }
}
