//! Channels for the client itself.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::{Channel, Subscriptions};
use crate::core::sync::lock;
use crate::store::{Hint, SUBSCRIBING};
use crate::system;

impl Subscriptions {
    /// Subscribes the client itself to a channel, for as long as it lives. It goes on if the future is
    /// dropped.
    pub(in crate::store::redis::cluster) async fn watch(self: Arc<Self>, name: String) {
        match lock(&self.channels).entry(name.clone()) {
            Entry::Occupied(_) => return,
            Entry::Vacant(entry) => {
                entry.insert(Channel { waiters: 1, is_watched: true, ..Channel::default() });
            }
        }
        let all = self.clone();
        let subscribing = self.topology.common.runtime.spawn(async move {
            let begun = system::now();
            match all.update_in_time(&name).await {
                // Its caller has gone on, and takes the client for subscribed.
                Ok(_) if system::since(begun) >= SUBSCRIBING => all.hints.deliver(Hint::Missed),
                Ok(_) => {}
                Err(error) => {
                    // The next call tries again: whoever needs the channel hears that it is due.
                    lock(&all.channels).remove(&name);
                    if error.is_passing {
                        all.hints.deliver(Hint::Missed);
                    }
                }
            }
        });
        let _ = subscribing.await;
    }
}
