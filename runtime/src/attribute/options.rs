//! The options of a call.

use super::Call;
use super::ending::OnLost;
#[cfg(not(feature = "calendar"))]
use crate::api::absent::absent;
use crate::api::lock_options::{common_setters, setters, text_setters};

impl Call {
    setters! {
        (given):
        /// How long the lease lasts without a renewal.
        ttl;
        /// How long to wait.
        wait;
        /// How long the lock stays held after its grant, even if the body ends sooner.
        hold_at_least;
        /// How long the released lock stays with the process.
        linger;
        /// How long the work counts as done after the body succeeded.
        once;
        /// Lets the body succeed once in each period of the server's clock.
        once_per;
        /// Shifts the periods of `once_per`.
        offset;
        /// Lets the body succeed once in each tick of a calendar.
        #[cfg(feature = "calendar")]
        schedule;
        /// Lets a newer call take the place of this one.
        replace;
        /// A name for the holder.
        owner;
    }

    #[cfg(not(feature = "calendar"))]
    absent! { Calendar: schedule<T>(self, _: T) -> Self; }

    common_setters!((given));

    text_setters!((given));

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
