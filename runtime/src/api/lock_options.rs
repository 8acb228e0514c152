//! What the front doors say of a lock beside its name and its kind: handles, the attribute and the
//! layer collect it in one value, with setters that are written here.

#[cfg(feature = "calendar")]
use std::sync::Arc;

#[cfg(feature = "calendar")]
use crate::core::calendar::Calendar;
use crate::core::error::LockError;
use crate::core::key::LockKey;
use crate::core::options::Options;
use crate::store::{Kind, Note, Owner, RequestSpec};

/// The options of a lock. They are checked when it is acquired.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockOptions {
    pub(crate) options: Options,
    pub(crate) owner: Option<String>,
    pub(crate) note: Option<Note>,
    /// What metrics and logs call the lock. `None` leaves the label of its key.
    pub(crate) label: Option<&'static str>,
    /// The ticks in each of which work is to succeed once, or what is wrong with their text.
    #[cfg(feature = "calendar")]
    pub(crate) schedule: Option<Arc<Result<Calendar, String>>>,
}

impl LockOptions {
    /// The same for this owner, with this text for people.
    #[cfg(feature = "tower")]
    pub(crate) fn of(&self, owner: Option<String>, note: Option<&str>) -> Self {
        Self { owner, note: note.and_then(Note::new), ..self.clone() }
    }

    /// The key with the label.
    pub(crate) fn labelled(&self, key: LockKey) -> LockKey {
        self.label.into_iter().fold(key, LockKey::with_label)
    }

    /// What the store is asked for.
    pub(crate) fn request(&self, key: LockKey, kind: Kind) -> Result<RequestSpec, LockError> {
        let owner = self.owner.as_deref().map(Owner::new).transpose()?;
        #[cfg(feature = "calendar")]
        self.check_schedule()?;
        Ok(RequestSpec {
            key: self.labelled(key),
            kind,
            owner,
            note: self.note.clone(),
            #[cfg(feature = "calendar")]
            schedule: self.schedule.clone(),
        })
    }

    /// The ticks of this text.
    #[cfg(feature = "calendar")]
    pub(crate) fn set_schedule(&mut self, text: &str) {
        self.options.has_schedule = true;
        self.schedule = Some(Arc::new(Calendar::parse(text)));
    }

    /// Refuses options that are wrong for every request of such a lock.
    #[cfg(feature = "tower")]
    pub(crate) fn check(&self, is_of_mutex: bool) -> Result<(), LockError> {
        #[cfg(feature = "calendar")]
        self.check_schedule()?;
        self.options.check(is_of_mutex)
    }

    /// Refuses a text that names no schedule.
    #[cfg(feature = "calendar")]
    fn check_schedule(&self) -> Result<(), LockError> {
        match self.schedule.as_deref() {
            Some(Err(problem)) => {
                let problem = problem.clone();
                Err(LockError::InvalidOption { option: "schedule", problem })
            }
            _ => Ok(()),
        }
    }
}

/// Writes the setters of these options. The type has its [`LockOptions`] at `self.$at`; what an option
/// means for it stands above its name.
macro_rules! setters {
    ($at:tt: $($(#[$meta:meta])* $option:ident;)+) => {
        $($crate::api::lock_options::setter!($option $at [$(#[$meta])*]);)+
    };
}

/// The signature of each setter, and what it sets.
macro_rules! setter {
    (ttl $at:tt $meta:tt) => {
        $crate::api::lock_options::set!($at $meta ttl(ttl: std::time::Duration) options.ttl = ttl);
    };
    (wait $at:tt $meta:tt) => {
        $crate::api::lock_options::set!(
            $at $meta wait(wait: impl Into<$crate::core::options::Wait>) options.wait = wait.into()
        );
    };
    (max_hold $at:tt $meta:tt) => {
        $crate::api::lock_options::set!(
            $at $meta max_hold(most: impl Into<Option<std::time::Duration>>)
            options.max_hold = most.into()
        );
    };
    (auto_renew $at:tt $meta:tt) => {
        $crate::api::lock_options::set!(
            $at $meta auto_renew(renew: bool) options.auto_renew = renew
        );
    };
    (linger $at:tt $meta:tt) => {
        $crate::api::lock_options::set!(
            $at $meta linger(lasts: std::time::Duration) options.linger = lasts
        );
    };
    (hold_at_least $at:tt $meta:tt) => {
        $crate::api::lock_options::set!(
            $at $meta hold_at_least(time: std::time::Duration) options.hold_at_least = time
        );
    };
    (once $at:tt $meta:tt) => {
        $crate::api::lock_options::set!(
            $at $meta once(lasts: impl Into<Option<std::time::Duration>>)
            options.once = lasts.into()
        );
    };
    (once_per $at:tt $meta:tt) => {
        $crate::api::lock_options::set!(
            $at $meta once_per(period: impl Into<Option<std::time::Duration>>)
            options.once_per = period.into()
        );
    };
    (offset $at:tt $meta:tt) => {
        $crate::api::lock_options::set!(
            $at $meta offset(offset: std::time::Duration) options.offset = offset
        );
    };
    (replace $at:tt $meta:tt) => {
        $crate::api::lock_options::set!(
            $at $meta replace(replace: bool) options.replace = replace
        );
    };
    (schedule (checked $($at:tt)+) [$($meta:tt)*]) => {
        $($meta)*
        #[track_caller]
        pub fn schedule(mut self, schedule: impl AsRef<str>) -> Self {
            self.$($at)+.set_schedule(schedule.as_ref());
            self.policy.assert_possible();
            self
        }
    };
    (schedule ($($at:tt)+) [$($meta:tt)*]) => {
        $($meta)*
        pub fn schedule(mut self, schedule: impl AsRef<str>) -> Self {
            self.$($at)+.set_schedule(schedule.as_ref());
            self
        }
    };
    (owner $at:tt $meta:tt) => {
        $crate::api::lock_options::set!(
            $at $meta owner(owner: impl Into<String>) owner = Some(owner.into())
        );
    };
    (label $at:tt $meta:tt) => {
        $crate::api::lock_options::set!(
            $at $meta label(label: &'static str) label = Some(label)
        );
    };
    (note $at:tt $meta:tt) => {
        $crate::api::lock_options::set!(
            $at $meta note(note: impl AsRef<str>)
            note = $crate::store::Note::new(note.as_ref())
        );
    };
}

macro_rules! set {
    // What would be refused for every request panics at the caller's line.
    (
        (checked $($at:tt)+) [$($meta:tt)*] $name:ident($value:ident: $type:ty)
        $($field:ident).+ = $set:expr
    ) => {
        $($meta)*
        #[track_caller]
        pub fn $name(mut self, $value: $type) -> Self {
            self.$($at)+.$($field).+ = $set;
            self.policy.assert_possible();
            self
        }
    };
    (
        ($($at:tt)+) [$($meta:tt)*] $name:ident($value:ident: $type:ty)
        $($field:ident).+ = $set:expr
    ) => {
        $($meta)*
        pub fn $name(mut self, $value: $type) -> Self {
            self.$($at)+.$($field).+ = $set;
            self
        }
    };
}

/// The setters of the options that mean the same for every kind of lock.
macro_rules! common_setters {
    ($at:tt) => {
        $crate::api::lock_options::setters! {
            $at:
            /// The longest time that a lease is held, even if it is renewed: 100 ms to 30 days.
            /// By default there is no limit.
            ///
            /// It counts from the grant. At its end the lease is lost
            /// ([`LossReason::MaxHold`](crate::LossReason::MaxHold)) and released, so that
            /// stuck work does not hold a lock for ever.
            max_hold;
            /// Lets the client renew leases, every third of their TTL. The default is `true`.
            /// With `false` a lease lasts for its TTL, or until
            /// [`Lease::renew`](crate::Lease::renew).
            auto_renew;
        }
    };
}

/// The setters of the texts that every single lock has.
macro_rules! text_setters {
    ($at:tt) => {
        $crate::api::lock_options::setters! {
            $at:
            /// What metrics, logs and traces call this lock and others like it, such as `"invoice"`. By
            /// default it is the template of [`lock_key!`](macro.lock_key.html), or nothing if the name was
            /// made otherwise.
            ///
            /// Choose a constant, never a value of the name: each label is a time series of its own.
            label;
            /// A text for people, which [`Locks::inspect`](crate::Locks::inspect) shows with the holder or
            /// the waiter: why, or which ticket. By default there is none.
            ///
            /// It decides nothing, and no text is refused. Its first 200 bytes are kept, in whole
            /// characters; control characters become spaces. Who may read the store can read it. A lease
            /// that is handed over inside a process keeps the note of the first.
            note;
        }
    };
}

pub(crate) use {common_setters, set, setter, setters, text_setters};
