//! Offers that the client keeps for a waiter.

use std::sync::Arc;

use super::jobs::Job;
use crate::store::{Ask, Request, Stamp, Store};

/// Lets an offer last until its waiter would count as dead.
pub(super) fn keep(store: Arc<dyn Store>, request: Request, until: Stamp) -> Job {
    Box::pin(async move {
        if let Err(error) = store.keep_offer(&request, until).await {
            let lock = request.key.log_label();
            tracing::debug!(lock, key = %request.key, error = %error.source, "an offer was not kept");
        }
    })
}
