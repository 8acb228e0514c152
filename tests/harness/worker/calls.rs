//! Requests under a layer in memory, in a process whose instructions are counted.

use std::convert::Infallible;

use http::{Request, Response};
use leasehold::{LockLayer, Locks};
use tower::{Layer, ServiceExt};

use super::Failure;

/// Sends so many requests, one after another, through a layer that is never full.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn under_a_layer(count: usize) -> Result<(), Failure> {
    let handler = tower::service_fn(async |_: Request<String>| {
        Ok::<_, Infallible>(Response::new(String::new()))
    });
    let app = LockLayer::semaphore(&Locks::in_memory(), "calls", 10_000).layer(handler);
    for _ in 0..count {
        let answer = app.clone().oneshot(Request::new(String::new())).await?;
        assert!(answer.status().is_success(), "{}", answer.status());
    }
    Ok(())
}
