//! What every store must do, by capability. One line makes a store take them
//! all; a case that is in no list is dead code, which the lints refuse.

mod core;
mod fence;
mod queue;
mod semaphore;
mod waiting;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use leasehold::LockKey;
use leasehold::store::{Attempt, ClientId, Kind, Request, RequestId};
use leasehold_tests::backend::Backend;

/// A module for a backend, with one test for each case of a suite.
macro_rules! conformance {
    ($backend:ident) => {
        use leasehold_tests::backend::$backend as Store;

        super::core::cases!(crate::conformance::case);
        super::fence::cases!(crate::conformance::case);
        super::queue::cases!(crate::conformance::case);
        super::semaphore::cases!(crate::conformance::case);
        super::waiting::cases!(crate::conformance::case);
    };
}

macro_rules! case {
    ($suite:ident: $($name:ident),* $(,)?) => {
        mod $suite {
            use leasehold_tests::backend::Backend as _;
            $(
                #[tokio::test]
                async fn $name() {
                    let backend = super::Store::start().await;
                    crate::conformance::$suite::$name(&backend).await;
                }
            )*
        }
    };
}
use case;

mod memory {
    conformance!(Memory);
}

#[cfg(feature = "servers")]
mod redis {
    conformance!(Redis);
}

/// Longer than any test: a slow machine must not turn a lease into a lost one.
const LONG: Duration = Duration::from_secs(30);

/// For the cases that are about expiry.
const SHORT: Duration = Duration::from_millis(150);

/// Requests of one client.
struct Client {
    id: ClientId,
    requests: AtomicU64,
}

impl Client {
    fn new() -> Self {
        Self { id: ClientId::random(), requests: AtomicU64::new(0) }
    }

    fn mutex(&self, ttl: Duration) -> Request {
        self.request(Kind::Mutex, ttl)
    }

    fn permit(&self, limit: u32, ttl: Duration) -> Request {
        self.request(Kind::Semaphore { limit, weight: 1 }, ttl)
    }

    fn request(&self, kind: Kind, ttl: Duration) -> Request {
        let id = RequestId::next(self.id, &self.requests);
        Request { key: LockKey::new("a").expect("a name"), id, kind, owner: None, ttl }
    }
}

async fn acquire(backend: &impl Backend, request: &Request) -> Attempt {
    backend.store().acquire(request, None).await.expect("the store answers")
}

/// The token of a request that must be granted.
async fn granted(backend: &impl Backend, request: &Request) -> u64 {
    match acquire(backend, request).await {
        Attempt::Granted { token } => token,
        other => panic!("{other:?}"),
    }
}

/// The time that a request must be told to wait.
async fn busy(backend: &impl Backend, request: &Request) -> Duration {
    match acquire(backend, request).await {
        Attempt::Busy { retry_after, repaired: false } => retry_after,
        other => panic!("{other:?}"),
    }
}
