//! The end of a lease, and what is kept back until the store has answered it.

use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use super::held::{Boxed, Held};

/// What an HTTP client gets once the lease has ended: its next request then finds the lock free.
pub(super) struct Ending<T>(
    // Never locked: a body that others share by reference is to stay one.
    Mutex<(Option<Boxed<()>>, Option<T>)>,
);

impl<T> Ending<T> {
    /// Begins to end what a request holds, if it holds anything.
    pub(super) fn new(held: Option<Held>, is_success: bool, then: T) -> Self {
        let end = held.and_then(|held| held.end(is_success));
        Self(Mutex::new((end, Some(then))))
    }

    /// Waits for the end of the lease. The store is not waited for longer than a release is.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        let (end, then) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = end {
            ready!(running.as_mut().poll(cx));
            *end = None;
        }
        Poll::Ready(then.take().expect("it is polled until it is ready"))
    }
}
