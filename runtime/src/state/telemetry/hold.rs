//! What is told of a lease that is held.

use std::fmt;

use tracing::Span;
use tracing::span::{Entered, Id};

use super::label::{SPANS, kind_name};
use crate::core::error::LossReason;
use crate::core::fence::Fence;
use crate::store::Request;

/// The span of a lease, from its grant until its guard is dropped. Work under the lease runs in
/// it.
// Boxed: most programs collect no spans, and each future that holds a lease has room for this.
pub(crate) struct Hold(Option<Box<Span>>);

impl Hold {
    /// The span of a lease that its caller has from now on.
    pub(crate) fn new(request: &Request, fence: Option<Fence>) -> Self {
        let span = tracing::debug_span!(
            target: SPANS,
            "leasehold.hold",
            kind = kind_name(request.kind),
            lock = request.key.log_label(),
            fence = fence.map(Fence::get),
        );
        Self((!span.is_disabled()).then(|| span.into()))
    }

    /// No span: nobody has the lease yet.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    pub(crate) fn id(&self) -> Option<Id> {
        self.0.as_ref().and_then(|span| span.id())
    }

    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        self.0.as_ref().map(|span| span.enter())
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Logs a loss, in the span of its lease if there is one.
pub(super) fn log_loss(request: &Request, reason: LossReason, hold: Option<&Id>) {
    let (kind, lock) = (kind_name(request.kind), request.key.log_label());
    let (is_replaced, reason) = (reason == LossReason::Replaced, reason.name());
    if is_replaced {
        tracing::info!(lock, kind, reason, "a lease was lost");
    } else if let Some(id) = hold {
        tracing::warn!(parent: id.clone(), lock, kind, reason, "a lease was lost");
    } else {
        tracing::warn!(lock, kind, reason, "a lease was lost");
    }
    tracing::debug!(lock, key = %request.key, "the lease that was lost");
}
