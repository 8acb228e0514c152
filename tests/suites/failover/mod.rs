//! A server that is gone, and another in its place, while many work: no update of a
//! resource that checks tokens is lost, and everybody who waits is served.

mod cluster;
mod counter;
mod slots;

use std::time::Duration;

/// By when a master is held for dead.
const DEAD: Duration = Duration::from_secs(1);

/// From when another has taken over until somebody is granted a lock.
const BOUND: Duration = Duration::from_secs(3);
