//! Routes, and the sweeper.

use std::sync::atomic::AtomicU64;

use futures_util::future::join_all;
use tokio::runtime::{Builder, Handle};
use tokio::time::timeout;

use super::*;
use crate::core::key::LockKey;
use crate::store::fault_injection::FaultInjector;
use crate::store::memory::MemoryStore;
use crate::store::{ClientId, Kind, OFFER};

/// The routes of some requests, and the store behind them.
fn routes(count: usize) -> (Arc<FaultInjector>, Arc<HintRouter>, Vec<Route>) {
    let store = Arc::new(FaultInjector::over(Arc::<MemoryStore>::default()));
    let hints = HintRouter::new(Keeper::on_callers_runtime(store.clone()));
    let (client, counter) = (ClientId::random(), AtomicU64::new(0));
    let route = |_| {
        let (id, key) = (RequestId::next(client, &counter), LockKey::new("a").unwrap());
        let (kind, ttl) = (Kind::Mutex, Duration::from_secs(30));
        hints.route(&Request { key, id, kind, owner: None, note: None, ttl })
    };
    let routes = (0..count).map(route).collect();
    (store, hints, routes)
}

fn offer(route: &Route, early: Duration) -> Hint {
    Hint::Offered { id: route.mailbox.request.id, token: 7, until: 8, early }
}

#[tokio::test]
async fn a_hint_reaches_its_request() {
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
    // An offer that ends with its heartbeat gains nothing.
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
    // And again for a new offer.
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
    // Where there is no runtime, no sweeper starts.
    hints.hear(offer(&routes[0], OFFER));
    assert_eq!(store.log(), [""; 0]);
    run(OFFER);
    assert_eq!(store.log(), ["keep_offer"]);
}
