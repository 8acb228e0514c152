//! The options of a call.

use std::time::Duration;

use super::{Call, OnLost};
use crate::core::options::Wait;

impl Call {
    /// How long the lease lasts without a renewal.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How long to wait.
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.wait = Some(wait.into());
        self
    }

    /// How long the lock stays held after its grant, even if the body ends sooner.
    pub fn hold_at_least(mut self, time: Duration) -> Self {
        self.hold_at_least = time;
        self
    }

    /// The longest time that the lease is held.
    pub fn max_hold(mut self, most: impl Into<Option<Duration>>) -> Self {
        self.max_hold = most.into();
        self
    }

    /// Lets the client renew the lease.
    pub fn auto_renew(mut self, renew: bool) -> Self {
        self.renew = renew;
        self
    }

    /// How long the released lock stays with the process.
    pub fn linger(mut self, lasts: Duration) -> Self {
        self.linger = lasts;
        self
    }

    /// How long the work counts as done after the body succeeded.
    pub fn once(mut self, lasts: Duration) -> Self {
        self.once = Some(lasts);
        self
    }

    /// Lets the body succeed once in each period of the server's clock.
    pub fn once_per(mut self, period: Duration) -> Self {
        self.once_per = Some(period);
        self
    }

    /// Shifts the periods of `once_per`.
    pub fn offset(mut self, offset: Duration) -> Self {
        self.offset = offset;
        self
    }

    /// A name for the holder.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// A note for people.
    pub fn note(mut self, note: impl AsRef<str>) -> Self {
        note.as_ref().clone_into(&mut self.note);
        self
    }

    /// Lets the body finish when the lease is lost.
    pub fn let_finish(mut self) -> Self {
        self.on_lost = OnLost::Finish;
        self
    }

    /// Lets the body go on under the mutex's lease if the caller runs under it.
    pub fn reentrant(mut self) -> Self {
        self.is_reentrant = true;
        self
    }
}
