//! Routes what the store tells a client to the acquisition that waits for it, and what
//! concerns a lease to the keeper.
//!
//! One subscription a client, whatever it waits for (on a cluster one a client and
//! lock). A *hint* is what the store says; a *route* leads it to a request, whose
//! *bell* it rings. A hint that nobody waits
//! for any more is dropped; one that never comes costs the time until the
//! waiter asks again. An offer that its task does not take, since its runtime is blocked,
//! is kept for it by a sweeper: one a client, that is there while offers lie untaken.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use crate::keeper::Keeper;
use crate::store::{Hint, Listener, Request, RequestId, Stamp};

/// How often the sweeper looks. What lay there at two looks is kept, which is soon enough
/// before an offer ends.
const LOOK: Duration = Duration::from_millis(250);

/// The routes of a client.
#[derive(Debug)]
pub(crate) struct HintRouter {
    me: Weak<Self>,
    keeper: Keeper,
    routes: Mutex<Routes>,
}

#[derive(Debug, Default)]
struct Routes {
    mailboxes: HashMap<RequestId, Arc<Mailbox>>,
    /// The sweeper is there.
    are_swept: bool,
}

/// What one acquisition is told.
#[derive(Debug)]
struct Mailbox {
    request: Request,
    unread: Mutex<Unread>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Unread {
    offer: Option<Offer>,
    /// How often the sweeper has seen that offer.
    looks: u8,
    is_free: bool,
    has_missed: bool,
}

/// The lock was offered to the acquisition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) token: u64,
    pub(crate) until: Stamp,
    /// By how much sooner it ends.
    pub(crate) early: Duration,
}

/// What was heard.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    Offered(Offer),
    /// It may be free.
    Free,
    /// Something may have been missed.
    Missed,
}

impl HintRouter {
    pub(crate) fn new(keeper: Keeper) -> Arc<Self> {
        Arc::new_cyclic(|me| Self { me: me.clone(), keeper, routes: Mutex::default() })
    }

    /// A route for what concerns a request, from now on until it is dropped.
    pub(crate) fn route(self: &Arc<Self>, request: &Request) -> Route {
        let (request, unread, arrived) = (request.clone(), Mutex::default(), Notify::new());
        let mailbox = Arc::new(Mailbox { request, unread, arrived });
        self.routes().mailboxes.insert(mailbox.request.id, mailbox.clone());
        Route { hints: self.clone(), mailbox }
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
            // Noted under the lock: a sweeper that ends has seen it.
            let mut unread = mailbox.unread();
            (unread.offer, unread.looks) = (Some(offer), 0);
        }
        let begins = !std::mem::replace(&mut routes.are_swept, true);
        drop(routes);
        mailbox.arrived.notify_one();
        if begins {
            self.keeper.spawn(sweep(Sweeping { hints: self.me.clone(), is_over: false }));
        }
    }

    /// Keeps the offers that lay there at the last look, and says whether others do.
    fn look(&self) -> bool {
        let (mut kept, mut are_left) = (Vec::new(), false);
        let mut routes = self.routes();
        for mailbox in routes.mailboxes.values() {
            let mut unread = mailbox.unread();
            // One that lasts as long as the heartbeat can't be kept.
            let Some(offer) = unread.offer.filter(|offer| !offer.early.is_zero()) else { continue };
            unread.looks = unread.looks.saturating_add(1);
            if unread.looks == 2 {
                kept.push((mailbox.request.clone(), offer.until));
            }
            are_left |= unread.looks < 2;
        }
        routes.are_swept = are_left;
        drop(routes);
        for (request, until) in kept {
            self.keeper.keep_offer(request, until);
        }
        are_left
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has the offers kept that are not taken, until all are.
async fn sweep(mut sweeping: Sweeping) {
    while !sweeping.is_over {
        sleep(LOOK).await;
        let hints = sweeping.hints.upgrade();
        sweeping.is_over = hints.is_none_or(|hints| !hints.look());
    }
}

/// Lets another sweeper begin where this one is dropped with its runtime.
struct Sweeping {
    hints: Weak<HintRouter>,
    is_over: bool,
}

impl Drop for Sweeping {
    fn drop(&mut self) {
        if let Some(hints) = self.hints.upgrade().filter(|_| !self.is_over) {
            hints.routes().are_swept = false;
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
            Hint::Forced { id } => self.keeper.ask_whether_forced(id),
            Hint::Missed => {
                // Whoever is woken may drop its route at once, which needs the map.
                let mailboxes: Vec<_> = self.routes().mailboxes.values().cloned().collect();
                for mailbox in mailboxes {
                    mailbox.unread().has_missed = true;
                    mailbox.arrived.notify_one();
                }
            }
        }
    }
}

impl Mailbox {
    fn unread(&self) -> MutexGuard<'_, Unread> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One acquisition's end of a route.
#[derive(Debug)]
pub(crate) struct Route {
    hints: Arc<HintRouter>,
    mailbox: Arc<Mailbox>,
}

impl Route {
    /// The next that is heard, be it before it was asked for. Safe to drop.
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
        self.hints.routes().mailboxes.remove(&self.mailbox.request.id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use futures_util::future::join_all;
    use tokio::runtime::{Builder, Handle};
    use tokio::time::timeout;

    use super::*;
    use crate::core::key::LockKey;
    use crate::store::fault_injection::FaultInjector;
    use crate::store::memory::MemoryStore;
    use crate::store::{ClientId, Kind, OFFER};

    /// The routes of some requests, and the store that is told of them.
    fn routes(count: usize) -> (Arc<FaultInjector>, Arc<HintRouter>, Vec<Route>) {
        let store = Arc::new(FaultInjector::over(Arc::<MemoryStore>::default()));
        let hints = HintRouter::new(Keeper::on_callers_runtime(store.clone()));
        let (client, counter) = (ClientId::random(), AtomicU64::new(0));
        let route = |_| {
            let (id, key) = (RequestId::next(client, &counter), LockKey::new("a").unwrap());
            let (kind, ttl) = (Kind::Mutex, Duration::from_secs(30));
            hints.route(&Request { key, id, kind, owner: None, ttl })
        };
        let routes = (0..count).map(route).collect();
        (store, hints, routes)
    }

    fn offer(route: &Route, early: Duration) -> Hint {
        Hint::Offered { id: route.mailbox.request.id, token: 7, until: 8, early }
    }

    #[tokio::test]
    async fn a_hint_reaches_the_one_it_is_for() {
        let (_store, hints, routes) = routes(2);
        let late = offer(&routes[0], Duration::ZERO);
        hints.hear(offer(&routes[1], Duration::ZERO));
        let first = timeout(Duration::ZERO, routes[0].message()).await;
        assert!(first.is_err());
        assert!(matches!(
            routes[1].message().await,
            Message::Offered(Offer { token: 7, until: 8, .. })
        ));
        hints.hear(Hint::Missed);
        for route in &routes {
            assert!(matches!(route.message().await, Message::Missed));
        }
        drop(routes);
        assert!(hints.routes().mailboxes.is_empty());
        hints.hear(late);
    }

    #[tokio::test(start_paused = true)]
    async fn an_offer_is_kept_once_if_it_is_not_taken() {
        let (store, hints, routes) = routes(100);
        let (taken, untaken) = routes.split_at(50);
        // Those of whom the heartbeat ends as soon have nothing to gain.
        let early = |nth| if nth < 10 { Duration::ZERO } else { OFFER };
        for (nth, (taken, untaken)) in taken.iter().zip(untaken).enumerate() {
            hints.hear(offer(taken, OFFER));
            hints.hear(offer(untaken, early(nth)));
            assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
        }
        join_all(taken.iter().map(Route::message)).await;
        sleep(OFFER).await;
        assert_eq!(store.log(), ["keep_offer"; 40]);
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
        // And again, as another offer of theirs.
        hints.hear(offer(&untaken[0], OFFER));
        hints.hear(offer(&taken[0], OFFER));
        taken[0].message().await;
        sleep(OFFER).await;
        assert_eq!(store.log(), ["keep_offer"]);
    }

    #[test]
    fn a_sweeper_that_ended_with_its_runtime_is_followed_by_another() {
        let (store, hints, routes) = routes(1);
        let run = |lasts| {
            let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
            runtime.unwrap().block_on(async {
                hints.hear(offer(&routes[0], OFFER));
                sleep(lasts).await;
            });
        };
        run(Duration::ZERO);
        // Nor does one begin where there is no runtime.
        hints.hear(offer(&routes[0], OFFER));
        assert_eq!(store.log(), [""; 0]);
        run(OFFER);
        assert_eq!(store.log(), ["keep_offer"]);
    }
}
