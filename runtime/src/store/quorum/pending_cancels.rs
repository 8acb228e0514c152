//! Cancels that are sent again until the member answers. Without them a server that was
//! silent for a moment would keep a lease that nobody holds, until its TTL.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::members::Member;
use crate::store::{Ask, Request};
use crate::system;

/// How many cancels are kept for one member. Above that, the oldest lease is left to
/// its TTL.
const MOST: usize = 10_000;

/// The first pause after a failure, and the longest: each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);

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
    let mut pause = PAUSE;
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
                    pause = PAUSE;
                    break;
                }
                Err(error) if error.is_shut_down => return,
                Err(_) => {
                    sleep(system::equal_jitter(pause)).await;
                    pause = (pause * 2).min(LONGEST);
                }
            }
        }
    }
}
