//! The inner service's body under its lease: what is ready with the head, and the end, which waits
//! for the release.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};

use super::ending::Ending;
use super::grpc;
use super::held::Held;

/// As much of a body is taken in advance, if it is ready with the head.
const EARLY_FRAMES: usize = 16;
const EARLY_BYTES: u64 = 64 * 1024;

/// The inner service's body, and what it does to the lease.
pub(super) struct HeldBody<B: Body> {
    // Dropped in this order, so that the body is dropped under the lock. Boxed, because it is
    // polled before it is given away.
    body: Pin<Box<B>>,
    hold: Hold<Last<B>>,
    is_success: bool,
    /// How many bytes are to come, if that is announced.
    left: Option<u64>,
    /// Taken in advance.
    early: VecDeque<Last<B>>,
    /// The bytes that were taken, and are not given yet.
    kept: u64,
}

/// The last that a body gives: a frame, an error, or the end.
type Last<B> = Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>;

/// What a body has to do with its lease.
enum Hold<T> {
    /// It holds it.
    Held(Held),
    /// The lease ends, and what is last is held back until then.
    Ending(Ending<T>),
    /// It has none, or none any more.
    Nothing,
}

impl<T> Hold<T> {
    fn held(&self) -> Option<&Held> {
        if let Self::Held(held) = self { Some(held) } else { None }
    }
}

/// Runs a function in which the current lease is this one, if there is one. If it `lasts`, the
/// function is a part of work that ends with the lease at the latest.
pub(super) fn under<R>(held: Option<&Held>, lasts: bool, work: impl FnOnce() -> R) -> R {
    match held {
        Some(held) => held.sync_scope(lasts, work),
        None => work(),
    }
}

/// How many bytes of data a frame has.
fn bytes<D: Buf, E>(frame: Option<&Result<Frame<D>, E>>) -> u64 {
    let frame = frame.and_then(|frame| frame.as_ref().ok());
    let bytes = frame.and_then(|frame| frame.data_ref()).map_or(0, Buf::remaining);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The size of a body with what was taken of it in advance.
pub(super) fn with_more(mut hint: SizeHint, bytes: u64) -> SizeHint {
    // The upper bound first: it is never below the lower one.
    if let Some(upper) = hint.upper() {
        hint.set_upper(upper.saturating_add(bytes));
    }
    hint.set_lower(hint.lower().saturating_add(bytes));
    hint
}

impl<B: Body> HeldBody<B> {
    pub(super) fn new(
        body: B,
        held: Option<Held>,
        is_success: bool,
        announced: Option<u64>,
    ) -> Self {
        Self {
            body: Box::pin(body),
            hold: held.map_or(Hold::Nothing, Hold::Held),
            is_success,
            left: announced,
            early: VecDeque::new(),
            kept: 0,
        }
    }

    /// What was taken in advance, and then the rest.
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Last<B>> {
        let frame = match self.early.pop_front() {
            Some(frame) => frame,
            None => ready!(self.poll_next(cx)),
        };
        self.kept = self.kept.saturating_sub(bytes(frame.as_ref()));
        Poll::Ready(frame)
    }

    /// The next frame. The last one comes once the lease has ended.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Last<B>> {
        let Self { body, hold, is_success, left, kept, .. } = self;
        if !matches!(hold, Hold::Ending(_)) {
            let frame = ready!(under(hold.held(), false, || body.as_mut().poll_frame(cx)));
            *kept += bytes(frame.as_ref());
            let Hold::Held(held) = std::mem::replace(hold, Hold::Nothing) else {
                return Poll::Ready(frame);
            };
            *left = left.map(|left| left.saturating_sub(bytes(frame.as_ref())));
            *is_success &= match &frame {
                None => true,
                Some(Ok(frame)) => !frame.trailers_ref().is_some_and(grpc::is_failure),
                Some(Err(_)) => false,
            };
            let is_data = matches!(&frame, Some(Ok(frame)) if !frame.is_trailers());
            // A server that sees the end coming does not poll again.
            if is_data && *left != Some(0) && !body.is_end_stream() {
                *hold = Hold::Held(held);
                return Poll::Ready(frame);
            }
            *hold = Hold::Ending(Ending::new(Some(held), *is_success, frame));
        }
        let Hold::Ending(ending) = hold else { return Poll::Ready(None) };
        let last = ready!(ending.poll(cx));
        *hold = Hold::Nothing;
        Poll::Ready(last)
    }

    /// Takes what is ready. If that is all, the lease has ended when this is ready.
    pub(super) fn poll_early(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !matches!(self.hold, Hold::Nothing) {
            if self.early.len() >= EARLY_FRAMES || self.kept >= EARLY_BYTES {
                break;
            }
            match self.poll_next(cx) {
                Poll::Ready(frame) => self.early.push_back(frame),
                Poll::Pending if matches!(self.hold, Hold::Ending(_)) => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(())
    }

    /// What it holds, if it still holds it.
    pub(super) fn take_held(&mut self) -> Option<Held> {
        match std::mem::replace(&mut self.hold, Hold::Nothing) {
            Hold::Held(held) => Some(held),
            Hold::Ending(_) | Hold::Nothing => None,
        }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        match self.early.front() {
            Some(None) => true,
            Some(Some(_)) => false,
            None => !matches!(self.hold, Hold::Ending(_)) && self.body.is_end_stream(),
        }
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        with_more(self.body.size_hint(), self.kept)
    }
}

impl<B: Body + fmt::Debug> fmt::Debug for HeldBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseBody")
            .field("body", &self.body)
            .field("is_held", &self.hold.held().map(Held::is_held))
            .finish_non_exhaustive()
    }
}
