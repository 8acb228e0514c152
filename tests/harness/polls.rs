//! Drops a future at each of its await points.

use std::future::{Future, poll_fn};
use std::task::Poll;

/// Polls a future at most `polls` times and drops it. Returns its output if it was ready by then.
pub async fn drop_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = polls;
    let output = poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    drop(future);
    output
}

/// Polls a future once. True if it is pending.
pub async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    let mut future = std::pin::Pin::new(future);
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}
