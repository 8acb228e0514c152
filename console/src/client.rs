//! The page of one client: the locks that it holds, and those that it waits for.

use std::cmp::Reverse;
use std::time::Duration;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;

use super::frame::{Asked, Frame, html};
use super::holders::Line;
use super::query::link;
use super::scan::Scan;
use super::text::{ClientText, render, shown};
use leasehold::{ClientInfo, LockInfo};

/// How many leases and requests are shown: those that are the oldest.
const ROWS: usize = 500;

#[derive(Template)]
#[template(path = "one_client.html")]
struct Page<'a> {
    frame: &'a Frame,
    id: String,
    /// `None` if it holds nothing and waits for nothing.
    client: Option<ClientText>,
    looked: usize,
    is_cut: bool,
    rows: Vec<Row>,
}

/// A lease, or a request that waits.
struct Row {
    /// By this they are sorted: leases first, the oldest first.
    rank: (bool, Reverse<Duration>),
    client: ClientText,
    name: String,
    link: String,
    line: Line,
}

pub(super) async fn page(asked: Asked) -> Response {
    let (id, mut scan, mut rows) = (asked.query.get("id"), Scan::begin(), Vec::new());
    let mut is_cut = false;
    let looked = scan.each(&asked.app.locks, "*", |info| {
        is_cut |= info.held > info.holders.len() as u64;
        is_cut |= info.waiting > info.waiters.len() as u64;
        rows.extend(rows_of(&info, id));
    });
    if let Err(down) = looked.await {
        return asked.frame.store_failed(&down);
    }
    rows.sort_by_key(|row| row.rank);
    is_cut |= scan.is_cut || rows.len() > ROWS;
    rows.truncate(ROWS);
    let page = Page {
        frame: &asked.frame,
        id: shown(id),
        client: rows.first().map(|row| row.client.clone()),
        looked: scan.looked(),
        is_cut,
        rows,
    };
    html(StatusCode::OK, render(&page))
}

/// What a client has to do with a lock.
fn rows_of(info: &LockInfo, id: &str) -> Vec<Row> {
    let is_it = |client: &&ClientInfo| client.id.to_string() == id;
    let row = |waits, time, client: &ClientInfo, line| Row {
        rank: (waits, Reverse(time)),
        client: ClientText::new(client),
        name: shown(&info.name),
        link: link("lock", [("name", (&*info.name).into())]),
        line,
    };
    let holds = info.holders.iter().filter_map(|holder| {
        let client = holder.client.as_ref().filter(is_it)?;
        let line = Line::holder(info.kind, holder);
        Some(row(false, holder.held_for.unwrap_or_default(), client, line))
    });
    let waits = info.waiters.iter().filter_map(|waiter| {
        let client = waiter.client.as_ref().filter(is_it)?;
        Some(row(true, waiter.waiting_for, client, Line::waiter(info.kind, waiter)))
    });
    holds.chain(waits).collect()
}
