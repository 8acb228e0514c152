//! The mutex: one holder at a time, across all processes.

use std::time::Duration;

use super::lock_options::{common_setters, setters, text_setters};
use super::lock_spec::LockSpec;
use crate::core::error::LockError;
use crate::core::options::{Options, WaitsAs};
#[cfg(feature = "tower")]
use crate::engine::acquire::Look;
use crate::engine::lease::Lease;
use crate::store::{Kind, Once};

/// A mutex, for one holder at a time: a cheap handle, from
/// [`Locks::mutex`](crate::Locks::mutex).
///
/// It is not reentrant: a holder that locks it again waits for itself. Each lease has a
/// [fencing token](crate::Fence).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::Locks::in_memory();
/// let invoice = locks.mutex("invoice:42").ttl(Duration::from_secs(10));
/// let lease = invoice.lock().await?;
/// lease.run(async { /* dropped if the lease is lost */ }).await?;
/// lease.release().await?; // or drop it
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a mutex does nothing until it is locked"]
pub struct Mutex {
    spec: LockSpec,
}

impl Mutex {
    pub(crate) fn new(spec: LockSpec) -> Self {
        Self { spec }
    }

    setters! {
        (spec.given):
        /// How long the lease lasts without a renewal: 100 ms to 24 h, by default 30 s. The
        /// client renews it every third of this time.
        ///
        /// A holder that dies keeps the lock for at most this long. If it dies at the moment
        /// when the lock is handed over to it, the lock is free after at most a second.
        ttl;
        /// How long [`lock`](Self::lock) waits: a duration, or [`Wait::Forever`](crate::Wait::Forever). The default
        /// is 10 s.
        wait;
        /// How long a released lock stays with this process, idle, after its last use. Off by
        /// default; at most 1 h.
        ///
        /// The next acquisition here has it without a command, until another client wants it. If
        /// the process dies while the lock is idle, it stays held for the rest of its TTL. On a
        /// quorum or a pool of your own it has no effect. It can't be combined with
        /// `hold_at_least`.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        ///
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), leasehold::LockError> {
        /// # let locks = leasehold::Locks::in_memory();
        /// let cart = locks.mutex("cart:42").linger(Duration::from_secs(2));
        /// for _ in 0..1000 {
        ///     let lease = cart.lock().await?; // the first asks the server
        ///     lease.release().await?;
        /// }
        /// # Ok(())
        /// # }
        /// ```
        linger;
        /// How long the lock stays held after its grant, even if it is released sooner: 0 to 24
        /// h, by default 0.
        ///
        /// Use it for jobs that several processes start at the same time. A process that starts
        /// a little late, when the first has already finished, is refused as well. The idea is
        /// ShedLock's `lockAtLeastFor`.
        hold_at_least;
        /// Lets the work succeed once: after [`Lease::complete`] it counts as done for this long,
        /// and the lock refuses with [`LockError::Done`]. 100 ms to 366 days; by default, never.
        ///
        /// A lease that is released, dropped or lost marks nothing: whoever waits runs the work
        /// next. Put the identity of the work into the key: `"invoice-mail:42"` is sent once.
        /// It can't be combined with `linger` or `hold_at_least`.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        ///
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), leasehold::LockError> {
        /// # let locks = leasehold::Locks::in_memory();
        /// let day = Duration::from_secs(24 * 60 * 60);
        /// match locks.mutex("invoice-mail:42").once(day).lock().await {
        ///     Ok(lease) => {
        ///         lease.run(async { /* send it */ }).await?;
        ///         lease.complete().await?;
        ///     }
        ///     Err(error) if error.is_done() => println!("sent before: {error}"),
        ///     Err(error) => return Err(error),
        /// }
        /// # Ok(())
        /// # }
        /// ```
        once;
        /// Lets the work succeed once in each period of the server's clock, for scheduled jobs on
        /// several servers: 100 ms to 366 days; by default, there are no periods.
        ///
        /// Ticks are aligned to the Unix epoch: with one hour, a tick begins at each full hour of
        /// UTC. Ticks of whole weeks begin on a Monday. [`offset`](Self::offset) shifts them. The tick
        /// is fixed with the grant, so a run that outlasts its tick does not count for the next one.
        /// If a deploy changes the period, the last run counts in the new tick in which it began. After [`Lease::complete`] the
        /// lock refuses with [`LockError::Done`] until the next tick begins. A run that fails
        /// leaves the tick to whoever comes next. [`Lease::tick`] names the tick.
        ///
        /// If the tick is done and the next one begins within the [`wait`](Self::wait),
        /// [`lock`](Self::lock) waits for that one, so that a caller whose clock is ahead of the
        /// server's loses no tick. It waits for one tick at most.
        ///
        /// If the server's clock steps back by several ticks, nothing runs until it is there again.
        /// If it steps forward, the ticks between are missed. It can't be combined with `once`,
        /// `linger` or `hold_at_least`.
        once_per;
        /// Shifts the ticks of [`once_per`](Self::once_per): one begins this long after the Unix
        /// epoch, or of whole weeks after Monday, 5 January 1970. The default is zero.
        offset;
        /// Lets the work succeed once in each tick of a calendar: a pattern of cron, or `hourly`,
        /// `daily`, `weekly`, `monthly` or `yearly`, in a time zone. `"daily in Europe/Berlin"`,
        /// `"30 1 * * 1-5 in UTC"`. By default, there are no ticks.
        ///
        /// A tick begins at each time that the pattern names, and lasts until the next one. Otherwise it
        /// is [`once_per`](Self::once_per), with days of 23 and 25 hours and months of any length. A time
        /// that comes twice, when clocks go back, begins one tick; one that never comes begins it when
        /// clocks have gone forward: both if the pattern has one minute and one hour. With several, each
        /// begins a tick as often as it comes. The server's clock decides which tick runs. What days and hours the
        /// zone has, each process says by its own copy of the IANA database: the system's, or else the one
        /// that was built in.
        ///
        /// It can't be combined with `once`, `once_per`, `offset`, `linger` or `hold_at_least`. A text
        /// that names no schedule is reported when the lock is acquired. Weekdays are 0 to 7, with Sunday
        /// as 0 and 7.
        ///
        /// # Examples
        ///
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), leasehold::LockError> {
        /// # let locks = leasehold::Locks::in_memory();
        /// let report = locks.mutex("nightly-report").schedule("0 2 * * * in Europe/Berlin");
        /// let lease = report.lock().await?;
        /// lease.complete().await?;
        /// assert!(report.try_lock().await.unwrap_err().is_done());
        /// # Ok(())
        /// # }
        /// ```
        #[cfg(feature = "calendar")]
        #[cfg_attr(docsrs, doc(cfg(feature = "calendar")))]
        schedule;
        /// A name for the holder of these leases, which
        /// [`Locks::is_held_by`](crate::Locks::is_held_by) and
        /// [`Locks::inspect`](crate::Locks::inspect) show: 1 to 128 bytes without control
        /// characters. By default there is none.
        owner;
        /// Lets a newer run take the place of this one. The default is `false`.
        ///
        /// As soon as another acquisition *waits* for the lock, the lease is lost with
        /// [`LossReason::Replaced`](crate::LossReason::Replaced), and its work is cancelled. The lock is
        /// free when the [`Lease`] is dropped, and the one that waits gets it, with a greater fencing
        /// token. An acquisition that does not wait replaces nothing, and takes some 50 ms.
        ///
        /// With `once_per` or a schedule, the lease ends with its tick instead.
        ///
        /// [Jobs](guide/jobs/index.html#if-a-run-takes-too-long) says what it can't do: work in another
        /// thread or task goes on. On a quorum it is refused.
        ///
        /// The idea is `concurrencyPolicy: Replace` of Kubernetes' `CronJob`.
        ///
        /// # Examples
        ///
        /// ```
        /// use leasehold::LossReason;
        ///
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), leasehold::LockError> {
        /// # let locks = leasehold::Locks::in_memory();
        /// let index = locks.mutex("search-index").replace(true);
        /// let older = index.lock().await?;
        /// let newer = tokio::spawn(async move { index.lock().await });
        /// assert_eq!(older.lost().await, LossReason::Replaced);
        /// drop(older);
        /// newer.await.expect("it does not panic")?.release().await?;
        /// # Ok(())
        /// # }
        /// ```
        replace;
    }

    common_setters!((spec.given));

    text_setters!((spec.given));

    pub(crate) fn spec(&self) -> &LockSpec {
        &self.spec
    }

    /// For a candidate, whose wait is as it should be, and for a leader, whose work is never done.
    pub(super) fn of_election(mut self) -> Self {
        let options = &mut self.spec.given.options;
        options.waits_as = WaitsAs::Candidate;
        (options.once, options.once_per, options.offset) = (None, None, Duration::ZERO);
        // Those that campaign would replace the leader.
        options.replace = false;
        #[cfg(feature = "calendar")]
        {
            options.has_schedule = false;
            self.spec.given.schedule = None;
        }
        self
    }

    pub(super) fn has_ticks(&self) -> bool {
        let options = &self.spec.given.options;
        options.once_per.is_some() || options.has_schedule
    }

    /// How long the present tick lasts. Zero without ticks.
    pub(super) fn tick_lasts(&self) -> Duration {
        if let Kind::Once(Once::Per { period, .. }) = self.kind() { period } else { Duration::ZERO }
    }

    fn kind(&self) -> Kind {
        #[cfg(feature = "calendar")]
        if let Some(Ok(calendar)) = self.spec.given.schedule.as_deref() {
            // The answer says whether it is the right one, so any will do.
            let any = Once::Per { period: Duration::from_secs(60), offset: Duration::ZERO };
            return Kind::Once(calendar.tick_now().map_or(any, Once::in_tick));
        }
        let Options { once, once_per, offset, .. } = self.spec.given.options;
        match (once, once_per) {
            (_, Some(period)) => Kind::Once(Once::per(period, offset)),
            (Some(lasts), None) => Kind::Once(Once::For(lasts)),
            (None, None) => Kind::Mutex,
        }
    }

    #[cfg(feature = "tower")]
    pub(crate) fn look(&self) -> Option<Look> {
        self.spec.look(self.kind())
    }

    #[cfg(feature = "tower")]
    pub(crate) fn take_idle(&self) -> Option<Lease> {
        self.spec.take_idle(Kind::Mutex)
    }

    /// Acquires the lock. While others hold it, waits for at most [`wait`](Self::wait). Bind the lease
    /// to a name: `let _ = …` [releases it at once](Lease).
    ///
    /// Clients are served in the order in which they came, and so are the tasks of one
    /// client. A client with several waiting tasks hands the lock over among them for at
    /// most 20 ms or 64 leases, whichever ends first.
    ///
    /// # Errors
    ///
    /// - [`LockError::TimedOut`] if others held the lock, or were before this request in
    ///   the queue, for the whole wait.
    /// - [`LockError::Busy`] in the same case, with a wait of zero.
    /// - [`LockError::Quorum`] on a quorum, if too few servers agreed for the whole wait
    ///   because too many of them failed.
    /// - [`LockError::InvalidOption`] if an option is out of its range. No command is sent.
    /// - [`LockError::Done`] if the work has succeeded, with [`once`](Self::once) or
    ///   [`once_per`](Self::once_per). With `once_per`, only if the next tick begins after the
    ///   wait, or is done as well.
    /// - [`LockError::Unsupported`] with these options on a quorum. No command is sent.
    #[doc = include_str!("errors/waiting.md")]
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, nothing stays held. Its place in
    /// the queue goes to the next task of this client that waits for the same lock. If
    /// there is none, the place, or a grant in flight, is taken back in the background. If
    /// the store can't be reached, it ends after the TTL or after 6 s, whichever is longer.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    ///
    /// let lease = locks.mutex("invoice:42").lock().await?;
    /// assert!(locks.mutex("invoice:42").try_lock().await.is_err());
    /// lease.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self) -> impl Future<Output = Result<Lease, LockError>> + Send + use<> {
        self.spec.acquire(Ok(self.kind()))
    }

    /// Acquires the lock if it is free and has no waiters, and never waits.
    ///
    /// # Errors
    ///
    /// - [`LockError::Busy`] if another holder has the lock, or another request waits for
    ///   it.
    /// - [`LockError::Quorum`] on a quorum, if too few servers agreed because too many of
    ///   them failed.
    /// - [`LockError::InvalidOption`] if an option is out of its range. No command is sent.
    /// - [`LockError::Done`] if the work has succeeded, with [`once`](Self::once) or
    ///   [`once_per`](Self::once_per).
    /// - [`LockError::Unsupported`] with these options on a quorum. No command is sent.
    #[doc = include_str!("errors/trying.md")]
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, nothing stays held.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LockError, Locks};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// let locks = Locks::in_memory();
    /// let lease = locks.mutex("invoice:42").try_lock().await?;
    /// let second = locks.mutex("invoice:42").try_lock().await;
    /// assert!(matches!(second, Err(LockError::Busy { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock(&self) -> impl Future<Output = Result<Lease, LockError>> + Send + use<> {
        self.spec.try_acquire(Ok(self.kind()))
    }
}
