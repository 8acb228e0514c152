//! A server that is gone, and another in its place, while many work: no update of a
//! resource that checks tokens is lost, and everybody who waits is served.

mod cluster;
mod counter;
mod sentinel;
mod slots;

use std::time::Duration;

use self::counter::Counter;

/// By when a master is held for dead.
const DEAD: Duration = Duration::from_secs(1);

/// From when another has taken over until somebody is granted a lock.
const BOUND: Duration = Duration::from_secs(3);

/// The same where the other knows waiters that are served and gone, and does not know
/// that: one of them is offered the lock, and has it until its heartbeat would end.
const BOUND_BEHIND: Duration = Duration::from_secs(7);

/// Another has taken over: all goes on, and nothing was lost.
async fn after_another_took_over(counter: Counter, bound: Duration) {
    let waited = counter.goes_on(1).await;
    println!("the first grant came {waited:?} after the other had taken over");
    assert!(waited < bound, "{waited:?}");
    counter.goes_on(100).await;
    counter.grows().await;
    counter.all_are_served().await;
    counter.end_exact().await;
}
