//! What the client and its handles have only with a feature, or by another name.

use super::semaphore::Semaphore;
use crate::core::absent::absent;

impl Semaphore {
    absent! { Permits: lock(&self) -> !; try_lock(&self) -> !; }
}

#[cfg(not(feature = "calendar"))]
impl super::mutex::Mutex {
    absent! { Calendar: schedule<T>(self, _: T) -> Self; }
}

#[cfg(not(feature = "redis"))]
impl super::locks::Locks {
    absent! {
        Redis: builder() -> !;
        connect<T>(_: T) -> !;
        connect_lazy<T>(_: T) -> !;
        from_env() -> !;
        from_env_or_in_memory() -> !;
    }
}

#[cfg(not(feature = "quorum"))]
impl super::locks::Locks {
    absent! { Quorum: quorum<T>(_: T) -> !; }
}

#[cfg(not(feature = "doctor"))]
impl super::locks::Locks {
    absent! { Doctor: diagnose(&self) -> !; }
}

#[cfg(not(feature = "faults"))]
impl super::locks::Locks {
    absent! { Faults: in_memory_with_faults() -> !; }
}

#[cfg(all(feature = "redis", not(feature = "quorum")))]
impl super::builder::LocksBuilder {
    absent! { Quorum: connect_quorum<T>(self, _: T) -> !; connect_quorum_lazy<T>(self, _: T) -> !; }
}

#[cfg(all(feature = "redis", not(feature = "bb8")))]
impl super::builder::LocksBuilder {
    absent! { Bb8: connect_pool<T>(self, _: T) -> !; }
}
