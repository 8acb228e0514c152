//! A request that waits for its lock, and the service that is to get it.

use std::task::Context;

use http::Request;

use super::read_ahead::ReadAhead;

pub(super) struct Call<S, A> {
    inner: S,
    request: Request<A>,
    /// Its body, once it had to wait.
    ahead: Option<Box<ReadAhead>>,
}

impl<S, A: 'static> Call<S, A> {
    pub(super) fn new(inner: S, request: Request<A>) -> Self {
        Self { inner, request, ahead: None }
    }

    /// Reads so much of the body ahead. Returns true if the connection is broken.
    pub(super) fn is_cut_off(&mut self, most: usize, cx: &mut Context<'_>) -> bool {
        if self.ahead.is_none() && most > 0 {
            self.ahead = ReadAhead::begin(&mut self.request);
        }
        self.ahead.as_mut().is_some_and(|ahead| ahead.poll(cx, most))
    }

    /// The service, and the request with all of its body.
    pub(super) fn into_parts(mut self) -> (S, Request<A>) {
        if let Some(ahead) = self.ahead {
            ahead.finish(&mut self.request);
        }
        (self.inner, self.request)
    }
}
