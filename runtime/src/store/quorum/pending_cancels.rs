//! Cancels that are sent again until the member answers. Without them a server that was
//! silent for a moment would keep a lease that nobody holds, until its TTL.

use std::sync::Arc;

use futures_util::FutureExt;
use tokio::runtime::Handle;

use super::members::Member;
use crate::core::repeats::{Repeating, Repeats, Why};
use crate::store::{Ask, Request};

/// How many cancels are kept for one member. Above that, the oldest lease is left to
/// its TTL.
const MOST: usize = 10_000;

/// Cancels a request on one member, now or when the member answers again.
pub(super) fn cancel_later(member: &Arc<Member>, request: &Request, runtime: &Handle) {
    let end = member.store.now() + request.ttl;
    let mut pending = member.pending_cancels();
    pending.list.push_back((request.clone(), end));
    if pending.list.len() > MOST {
        pending.list.pop_front();
    }
    if !std::mem::replace(&mut pending.is_running, true) {
        runtime.spawn(send_all(member.clone()).boxed());
    }
}

/// Sends one cancel after another until none is left.
async fn send_all(member: Arc<Member>) {
    let (all, mut repeats) = (Repeating::default(), None);
    loop {
        let next = {
            let mut pending = member.pending_cancels();
            let next = pending.list.pop_front();
            pending.is_running = next.is_some();
            next
        };
        let Some((request, end)) = next else { return };
        while member.store.now() < end {
            match member.store.cancel(&request).await {
                Ok(_) => {
                    repeats = None;
                    break;
                }
                Err(error) if error.is_shut_down => return,
                Err(error) => {
                    let repeats = repeats.get_or_insert_with(|| Repeats::new(&all));
                    repeats.pause(Why::of(&error), request.ttl).await;
                }
            }
        }
    }
}
