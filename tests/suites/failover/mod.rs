//! A server fails and another takes its place, while many tasks work. No update of a resource that
//! checks tokens is lost, and every waiter is served.

mod cluster;
mod counter;
mod sentinel;
mod slots;
mod ticks;

use std::time::Duration;

use leasehold_tests::server::Server;

use self::counter::Counter;

/// The time after which a master is declared dead.
const DEAD: Duration = Duration::from_secs(1);

/// The longest time from a take-over until the next grant.
const BOUND: Duration = Duration::from_secs(3);

/// The same if the new master does not know that some of its waiters were served and have left. It
/// offers the lock to one of them until that heartbeat ends.
const BOUND_BEHIND: Duration = Duration::from_secs(7);

/// Servers in which a replica takes over from its master.
trait Replicated: Sized {
    async fn start() -> Self;

    fn url(&self) -> String;

    /// The master that keeps the counter's lock.
    async fn master(&self) -> &Server;

    async fn until_replaced(&self, former: &Server);
}

/// A counter goes on while the master of its lock is taken away.
async fn no_update_is_lost<R: Replicated>(take_away: impl AsyncFnOnce(&Server)) {
    let servers = R::start().await;
    let counter = Counter::start(&servers.url()).await;
    let master = servers.master().await;
    take_away(master).await;
    servers.until_replaced(master).await;
    after_another_took_over(counter, BOUND).await;
}

/// The tests that every kind of replicated servers passes.
macro_rules! a_lost_master_costs_no_update {
    ($servers:ty) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn a_master_that_is_killed_costs_no_update() {
            super::no_update_is_lost::<$servers>(async |master| master.kill().await).await;
        }

        /// Its connections stay open, so nothing tells the clients that it is gone.
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn a_master_that_is_frozen_costs_no_update() {
            let mut frozen = None;
            let freeze = async |master: &Server| frozen = Some(master.freeze().await);
            super::no_update_is_lost::<$servers>(freeze).await;
        }
    };
}
use a_lost_master_costs_no_update;

/// Checks after a take-over that all tasks go on and that no update was lost.
async fn after_another_took_over(counter: Counter, bound: Duration) {
    let waited = counter.goes_on(1).await;
    println!("the first grant came {waited:?} after the other had taken over");
    assert!(waited < bound, "{waited:?}");
    counter.goes_on(100).await;
    counter.grows().await;
    counter.all_are_served().await;
    counter.end_exact().await;
}
