//! Routes the store's hints: to the acquisition that waits, or to the keeper for a lease.
//!
//! A client has one subscription for all its locks; on a cluster, one for each lock. A *hint*
//! is the store's message. A *route* leads it into a request's *mailbox*. A hint for a request
//! that is gone is dropped. A hint that is lost costs the time until the waiter asks again.
//!
//! If a blocked runtime leaves an offer unread, a *sweeper* asks the store, once, to keep it. A
//! client has one sweeper, and only while there are offers that it has not asked for.

mod limits;
mod missed;
mod recall;
#[cfg(test)]
mod tests;
mod wakeups;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

pub(crate) use self::limits::LimitListener;
use self::limits::LimitReader;
use self::recall::IdleLeases;
pub(crate) use self::recall::RecallListener;
pub(crate) use self::wakeups::Wakeup;
use self::wakeups::Wakeups;
use crate::core::key::LockKey;
use crate::core::sync::lock;
use crate::keeper::Keeper;
use crate::store::{Hint, Listener, Request, RequestId, Stamp};

/// How often the sweeper runs. It keeps an offer that was unread in two runs, which is well
/// before the offer ends.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);

/// The routes of a client.
#[derive(Debug)]
pub(crate) struct HintRouter {
    weak_self: Weak<Self>,
    keeper: Keeper,
    routes: Mutex<Routes>,
    idle: IdleLeases,
    limits: LimitReader,
    jobs: Arc<Wakeups>,
    replaceable: Arc<Wakeups>,
}

#[derive(Debug, Default)]
struct Routes {
    mailboxes: HashMap<RequestId, Arc<Mailbox>>,
    /// A sweeper is running.
    has_sweeper: bool,
}

/// The messages for one acquisition.
#[derive(Debug)]
struct Mailbox {
    request: Request,
    unread: Mutex<Unread>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Unread {
    offer: Option<Offer>,
    /// In how many runs the sweeper has seen this offer.
    times_seen: u8,
    is_free: bool,
    has_missed: bool,
}

/// An offer of the lock to a waiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) token: u64,
    /// The end of the heartbeat that it answers.
    pub(crate) until: Stamp,
    /// By how much sooner than that the offer ends.
    pub(crate) early: Duration,
}

/// A message for a waiter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    Offered(Offer),
    /// The lock may be free.
    Free,
    /// Hints may have been lost.
    Missed,
}

impl HintRouter {
    pub(crate) fn new(keeper: Keeper) -> Arc<Self> {
        Arc::new_cyclic(|weak_self| Self {
            weak_self: weak_self.clone(),
            jobs: Arc::new(Wakeups::new(keeper.clone())),
            replaceable: Arc::new(Wakeups::new(keeper.clone())),
            keeper,
            routes: Mutex::default(),
            idle: IdleLeases::default(),
            limits: LimitReader::default(),
        })
    }

    /// Names who keeps idle leases. There is one for each client.
    pub(crate) fn set_recall_listener(&self, listener: Weak<dyn RecallListener>) {
        self.idle.set(listener);
    }

    /// Names who reads the limits of operators. There is one for each client.
    pub(crate) fn set_limit_listener(&self, listener: Weak<dyn LimitListener>) {
        self.limits.set(listener);
    }

    /// Opens a route for a request. It lasts until it is dropped.
    pub(crate) fn route(self: &Arc<Self>, request: &Request) -> Route {
        let (request, unread, arrived) = (request.clone(), Mutex::default(), Notify::new());
        let mailbox = Arc::new(Mailbox { request, unread, arrived });
        let before = self.routes().mailboxes.insert(mailbox.request.id, mailbox.clone());
        debug_assert!(before.is_none(), "two routes for {:?}", mailbox.request.id);
        Route { hints: self.clone(), mailbox }
    }

    /// Wakes the job of a lock when its work may run again.
    pub(crate) fn job(&self, key: &LockKey) -> Wakeup {
        Wakeup::open(&self.jobs, key)
    }

    /// Wakes the holder of a lock that may be replaced when others want the lock.
    pub(crate) fn replaceable(&self, key: &LockKey) -> Wakeup {
        Wakeup::open(&self.replaceable, key)
    }

    fn deliver(&self, id: RequestId, note: impl FnOnce(&mut Unread)) {
        let mailbox = self.routes().mailboxes.get(&id).cloned();
        if let Some(mailbox) = mailbox {
            note(&mut mailbox.unread());
            mailbox.arrived.notify_one();
        }
    }

    fn offered(&self, id: RequestId, offer: Offer) {
        let mut routes = self.routes();
        let Some(mailbox) = routes.mailboxes.get(&id).cloned() else { return };
        {
            // Noted while the routes are locked: a sweeper that ends has seen it.
            let mut unread = mailbox.unread();
            (unread.offer, unread.times_seen) = (Some(offer), 0);
        }
        let begins = !std::mem::replace(&mut routes.has_sweeper, true);
        drop(routes);
        mailbox.arrived.notify_one();
        if begins {
            self.keeper
                .spawn(sweep(SweeperGuard { hints: self.weak_self.clone(), is_over: false }));
        }
    }

    /// Keeps the offers that were unread in two runs. True if it has to run again.
    fn sweep_once(&self) -> bool {
        let (mut kept, mut are_left) = (Vec::new(), false);
        let mut routes = self.routes();
        for mailbox in routes.mailboxes.values() {
            let mut unread = mailbox.unread();
            // An offer that lasts as long as the heartbeat cannot be kept for longer.
            let Some(offer) = unread.offer.filter(|offer| !offer.early.is_zero()) else { continue };
            unread.times_seen = unread.times_seen.saturating_add(1);
            if unread.times_seen == 2 {
                kept.push((mailbox.request.clone(), offer.until));
            }
            are_left |= unread.times_seen < 2;
        }
        routes.has_sweeper = are_left;
        drop(routes);
        for (request, until) in kept {
            self.keeper.keep_offer(request, until);
        }
        are_left
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        lock(&self.routes)
    }
}

/// Asks the store to keep unread offers, until it has asked for each.
async fn sweep(mut sweeper: SweeperGuard) {
    while !sweeper.is_over {
        sleep(SWEEP_INTERVAL).await;
        let hints = sweeper.hints.upgrade();
        sweeper.is_over = hints.is_none_or(|hints| !hints.sweep_once());
    }
}

/// Lets another sweeper start if this one is dropped with its runtime.
struct SweeperGuard {
    hints: Weak<HintRouter>,
    is_over: bool,
}

impl Drop for SweeperGuard {
    fn drop(&mut self) {
        if let Some(hints) = self.hints.upgrade().filter(|_| !self.is_over) {
            hints.routes().has_sweeper = false;
        }
    }
}

impl Listener for HintRouter {
    fn hear(&self, hint: Hint) {
        match hint {
            Hint::Offered { id, token, until, early } => {
                self.offered(id, Offer { token, until, early });
            }
            Hint::Free { id } => self.deliver(id, |unread| unread.is_free = true),
            Hint::Forced { id } => {
                self.keeper.ask_whether_forced(id);
                self.idle.tell(|idle| idle.forced(id));
            }
            Hint::Recalled { key } => {
                self.replaceable.wake(&key);
                self.idle.tell(|idle| idle.recalled(&key));
            }
            Hint::Missed => {
                self.idle.tell(RecallListener::missed);
                self.limits.tell();
                self.jobs.missed();
                self.replaceable.missed();
                self.miss(|_| true);
                self.keeper.renew_soon();
            }
            Hint::LimitsChanged => self.limits.tell(),
            Hint::RunAgain { key } => self.jobs.wake(&key),
        }
    }
}

impl Mailbox {
    fn unread(&self) -> MutexGuard<'_, Unread> {
        lock(&self.unread)
    }
}

/// A request's end of its route.
#[derive(Debug)]
pub(crate) struct Route {
    hints: Arc<HintRouter>,
    mailbox: Arc<Mailbox>,
}

impl Route {
    /// The next message, also if it arrived earlier. Cancel safe.
    pub(crate) async fn message(&self) -> Message {
        loop {
            {
                let mut unread = self.mailbox.unread();
                if let Some(offer) = unread.offer.take() {
                    return Message::Offered(offer);
                }
                if std::mem::take(&mut unread.is_free) {
                    return Message::Free;
                }
                if std::mem::take(&mut unread.has_missed) {
                    return Message::Missed;
                }
            }
            self.mailbox.arrived.notified().await;
        }
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        // In a process that was forked off, the routes may stay locked.
        if !self.hints.keeper.is_forked() {
            let mailbox = self.hints.routes().mailboxes.remove(&self.mailbox.request.id);
            debug_assert!(mailbox.is_some(), "a route ends twice");
        }
    }
}
