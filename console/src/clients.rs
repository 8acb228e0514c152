//! The page with the clients that hold locks, or wait for them.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use tokio::time::{Instant, timeout_at};

use super::down::{advice, status};
use super::frame::{Asked, Frame, html};
use super::text::{ClientText, render};
use leasehold::{ClientInfo, LockInfo};

/// How many locks are looked at, how many clients are shown, and how long it may take.
const LOCKS: usize = 2_000;
const CLIENTS: usize = 500;
const LONGEST: Duration = Duration::from_secs(5);

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
    let (mut list, until) = (asked.app.locks.list("*"), Instant::now() + LONGEST);
    let (mut clients, mut looked, mut is_cut) = (BTreeMap::new(), 0, false);
    loop {
        match timeout_at(until, list.next()).await {
            Ok(None) => break,
            Ok(Some(Ok(info))) if looked < LOCKS => {
                looked += 1;
                is_cut |= count(&mut clients, &info);
            }
            Ok(Some(Err(error))) => {
                let (status, advice) = (status(&error), advice(&error));
                let text = error.to_string();
                return asked.frame.problem(status, "The lock store failed", &text, advice);
            }
            _ => {
                is_cut = true;
                break;
            }
        }
    }
    let page = Page { frame: &asked.frame, looked, is_cut, clients: &clients };
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
