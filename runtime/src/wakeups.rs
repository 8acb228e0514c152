//! Routes what the store tells a client to the acquisition that waits for it, and what
//! concerns a lease to the keeper.
//!
//! One subscription a client, whatever it waits for (on a cluster one a client and
//! lock). A *hint* is what the store says; a *route* leads it to a request, whose
//! *bell* it rings. A hint that nobody waits
//! for any more is dropped; one that never comes costs the time until the
//! waiter asks again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::keeper::Keeper;
use crate::store::{Hint, Listener, RequestId, Stamp};

/// The routes of a client.
#[derive(Debug)]
pub(crate) struct Wakeups {
    keeper: Keeper,
    bells: Mutex<HashMap<RequestId, Arc<Bell>>>,
}

/// What one acquisition is told.
#[derive(Debug, Default)]
struct Bell {
    heard: Mutex<Heard>,
    rung: Notify,
}

#[derive(Debug, Default)]
struct Heard {
    offer: Option<Offer>,
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
pub(crate) enum News {
    Offered(Offer),
    /// It may be free.
    Free,
    /// Something may have been missed.
    Missed,
}

impl Wakeups {
    pub(crate) fn new(keeper: Keeper) -> Self {
        Self { keeper, bells: Mutex::default() }
    }

    /// A route for what concerns a request, from now on until it is dropped.
    pub(crate) fn route(self: &Arc<Self>, id: RequestId) -> Route {
        let bell = Arc::<Bell>::default();
        self.bells().insert(id, bell.clone());
        Route { wakeups: self.clone(), id, bell }
    }

    fn ring(&self, id: RequestId, note: impl FnOnce(&mut Heard)) {
        let bell = self.bells().get(&id).cloned();
        if let Some(bell) = bell {
            note(&mut bell.heard());
            bell.rung.notify_one();
        }
    }

    fn bells(&self) -> MutexGuard<'_, HashMap<RequestId, Arc<Bell>>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Wakeups {
    fn hear(&self, hint: Hint) {
        match hint {
            Hint::Offered { id, token, until, early } => {
                self.ring(id, |heard| heard.offer = Some(Offer { token, until, early }));
            }
            Hint::Free { id } => self.ring(id, |heard| heard.is_free = true),
            Hint::Forced { id } => self.keeper.ask_whether_forced(id),
            Hint::Missed => {
                // Whoever is woken may drop its route at once, which needs the map.
                let bells: Vec<_> = self.bells().values().cloned().collect();
                for bell in bells {
                    bell.heard().has_missed = true;
                    bell.rung.notify_one();
                }
            }
        }
    }
}

impl Bell {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One acquisition's end of a route.
#[derive(Debug)]
pub(crate) struct Route {
    wakeups: Arc<Wakeups>,
    id: RequestId,
    bell: Arc<Bell>,
}

impl Route {
    /// The next that is heard, be it before it was asked for. Safe to drop.
    pub(crate) async fn news(&self) -> News {
        loop {
            {
                let mut heard = self.bell.heard();
                if let Some(offer) = heard.offer.take() {
                    return News::Offered(offer);
                }
                if std::mem::take(&mut heard.is_free) {
                    return News::Free;
                }
                if std::mem::take(&mut heard.has_missed) {
                    return News::Missed;
                }
            }
            self.bell.rung.notified().await;
        }
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        self.wakeups.bells().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::store::ClientId;
    use crate::store::memory::MemoryStore;

    #[tokio::test]
    async fn a_hint_reaches_the_one_it_is_for() {
        let keeper = Keeper::as_guest(Arc::new(MemoryStore::default()));
        let wakeups = Arc::new(Wakeups::new(keeper));
        let (client, counter) = (ClientId::random(), AtomicU64::new(0));
        let early = Duration::ZERO;
        let ids = [(); 2].map(|()| RequestId::next(client, &counter));
        let routes = ids.map(|id| wakeups.route(id));
        wakeups.hear(Hint::Offered { id: ids[1], token: 7, until: 8, early });
        let first = tokio::time::timeout(std::time::Duration::ZERO, routes[0].news()).await;
        assert!(first.is_err());
        assert!(matches!(routes[1].news().await, News::Offered(Offer { token: 7, until: 8, .. })));
        wakeups.hear(Hint::Missed);
        for route in &routes {
            assert!(matches!(route.news().await, News::Missed));
        }
        drop(routes);
        assert!(wakeups.bells().is_empty());
        wakeups.hear(Hint::Offered { id: ids[0], token: 7, until: 8, early });
    }
}
