//! Hints on a cluster. A script may publish only into its lock's own slot, so a client
//! subscribes to each lock for as long as it waits, on the master of the slot. A replica takes
//! subscriptions too, but the scripts on the master do not count them, and take the client for deaf.

mod watched;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use futures_util::future::pending;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::{Mutex as AsyncMutex, Notify, watch};
use tokio::time::{Instant as Timer, sleep, sleep_until, timeout};

use super::hint_link::{HintLink, News, Tell};
use super::slots;
use super::topology::{Next, Topology, no_slots};
use crate::core::sync::lock;
use crate::store::redis::backoff::Backoff;
use crate::store::redis::errors;
use crate::store::redis::hints::HintReceiver;
use crate::store::{Hint, RESUBSCRIBE, StoreError, Subscription};
use crate::system;

/// The shortest pause between two updates of all channels: a server may end each new connection at
/// once.
const PAUSE: Duration = Duration::from_millis(20);

/// How many redirections a subscription follows.
const REDIRECTIONS: usize = 3;

/// A client's subscriptions on a cluster.
pub(super) struct Subscriptions {
    pub(super) hints: Arc<HintReceiver>,
    topology: Arc<Topology>,
    channels: Mutex<HashMap<String, Channel>>,
    /// When an attempt to subscribe failed, if none has succeeded since.
    failed: Mutex<Option<Instant>>,
    /// Notified when a subscription has ended that may be needed.
    restore_needed: Arc<Notify>,
    tell: Tell,
}

/// The subscription for one lock.
#[derive(Default)]
struct Channel {
    /// The number of waiters.
    waiters: usize,
    /// It is for the client itself, and not for the hints of a lock.
    is_watched: bool,
    /// The connection that is or may be subscribed. Locked while it changes.
    place: Arc<AsyncMutex<Option<Arc<HintLink>>>>,
}

/// What an update of a channel has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Updated {
    Nothing,
    Subscribed,
    /// It was subscribed before, or may have been.
    SubscribedAgain,
}

impl Subscriptions {
    pub(super) fn start(topology: &Arc<Topology>, hints: Arc<HintReceiver>) -> Arc<Self> {
        let all = Arc::new_cyclic(|all: &Weak<Self>| {
            let weak = all.clone();
            Self {
                hints,
                topology: topology.clone(),
                channels: Mutex::default(),
                failed: Mutex::default(),
                restore_needed: Arc::default(),
                tell: Arc::new(move |news| {
                    if let Some(all) = weak.upgrade() {
                        all.take(&news);
                    }
                }),
            }
        });
        let restoring =
            restore(Arc::downgrade(&all), topology.changes(), all.restore_needed.clone());
        topology.common.runtime.spawn(restoring.boxed());
        all
    }

    /// Returns true if hints can be expected. If nobody is subscribed, that is tried again some time
    /// after a failure.
    pub(super) fn is_open(&self) -> bool {
        let failed = *lock(&self.failed);
        let are_watched = || lock(&self.channels).values().all(|channel| channel.is_watched);
        failed.is_none_or(|at| system::since(at) >= RESUBSCRIBE && are_watched())
    }

    fn note(&self, has_failed: bool) {
        *lock(&self.failed) = has_failed.then(system::now);
    }

    /// Subscribes a waiter to `channel` with the client's id. It goes on if the future is
    /// dropped.
    pub(super) async fn subscribe(
        self: Arc<Self>,
        channel: String,
    ) -> Result<Subscription, StoreError> {
        let (all, name) = (self.clone(), format!("{channel}{}", self.hints.client));
        let subscribing = self.topology.common.runtime.spawn(async move {
            lock(&all.channels).entry(name.clone()).or_default().waiters += 1;
            let subscription = WaiterSubscription { all, name };
            let updated = subscription.all.update_in_time(&subscription.name).await;
            subscription.all.note(updated.is_err());
            if updated.map_err(errors::on_cluster)? == Updated::SubscribedAgain {
                // Messages of this channel may be lost. All waiters of the client ask: `Missed` names no
                // lock.
                subscription.all.hints.deliver(Hint::Missed);
            }
            Ok(Box::new(subscription) as Subscription)
        });
        subscribing.await.unwrap_or_else(|_| Err(errors::shutdown()))
    }

    /// Does [`update`](Self::update) within the time for connecting and a command.
    async fn update_in_time(&self, name: &str) -> Result<Updated, StoreError> {
        let timed_out = |_| Err(errors::timed_out());
        timeout(2 * self.limit(), self.update(name)).await.unwrap_or_else(timed_out)
    }

    /// Subscribes to a channel that has waiters where its master is, and unsubscribes from one that
    /// has none.
    async fn update(&self, name: &str) -> Result<Updated, StoreError> {
        loop {
            let Some(place) = lock(&self.channels).get(name).map(|it| it.place.clone()) else {
                return Ok(Updated::Nothing);
            };
            let mut link = place.lock().await;
            let waiters = lock(&self.channels)
                .get(name)
                .filter(|channel| Arc::ptr_eq(&channel.place, &place))
                .map(|channel| channel.waiters);
            match waiters {
                // The channel was forgotten meanwhile, and there may be another one.
                None => {}
                Some(0) => {
                    let last = link.take().filter(|link| !link.is_lost());
                    let ended = match last {
                        Some(link) => link.unsubscribe(name).await,
                        None => Ok(()),
                    };
                    self.forget(name);
                    return match ended {
                        Ok(()) => Ok(Updated::Nothing),
                        Err(error) => Err(errors::classify(error).1),
                    };
                }
                Some(_) => return self.subscribe_at_master(name, &mut link).await,
            }
        }
    }

    async fn subscribe_at_master(
        &self,
        name: &str,
        place: &mut Option<Arc<HintLink>>,
    ) -> Result<Updated, StoreError> {
        let slot = slots::of(name.as_bytes());
        let is_again = place.is_some();
        let mut master = self.topology.master_of(slot).ok_or_else(no_slots)?;
        for _ in 0..=REDIRECTIONS {
            if place.as_ref().is_some_and(|link| link.address == master.address && link.has(name)) {
                return Ok(Updated::Nothing);
            }
            let subscribed = async {
                let link = master.hint_link(self.limit(), &self.tell).await?;
                // Before the command is sent: if this future is dropped, the server may still subscribe
                // it here.
                if let Some(former) = place.replace(link.clone()) {
                    self.leave(former, &link, name);
                }
                link.subscribe(name).await
            };
            let Err(error) = subscribed.await else {
                return Ok(if is_again { Updated::SubscribedAgain } else { Updated::Subscribed });
            };
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

    /// Updates all channels. Returns false if that has failed for some.
    async fn update_all(&self) -> bool {
        let name = |(name, channel): (&String, &Channel)| (name.clone(), channel.is_watched);
        let names: Vec<_> = lock(&self.channels).iter().map(name).collect();
        if names.is_empty() {
            return true;
        }
        let update = async |(name, is_watched): &(String, bool)| {
            (*is_watched, self.update_in_time(name).await)
        };
        let updates: FuturesUnordered<_> = names.iter().map(update).collect();
        // In chunks, so that many channels make few messages.
        let mut updates = updates.ready_chunks(names.len());
        // Without a channel of the client itself, there are hints for locks all the same.
        let (mut is_done, mut has_hints) = (true, true);
        while let Some(updated) = updates.next().await {
            is_done &= updated.iter().all(|(_, updated)| updated.is_ok());
            if updated.iter().any(|(is_watched, updated)| !is_watched && updated.is_err()) {
                self.note(true);
                has_hints = false;
            }
            // Messages published meanwhile were missed.
            let answers = updated.iter().filter_map(|(_, updated)| updated.as_ref().ok());
            if answers.into_iter().any(|it| *it != Updated::Nothing) {
                self.hints.deliver(Hint::Missed);
            }
        }
        if has_hints {
            self.note(false);
        }
        is_done
    }

    fn take(&self, news: &News<'_>) {
        match news {
            News::Message(message) => self.hints.take_message(message),
            // The slot has migrated, or this client has unsubscribed.
            News::Unsubscribed(name) => {
                if lock(&self.channels).get(*name).is_some_and(|channel| channel.waiters > 0) {
                    self.restore_needed.notify_one();
                }
            }
            News::Lost => {
                // At once, and not when it is subscribed again: the master may have restarted, and
                // then another client may have what is idle here.
                self.hints.deliver(Hint::Missed);
                self.restore_needed.notify_one();
            }
        }
    }
}

/// Subscribes again whenever that may be needed, until the client is gone. After a failure it retries
/// with a growing pause; a change of the topology or a lost subscription ends the pause.
async fn restore(
    all: Weak<Subscriptions>,
    mut changes: watch::Receiver<()>,
    restore_needed: Arc<Notify>,
) {
    let mut backoff = Backoff::default();
    let mut retry_at = None;
    loop {
        let retry = async {
            match retry_at {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            moved = changes.changed() => if moved.is_err() { return },
            () = restore_needed.notified() => {}
            () = retry => {}
        }
        let Some(all) = all.upgrade() else { return };
        if all.update_all().await {
            (retry_at, backoff) = (None, Backoff::default());
        } else {
            retry_at = Some(Timer::now() + backoff.next());
        }
        drop(all);
        sleep(PAUSE).await;
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
                if let Err(error) = all.update_in_time(&name).await {
                    tracing::debug!(error = %error.source, "failed to unsubscribe from a lock's hints");
                }
            });
        }
    }
}
