//! When idle leases are looked at.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;

use super::spec::QueueName;

/// When a queue is looked at, and a number that makes this unique.
pub(super) type IdleCheck = (Instant, u64);

/// When the queues with idle leases are looked at next.
#[derive(Default)]
pub(super) struct IdleChecks {
    pub(super) in_order: BTreeMap<IdleCheck, QueueName>,
    /// A task runs that makes them.
    pub(super) is_running: bool,
    /// When that task wakes.
    pub(super) wakes_at: Option<Instant>,
    pub(super) sooner: Arc<Notify>,
}
