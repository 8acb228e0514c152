//! What is told of a lease that is held.

use std::fmt;

#[cfg(feature = "tower")]
use tracing::span::Entered;
use tracing::span::Id;
use tracing::{Span, field};

use super::label::{SPANS, kind_name};
use crate::core::error::LossReason;
use crate::core::fence::Fence;
use crate::store::Request;

/// The span of a lease, from its grant until its guard is dropped. Work under the lease runs in
/// it.
pub(crate) struct Hold(Span);

impl Hold {
    /// The span of a lease that its caller has from now on.
    pub(crate) fn new(request: &Request, fence: Option<Fence>) -> Self {
        Self(tracing::debug_span!(
            target: SPANS,
            "leasehold.hold",
            kind = kind_name(request.kind),
            lock = request.key.label(),
            fence = fence.map(Fence::get),
            reason = field::Empty,
        ))
    }

    /// No span: nobody has the lease yet.
    pub(crate) fn none() -> Self {
        Self(Span::none())
    }

    pub(crate) fn id(&self) -> Option<Id> {
        self.0.id()
    }

    pub(crate) fn span(&self) -> &Span {
        &self.0
    }

    #[cfg(feature = "tower")]
    pub(crate) fn enter(&self) -> Entered<'_> {
        self.0.enter()
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Logs a loss, in the span of its lease if there is one.
pub(crate) fn lost(request: &Request, reason: LossReason, hold: Option<&Id>) {
    let (kind, lock) = (kind_name(request.kind), request.key.label());
    if let Some(id) = hold {
        tracing::warn!(parent: id.clone(), lock, kind, %reason, "a lease was lost");
    } else {
        tracing::warn!(lock, kind, %reason, "a lease was lost");
    }
    tracing::debug!(key = %request.key, "the lease that was lost");
}
