//! How metrics, events and spans name a lock.

use crate::store::Kind;

/// The target of spans and of the events in them. At `debug`, and apart from events that name
/// locks: who collects traces need not collect those.
pub(super) const SPANS: &str = "leasehold::spans";

/// What is told of: a lock of some kind, or a rate.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject {
    Lock(Kind),
    Rate,
}

impl From<Kind> for Subject {
    fn from(kind: Kind) -> Self {
        Self::Lock(kind)
    }
}

/// The name of a kind, as it stands in metrics, events and spans.
pub(super) fn kind_name(of: impl Into<Subject>) -> &'static str {
    match of.into() {
        Subject::Lock(Kind::Mutex | Kind::Once(_)) => "mutex",
        Subject::Lock(Kind::Reentrant) => "reentrant_mutex",
        Subject::Lock(Kind::Semaphore { .. }) => "semaphore",
        Subject::Lock(Kind::Read) => "read",
        Subject::Lock(Kind::Write) => "write",
        Subject::Rate => "rate",
    }
}

/// A metric of a lock. If the lock has no label, all labels are constants: then it allocates and
/// hashes nothing while no recorder is installed.
#[cfg(feature = "metrics")]
macro_rules! of_lock {
    ($metric:ident, $name:literal, $kind:expr, $lock:expr $(, $label:literal => $value:expr)*) => {
        match ($crate::state::telemetry::label::Subject::from($kind), $lock) {
            ($crate::state::telemetry::label::Subject::Lock($crate::store::Kind::Mutex | $crate::store::Kind::Once(_)), None) => {
                metrics::$metric!($name, "kind" => "mutex", "lock" => "(no label)" $(, $label => $value)*)
            }
            ($crate::state::telemetry::label::Subject::Lock($crate::store::Kind::Semaphore { .. }), None) => {
                metrics::$metric!($name, "kind" => "semaphore", "lock" => "(no label)" $(, $label => $value)*)
            }
            (kind, lock) => {
                let (kind, lock) = ($crate::state::telemetry::label::kind_name(kind), lock.unwrap_or($crate::core::lock_key::NO_LABEL));
                metrics::$metric!($name, "kind" => kind, "lock" => lock $(, $label => $value)*)
            }
        }
    };
}
#[cfg(feature = "metrics")]
pub(super) use of_lock;
