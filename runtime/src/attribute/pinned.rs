//! The body of an annotated function.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A pinned body. It is dropped with this value, and so before the lease that it runs
/// under.
pub(super) struct Body<'a, F>(pub(super) Pin<&'a mut Option<F>>);

impl<F: Future> Future for Body<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.0.as_mut().as_pin_mut().expect("it is there until this is dropped").poll(cx)
    }
}

impl<F> Drop for Body<'_, F> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}
