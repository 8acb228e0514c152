//! The page with the clients that hold locks, or wait for them.

use std::collections::BTreeMap;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;

use super::frame::{Asked, Frame, html};
use super::scan::Scan;
use super::text::{ClientText, render};
use leasehold::{ClientInfo, LockInfo};

/// How many clients are shown.
const CLIENTS: usize = 500;

#[derive(Template)]
#[template(path = "clients.html")]
struct Page<'a> {
    frame: &'a Frame,
    looked: usize,
    is_cut: bool,
    clients: &'a BTreeMap<ClientText, Count>,
}

/// How many leases a client has, and how many it waits for.
#[derive(Debug, Default)]
struct Count {
    holds: usize,
    waits: usize,
}

pub(super) async fn page(asked: Asked) -> Response {
    let (mut clients, mut scan, mut is_cut) = (BTreeMap::new(), Scan::begin(), false);
    let looked = scan.each(&asked.app.locks, "*", |info| is_cut |= count(&mut clients, &info));
    if let Err(down) = looked.await {
        return asked.frame.store_failed(&down);
    }
    let is_cut = is_cut || scan.is_cut;
    let page = Page { frame: &asked.frame, looked: scan.looked(), is_cut, clients: &clients };
    html(StatusCode::OK, render(&page))
}

/// Counts the clients of a lock. True if it leaves some out.
fn count(clients: &mut BTreeMap<ClientText, Count>, info: &LockInfo) -> bool {
    let mut is_cut = info.held > info.holders.len() as u64;
    is_cut |= info.waiting > info.waiters.len() as u64;
    let mut of = |client: &ClientInfo, count: fn(&mut Count)| {
        let client = ClientText::new(client);
        if clients.len() < CLIENTS || clients.contains_key(&client) {
            count(clients.entry(client).or_default());
        } else {
            is_cut = true;
        }
    };
    for client in info.holders.iter().filter_map(|holder| holder.client.as_ref()) {
        of(client, |count| count.holds += 1);
    }
    for client in info.waiters.iter().filter_map(|waiter| waiter.client.as_ref()) {
        of(client, |count| count.waits += 1);
    }
    is_cut
}
