//! Methods that are not there, without a feature or because their type has another word for it. Each has
//! a bound that no type meets: rustc then says the words of the bound, and not only that there is no such
//! method. So nobody can call them.

use super::semaphore::Semaphore;

/// Writes bounds that no type meets, and what rustc is to say of them.
macro_rules! bounds {
    ($($name:ident: $words:literal;)+) => {$(
        #[diagnostic::on_unimplemented(message = $words)]
        #[allow(dead_code, unreachable_pub, reason = "bounds of public methods that features take away")]
        pub trait $name {}
    )+};
}

bounds! {
    Bb8: "this needs the feature `bb8` of leasehold: `cargo add leasehold --features bb8`";
    Calendar: "this needs the feature `calendar` of leasehold: `cargo add leasehold --features calendar`";
    Doctor: "this needs the feature `doctor` of leasehold: `cargo add leasehold --features doctor`";
    Faults: "this needs the feature `faults` of leasehold: `cargo add leasehold --features faults`";
    Quorum: "this needs the feature `quorum` of leasehold: `cargo add leasehold --features quorum`";
    Redis: "this needs the feature `redis` of leasehold: `cargo add leasehold --features redis`";
    Permits: "a semaphore has permits: write `acquire` for `lock`, and `try_acquire` for `try_lock`";
}

/// Writes methods that are not there.
macro_rules! absent {
    ($bound:ident: $($name:ident $(<$type:ident>)? ($($argument:tt)*) -> $answer:ty;)+) => {$(
        #[doc(hidden)]
        #[allow(
            clippy::must_use_candidate,
            clippy::return_self_not_must_use,
            clippy::unused_self,
            reason = "nobody can call it"
        )]
        pub fn $name $(<$type>)? ($($argument)*) -> $answer
        where
            for<'never> Self: $crate::api::absent::$bound,
        {
            unreachable!("no type meets the bound")
        }
    )+};
}

#[allow(unused_imports, reason = "the attribute and the layer use it without `calendar`")]
pub(crate) use absent;

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
