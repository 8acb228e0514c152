//! A lease that may be replaced gives way to whoever waits for its lock.
//!
//! It has the mark of a lease that lingers, so the store sends the message that recalls one. What the
//! store says to the question after it counts, and not the message.

use std::sync::Arc;

use tokio::time::sleep;

use crate::client::Client;
use crate::core::error::LossReason;
use crate::state::lease::LocalLease;
use crate::store::{Ask, Lingering, Store, Usage};

/// Watches a lease until it ends, or until somebody waits for its lock: then it is lost.
pub(super) fn give_way(client: &Client, local: &Arc<LocalLease>) {
    let (store, local) = (client.store.clone(), local.clone());
    let wakeup = client.hints.replaceable(&local.request.key);
    client.keeper.spawn(async move {
        // Where each lock has a channel of its own.
        let _subscription = match store.subscribe(&local.request) {
            Some(subscribing) => subscribing.await.ok(),
            None => None,
        };
        while local.is_held() && !is_wanted(&*store, &local).await {
            tokio::select! {
                () = local.until_not_held() => return,
                () = wakeup.woken() => {}
                // A message may be lost.
                () = sleep(local.request.ttl / 3) => {}
            }
        }
    });
}

/// Returns true if somebody waits, and the lease is lost.
async fn is_wanted(store: &dyn Store, local: &LocalLease) -> bool {
    let Some((_, mut request)) = local.renewal() else { return false };
    if !local.is_renewed() {
        // Not longer than it has; the store takes nothing away.
        request.ttl = local.remaining();
    }
    let is_wanted = match store.linger(&request, Usage::InUse) {
        // If it has ended, the next renewal says how.
        Some(answer) => matches!(answer.await, Ok(Lingering::Wanted)),
        // No message can reach this client now.
        None => store.inspect(&request.key).await.is_ok_and(|lock| lock.waiting > 0),
    };
    if is_wanted {
        tracing::debug!(lock = request.key.log_label(), "a lease gives way to a newer run");
        local.lose(LossReason::Replaced);
    }
    is_wanted
}
