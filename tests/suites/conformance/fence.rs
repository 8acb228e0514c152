//! Fencing tokens.

use std::time::Duration;

use leasehold::store::Ask;
use leasehold_tests::backend::Backend;

use super::{Client, LONG, SHORT, granted};

macro_rules! cases {
    ($case:path) => {
        $case! {
            fence:
            tokens_grow_across_release,
            tokens_grow_across_expiry,
            a_burst_of_grants_does_not_outrun_the_next_token,
            a_lease_shows_its_token,
        }
    };
}
pub(super) use cases;

pub(super) async fn tokens_grow_across_release(backend: &dyn Backend) {
    let client = Client::new();
    let mut last = 0;
    for _ in 0..100 {
        let request = client.mutex(LONG);
        let token = granted(backend, &request).await;
        assert!(token > last, "{token} after {last}");
        assert!(token < 1 << 53);
        last = token;
        let _ = backend.store().release(&request, Duration::ZERO).await.unwrap();
    }
}

pub(super) async fn tokens_grow_across_expiry(backend: &dyn Backend) {
    let client = Client::new();
    let first = granted(backend, &client.mutex(SHORT)).await;
    backend.pass(SHORT).await;
    assert!(granted(backend, &client.mutex(LONG)).await > first);
}

/// Each grant takes a block of tokens. If it were larger than the clock's step from grant to grant,
/// many grants in a row would get ahead of the clock. After an expiry only the clock is left, and
/// the tokens would go back.
pub(super) async fn a_burst_of_grants_does_not_outrun_the_next_token(backend: &dyn Backend) {
    let client = Client::new();
    for _ in 0..2_000 {
        let request = client.mutex(LONG);
        granted(backend, &request).await;
        let _ = backend.store().release(&request, Duration::ZERO).await.unwrap();
    }
    let last = granted(backend, &client.mutex(SHORT)).await;
    backend.pass(SHORT).await;
    let next = granted(backend, &client.mutex(LONG)).await;
    assert!(next > last, "{next} after {last}");
}

pub(super) async fn a_lease_shows_its_token(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let first = locks.mutex("a").lock().await.unwrap();
    let token = first.fence().unwrap();
    assert_eq!(first.handle().fence().unwrap(), token);
    first.release().await.unwrap();
    let second = locks.mutex("a").lock().await.unwrap();
    assert!(second.fence().unwrap() > token);
    second.release().await.unwrap();
}
