//! Hints on a cluster. A script may publish only into its lock's own slot, so a client
//! subscribes to each lock for as long as it waits, on the master of the slot. A replica takes
//! subscriptions too, but scripts count no receiver there.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{sleep, timeout};

use super::hint_link::{HintLink, News, Tell};
use super::slots;
use super::topology::{Next, Topology, no_slots};
use crate::store::redis::backoff::Backoff;
use crate::store::redis::errors;
use crate::store::redis::hints::HintReceiver;
use crate::store::redis::sync::lock;
use crate::store::{Hint, StoreError, Subscription};

/// How many redirections a subscription follows.
const REDIRECTIONS: usize = 3;

/// A client's subscriptions on a cluster.
pub(super) struct Subscriptions {
    pub(super) hints: Arc<HintReceiver>,
    topology: Arc<Topology>,
    channels: Mutex<HashMap<String, Channel>>,
    /// The last attempt to subscribe failed.
    has_failed: AtomicBool,
    tell: Tell,
}

/// The subscription for one lock.
#[derive(Default)]
struct Channel {
    /// The number of waiters.
    waiters: usize,
    /// The connection that is or may be subscribed. Locked while it changes.
    place: Arc<AsyncMutex<Option<Arc<HintLink>>>>,
}

impl Subscriptions {
    pub(super) fn start(topology: &Arc<Topology>, hints: Arc<HintReceiver>) -> Arc<Self> {
        let all = Arc::new_cyclic(|all: &Weak<Self>| {
            let told = all.clone();
            Self {
                hints,
                topology: topology.clone(),
                channels: Mutex::default(),
                has_failed: AtomicBool::default(),
                tell: Arc::new(move |news| {
                    if let Some(all) = told.upgrade() {
                        all.take(&news);
                    }
                }),
            }
        });
        let (follower, mut changes) = (Arc::downgrade(&all), topology.changes());
        let following = async move {
            while changes.changed().await.is_ok() {
                let Some(all) = follower.upgrade() else { return };
                let names = lock(&all.channels).keys().cloned().collect();
                all.restore(names);
            }
        };
        topology.common.runtime.spawn(following.boxed());
        all
    }

    /// Returns true if hints can be expected.
    pub(super) fn is_open(&self) -> bool {
        !self.has_failed.load(Ordering::Relaxed)
    }

    /// Subscribes a waiter to `channel` with the client's id. It goes on if the future is
    /// dropped.
    pub(super) async fn subscribe(
        self: Arc<Self>,
        channel: String,
    ) -> Result<Subscription, StoreError> {
        let (all, name) = (self.clone(), format!("{channel}{}", self.hints.client));
        let limit = self.limit();
        let subscribing = self.topology.common.runtime.spawn(async move {
            lock(&all.channels).entry(name.clone()).or_default().waiters += 1;
            let subscription = WaiterSubscription { all, name };
            let updating = subscription.all.update(&subscription.name);
            let failed = match timeout(limit, updating).await {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(errors::on_cluster(error)),
                Err(_) => Some(errors::timed_out()),
            };
            subscription.all.has_failed.store(failed.is_some(), Ordering::Relaxed);
            match failed {
                None => Ok(Box::new(subscription) as Subscription),
                Some(error) => Err(error),
            }
        });
        subscribing.await.unwrap_or_else(|_| Err(errors::shutdown()))
    }

    /// Subscribes to a channel that has waiters where its master is, and unsubscribes from one that
    /// has none. Returns true if it has subscribed: what was published before was not heard.
    async fn update(&self, name: &str) -> Result<bool, StoreError> {
        let Some(place) = lock(&self.channels).get(name).map(|it| it.place.clone()) else {
            return Ok(false);
        };
        let mut place = place.lock().await;
        if lock(&self.channels).get(name).is_some_and(|channel| channel.waiters > 0) {
            return self.subscribe_at_master(name, &mut place).await;
        }
        let former = place.take();
        self.forget(name);
        if let Some(link) = former.filter(|link| link.has(name)) {
            link.unsubscribe(name).await.map_err(|error| errors::classify(error).1)?;
        }
        Ok(false)
    }

    async fn subscribe_at_master(
        &self,
        name: &str,
        place: &mut Option<Arc<HintLink>>,
    ) -> Result<bool, StoreError> {
        let slot = slots::of(name.as_bytes());
        let mut master = self.topology.master_of(slot).ok_or_else(no_slots)?;
        for _ in 0..=REDIRECTIONS {
            if place.as_ref().is_some_and(|link| link.address == master.address && link.has(name)) {
                return Ok(false);
            }
            let subscribed = async {
                let link = master.hint_link(self.limit(), &self.tell).await?;
                // If nobody waits for the answer any more, this is still where it is subscribed.
                if let Some(former) = place.replace(link.clone()) {
                    self.leave(former, &link, name);
                }
                link.subscribe(name).await
            };
            let Err(error) = subscribed.await else { return Ok(true) };
            let redirected = self.topology.redirect(slot, &master, &error);
            if !matches!(redirected, Some(Next::Master)) {
                if error.code().is_none() {
                    // Another node may have the slot by now.
                    self.topology.refresh();
                }
                return Err(errors::classify(error).1);
            }
            master = self.topology.master_of(slot).ok_or_else(no_slots)?;
        }
        Err(no_slots())
    }

    /// Ends a subscription that another one replaces.
    fn leave(&self, former: Arc<HintLink>, next: &Arc<HintLink>, name: &str) {
        if !Arc::ptr_eq(&former, next) && former.has(name) {
            let name = name.to_owned();
            let leaving = async move { former.unsubscribe(&name).await };
            self.topology.common.runtime.spawn(leaving.boxed());
        }
    }

    /// How long connecting may take, and each command.
    fn limit(&self) -> Duration {
        self.topology.common.settings.connect_timeout
    }

    /// Forgets a channel, unless a waiter has come.
    fn forget(&self, name: &str) {
        let mut channels = lock(&self.channels);
        if channels.get(name).is_some_and(|channel| channel.waiters == 0) {
            channels.remove(name);
        }
    }

    /// Subscribes again in the background, where that is needed, until it succeeds.
    fn restore(self: &Arc<Self>, mut names: Vec<String>) {
        let all = self.clone();
        let restoring = async move {
            let mut backoff = Backoff::default();
            while !names.is_empty() {
                let updated = join_all(names.iter().map(|name| all.update(name))).await;
                // Of what was published meanwhile, nothing was heard.
                if updated.iter().any(|it| matches!(it, Ok(true))) {
                    all.hints.deliver(Hint::Missed);
                }
                let mut updated = updated.into_iter();
                names.retain(|_| matches!(updated.next(), Some(Err(_))));
                all.has_failed.store(!names.is_empty(), Ordering::Relaxed);
                if !names.is_empty() {
                    sleep(backoff.next()).await;
                }
            }
        };
        self.topology.common.runtime.spawn(restoring.boxed());
    }

    fn take(self: &Arc<Self>, news: &News<'_>) {
        match news {
            News::Message(message) => self.hints.take_message(message),
            // The slot has migrated, or we have unsubscribed.
            News::Unsubscribed(name) => {
                if lock(&self.channels).get(*name).is_some_and(|channel| channel.waiters > 0) {
                    self.restore(vec![(*name).to_owned()]);
                }
            }
            News::Lost => self.restore(lock(&self.channels).keys().cloned().collect()),
        }
    }
}

impl fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriptions").finish_non_exhaustive()
    }
}

/// The subscription of one waiter. The channel's last one unsubscribes when it is dropped.
struct WaiterSubscription {
    all: Arc<Subscriptions>,
    name: String,
}

impl Drop for WaiterSubscription {
    fn drop(&mut self) {
        let left = lock(&self.all.channels).get_mut(&self.name).map_or(0, |channel| {
            channel.waiters = channel.waiters.saturating_sub(1);
            channel.waiters
        });
        if left == 0 {
            let (all, name) = (self.all.clone(), std::mem::take(&mut self.name));
            self.all.topology.common.runtime.spawn(async move {
                if let Err(error) = all.update(&name).await {
                    tracing::debug!(error = %error.source, "failed to unsubscribe from a lock's hints");
                }
            });
        }
    }
}
