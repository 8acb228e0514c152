//! The macros of [`leasehold`], which re-exports them: depend on that crate, not on this
//! one.
//!
//! [`leasehold`]: https://docs.rs/leasehold

use proc_macro::TokenStream;

mod args;
mod argument;
mod contradictions;
mod duration;
mod expand;
mod fenceless;
mod function;
#[cfg(test)]
mod hostile;
mod key_part;
mod lock_key;
mod option_rules;
mod parser;
mod rate;
mod signature;
mod template;
mod values;

/// Runs an async function or method under a distributed lock.
///
/// A call acquires the lock that `key` names, runs the body, releases the lock, and
/// returns the body's result. If it cannot acquire the lock, the body does not run. The
/// lease is renewed while the body runs; if it is lost, the body is stopped.
///
/// ```
/// use leasehold::{LockError, Locks, distributed_lock};
///
/// #[distributed_lock(key = "invoice:{invoice_id}", ttl = "10s")]
/// async fn charge(invoice_id: u64) -> Result<u64, LockError> {
///     Ok(invoice_id) // one at a time for each invoice, in all processes
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// Locks::in_memory().install(); // in production: Locks::connect(url).await?.install()
/// assert_eq!(charge(42).await?, 42);
/// # Ok(())
/// # }
/// ```
///
/// # Arguments
///
/// | argument | what | default |
/// |---|---|---|
/// | `key` | the lock's name: a template, or an expression without quotes | required |
/// | `ttl` | how long a lease lasts unless it is renewed: 100 ms to 24 h | 30 s |
/// | `wait` | how long to wait for the lock: a duration, or an expression such as `Wait::Forever` | 10 s; 0 with `if_held = "skip"` |
/// | `permits` | how many may hold at once, from 1 up: makes the lock a semaphore | a mutex |
/// | `weight` | how many of the `permits` one call takes, from 1 to all of them; or of the `rate`, up to its burst | 1 |
/// | `mode` | `"read"` runs beside other readers, `"write"` alone: makes the lock a read-write lock | a mutex |
/// | `rate` | how often the function may run, such as `"10/s"`, `"100/min"` or a `Rate`: instead of a lock, or beside locks in `all` | no limit |
/// | `if_held` | when others still hold the lock after the wait, or the work is done: `"error"` returns the error, `"skip"` returns quietly | `"error"` |
/// | `once` | how long the work counts as done after the body succeeded: 100 ms to 366 days; mutexes only | it never does |
/// | `once_per` | lets the body succeed once in each period of the server's clock: 100 ms to 366 days; mutexes only | no periods |
/// | `offset` | shifts the periods of `once_per`, which are counted from the Unix epoch, and those of whole weeks from a Monday | 0 |
/// | `schedule` | lets the body succeed once in each tick of a calendar, such as `"daily in Europe/Berlin"` or `"30 1 * * * in UTC"`; not with `once`, `once_per`, `offset`, `linger` or `hold_at_least`; feature `calendar`; mutexes only | no ticks |
/// | `success` | which results count as done, as a function of a reference to the result, such as `\|result\| matches!(result, Ok(200))`; with `once`, `once_per` or `schedule` | all but an `Err` |
/// | `hold_at_least` | how long the lock stays held after its grant, even if the body ends sooner: up to 24 h; mutexes only | 0 |
/// | `linger` | how long the released lock stays with the process, idle, so that its next call needs no command: up to 1 h; not with `hold_at_least` | 0 |
/// | `owner` | a name for the holder, such as a worker's, which `inspect` shows: 1 to 128 bytes | none |
/// | `note` | a text for people, such as a ticket, which `inspect` shows: its first 200 bytes | none |
/// | `max_hold` | the longest that the lock is held, renewed or not: 100 ms to 30 days | no end |
/// | `replace` | `true` lets a newer call that waits (not one with `if_held = "skip"` and no `wait`) take the place of this one, whose body is cancelled; with `once_per` or a schedule, the body is cancelled at the end of its tick; not with `once`, `hold_at_least`, `linger` or `on_lost`; mutexes only | `false` |
/// | `auto_renew` | `false` lets the lease end with its `ttl` | `true` |
/// | `on_lost` | when the lease is lost: `"cancel"` stops the body, `"finish"` lets it run to its end | `"cancel"` |
/// | `reentrant` | written without a value: a call inside the body goes on under the same lease, without a command; mutexes only, without `once`, `once_per` and `schedule` | such a call waits |
/// | `lease` | the name of the `LeaseHandle` in the body | none |
/// | `locks` | the client: a `Locks` or a `QuorumLocks`, or a reference to one; with `permits`, `rate` or `all` a `Locks` | see below |
/// | `all` | several locks instead of a `key`, in parentheses: `all(lock(key = "a"), lock(key = "b", permits = 3))`; see below | one lock |
///
/// A duration is a string with units, such as `"500ms"`, `"10s"` or
/// `"1m 30s"`, checked when compiling; or an expression of type `Duration`.
/// Every argument takes an expression, except `mode`, `if_held`, `on_lost`, `reentrant`, `lease`
/// and `all`.
/// An expression can use the function's arguments. It is evaluated once per call, the key
/// first, before the body takes the arguments. So `success` can move a part of an argument that can be
/// copied or cloned, and can't borrow one that the body uses.
///
/// # The key
///
/// A string literal is a template with a syntax of its own:
///
/// - `{id}` is the argument `id`, or any name that the signature binds, also in a
///   pattern such as `Path(id): Path<u64>`;
/// - `{order.id}` and `{order.lines.0}` are fields of an argument, `{self.id}`
///   of the method's `self`;
/// - `{{` and `}}` are braces.
///
/// There are no format specs and no calls. A placeholder's type implements `KeyPart`:
/// integers, strings, `Uuid` and the like. ASCII letters and digits, `-`, `_` and `.`
/// of a value stay as they are; everything else is percent-escaped.
///
/// Two placeholders need a character between them that is escaped in values, such as
/// `:`. So different values never make the same key. `"{a}-{b}"` does not compile.
///
/// For any other key, write an expression without quotes. Its type implements
/// `IntoLockKey`: a string, a `LockKey`, or the `Result` of making one. Nothing in it is
/// escaped.
///
/// ```
/// use leasehold::{LockError, distributed_lock};
///
/// struct Line { id: u32, amount: u32 }
///
/// #[distributed_lock(key = "line:{line.id}:{currency}")]
/// async fn book(line: Line, currency: &str) -> Result<u32, LockError> {
///     Ok(line.amount)
/// }
///
/// #[distributed_lock(key = format!("day:{}", second / 86_400))]
/// async fn summarize(second: u64) -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
///
/// With `#[async_trait]`, a key can only use arguments that are plain names: it binds the
/// names in patterns inside the body.
///
/// # Calls of different weight
///
/// A call takes one of the semaphore's `permits`, or as many as `weight` says. A heavy
/// call waits in the queue for all of them at once. Lighter calls that come later do not
/// pass it.
///
/// ```
/// use leasehold::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "render", permits = 8, weight = if draft { 1 } else { 4 })]
/// async fn render(page: u64, draft: bool) -> Result<(), LockError> {
///     Ok(()) // eight drafts at a time, or two pages, or one page and four drafts
/// }
/// ```
///
/// A weight of 0, or above `permits`, does not compile if both are literals. Otherwise
/// the call fails with `LockError::InvalidOption`.
///
/// # Readers and writers
///
/// With `mode`, readers run together and a writer runs alone. A writer waits for the
/// readers before it, and later readers wait for the writer.
///
/// ```
/// use leasehold::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "catalogue:{shop}", mode = "read")]
/// async fn show(shop: u64) -> Result<(), LockError> {
///     Ok(())
/// }
///
/// #[distributed_lock(key = "catalogue:{shop}", mode = "write")]
/// async fn change(shop: u64) -> Result<(), LockError> {
///     Ok(()) // while nobody shows it, in any process
/// }
/// ```
///
/// A function with the same key and no `mode` asks for a mutex of that name. A name that
/// is in use as one kind of lock is refused as another with `LockError::WrongKind`.
///
/// # So many in a time
///
/// With `rate`, the function runs so often in a time, in all processes together. Nothing is held while
/// it runs: time gives back what a call takes. A call waits for its turn as long as `wait` says. If that
/// is too short, it fails at once with `LockError::RateLimited`, or is skipped with `if_held = "skip"`.
///
/// ```
/// use leasehold::{LockError, Rate, distributed_lock};
///
/// #[distributed_lock(key = "mails", rate = "10/s")]
/// async fn send(mail: &str) -> Result<(), LockError> {
///     Ok(())
/// }
///
/// // 3 at a time for each user, and 100 tokens in a minute, of which 20 at once.
/// #[distributed_lock(all(
///     lock(key = "user:{user}", permits = 3),
///     lock(key = "user:{user}", rate = Rate::per_minute(100).burst(20), weight = tokens),
/// ))]
/// async fn answer(user: u64, tokens: u32) -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
///
/// # Several locks
///
/// With `all`, a call takes several locks, all or none, with one wait, and releases them
/// together. Each is `lock(key = …)`, with `permits`, `weight` or `mode` if it is no mutex, or with `rate`. The
/// other arguments stand beside `all`, for all of them.
///
/// ```
/// use leasehold::{LockError, distributed_lock, lock_key};
///
/// #[distributed_lock(
///     all(
///         lock(key = "account:{from}"),
///         lock(key = "account:{to}"),
///         lock(key = "transfers", permits = 64),
///     ),
///     wait = "2s",
///     lease = leases,
/// )]
/// async fn transfer(from: u64, to: u64, amount: u64) -> Result<(), LockError> {
///     let fence = leases.fence(lock_key!("account:{from}")?)?;
///     Ok(()) // nobody else works on one of the two accounts
/// }
/// ```
///
/// If all are free mutexes and permits, one command acquires them, on a cluster if they share a
/// slot. Otherwise they are acquired in the order of their names, so that no two calls wait for each
/// other in a circle. A call that waits for one lock holds those whose names come before: give the
/// narrow limit a name that comes first, such as `tenant:acme` before `total`. `max_hold` counts from
/// the grant of each, so a wait for the next lock uses it up; with `auto_renew = false` it uses up the
/// `ttl`, too.
///
/// A name may be given twice if both are mutexes, readers or writers, as both accounts of the example:
/// it counts once. Any other lock of the same name is an `InvalidOption`.
///
/// The error of a call names the lock that was not free. When one lease is lost, the body is stopped,
/// and the other locks are released. `lease = name` is a `LeaseSetHandle`; functions below find it
/// with `LeaseSetHandle::current()`, where `LeaseHandle::current()` is the last lock by name alone.
/// `once`, `once_per`, `hold_at_least`, `linger` and `reentrant` are for one lock only.
///
/// # The lease in the body
///
/// With `lease = name` the body has a `LeaseHandle` of that name, or a `LeaseSetHandle` if it
/// runs under several locks. It has the key, the
/// fencing token, the remaining time, and `lost()`, which resolves when the lease is lost.
/// Functions that the body calls find the same handle with `LeaseHandle::current()`; under several
/// locks, with `LeaseSetHandle::current()`.
///
/// The fencing token is for the resource to check. A process can be paused past the end of
/// its lease, and goes on for a moment when it wakes up. If a newer holder has written
/// meanwhile, the resource has seen a newer token and refuses the late write.
///
/// ```
/// use leasehold::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "order:{id}", lease = lease)]
/// async fn ship(id: u64) -> Result<bool, LockError> {
///     let fence = i64::from(lease.fence()?); // an error if the lease is lost already
///     let update = "UPDATE orders SET is_shipped = true, fence = $1
///                   WHERE id = $2 AND fence <= $1";
///     Ok(rows_changed_by(update, fence, id).await == 1) // 0: a newer holder was here
/// }
/// # async fn rows_changed_by(_: &str, _: i64, _: u64) -> u64 { 1 }
/// ```
///
/// Permits and readers have no token, because several holders are valid at the same time.
/// There, `lease.fence()` does not compile; on a handle from `LeaseHandle::current()` it
/// fails with `LockError::NotFenced`. `is_held()` says whether the lease is lost.
///
/// # Which client
///
/// The call uses the client that `locks` names. Without `locks` it uses the client of the
/// task's [`Locks::scope`], and outside of a scope the installed one ([`Locks::install`]). If
/// there is none, the call fails with `LockError::NotInstalled`.
///
/// ```
/// use leasehold::{LockError, Locks, distributed_lock};
///
/// struct Shop { locks: Locks }
///
/// impl Shop {
///     #[distributed_lock(key = "order:{order}", locks = self.locks)]
///     async fn ship(&self, order: u64) -> Result<(), LockError> {
///         Ok(())
///     }
/// }
/// ```
///
/// # What the function returns
///
/// `Result<_, E>` with `E: From<LockError>`. If the call cannot acquire the lock, the
/// error says why. Every error except `LockError::Lost` means that the body did not begin.
/// `Lost` means that the body was stopped in its middle: check what it did before you try
/// again. A `LockError` that the body itself returns, from another lock or from
/// `lease.fence()?`, looks the same.
///
/// With `if_held = "skip"` it returns `()`, `Option<_>`, `Result<(), E>` or
/// `Result<Option<_>, E>`. If others hold the lock, the function quietly returns `()`,
/// `None`, `Ok(())` or `Ok(None)`. Any other failure is returned as the error. If the type
/// has no room for an error, the failure is only logged. Prefer `Result<(), E>`. A call that an
/// operator has closed, or whose rate is used up, is skipped, too.
///
/// A job that every process starts, and that succeeds once a day:
///
/// ```
/// use leasehold::{LockError, Locks, distributed_lock};
///
/// #[distributed_lock(key = "nightly", if_held = "skip", once_per = "1day", wait = "5s")]
/// async fn nightly(reports: &mut u32) -> Result<(), LockError> {
///     *reports += 1;
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let mut reports = 0;
/// Locks::in_memory()
///     .scope(async {
///         nightly(&mut reports).await?;
///         nightly(&mut reports).await // skipped: it has succeeded in this day
///     })
///     .await?;
/// # let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
/// # if since.is_ok_and(|since| since.as_secs() % 86_400 < 86_390) { // unless the day ends
/// assert_eq!(reports, 1);
/// # }
/// # Ok(())
/// # }
/// ```
///
/// A function without room for the error does not compile:
///
/// ```compile_fail
/// # use leasehold::distributed_lock;
/// #[distributed_lock(key = "report")]
/// async fn report() {}
/// ```
///
/// # When the lock is released
///
/// After the body, however it ends (its last expression, `return`, `?`), and before the
/// result is returned. So the caller finds the lock free. A failed release is logged and
/// never replaces the body's result. With `hold_at_least` nobody can acquire the lock for
/// the rest of that time, although nobody holds it.
///
/// With `once` or `once_per` a body that returns `Ok` (or anything but a `Result`) completes
/// the lease, whatever is inside: `Ok(500)` is a success, and so is a response with that status.
/// The layer looks at the status instead. From then on, until the time is over, or the next period begins, calls fail with
/// `LockError::Done`, or are skipped with `if_held = "skip"`. After an error, a panic or a loss
/// the lock is free, and the next call runs the body again. `lease.tick()` names the period. A
/// call whose period is done waits for the next one, if that begins before its `wait` is over:
/// so a process whose clock is a little ahead loses no run.
///
/// With `linger` the lock then stays with the process, idle, and the next call there needs
/// no command. When another client wants the lock, it gets it. If the process dies while the
/// lock is idle, the lock stays held for the rest of its `ttl`.
///
/// A transaction belongs inside the function, with its commit. If the caller commits, the
/// next holder may start before the commit.
///
/// # Calls inside the body
///
/// A call inside the body for the same key fails at once with `LockError::TimedOut`, or `Busy`
/// without a wait, which says that the caller holds the lock. A reader inside a reader also waits
/// if a writer came in between.
///
/// With `reentrant`, a call whose caller already holds the mutex goes on under that lease.
/// It sends no command, has the same fencing token, and is stopped if the lease is lost.
/// The outer end releases the lock. Of the nested call's options only `on_lost` and `lease`
/// count.
///
/// The caller holds the mutex if it runs under a lease of the same client: in a function
/// with this attribute, a request under a `LockLayer`, `Lease::run` or `lead`. A spawned task
/// does so if its future runs in `LeaseHandle::scope`. Everybody else waits as ever. Nested
/// calls that run at the same time, as in `join!`, do not exclude each other.
///
/// If the outer call ends before a nested call in a spawned task, that call fails with
/// `LockError::Lost` and the reason `LossReason::Released`.
///
/// ```
/// use leasehold::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "account:{id}", reentrant)]
/// async fn debit(id: u64, amount: u64) -> Result<(), LockError> {
///     Ok(())
/// }
///
/// #[distributed_lock(key = "account:{id}")]
/// async fn close(id: u64) -> Result<(), LockError> {
///     debit(id, 100).await?; // under this call's lease
///     debit(id, 1).await
/// }
/// ```
///
/// # When the lease is lost
///
/// A lease is lost when it can't be renewed in time, when an operator takes the lock by
/// force, at the end of `max_hold`, and with `auto_renew = false` at the end of its `ttl`.
/// From then on, others may acquire the lock.
///
/// The body is dropped at the `.await` where it is, and the function fails with
/// `LockError::Lost`. A body that reaches its end without another `.await` returns its own
/// result, and the loss is logged. So ask `lease.fence()?` before a step that must not
/// overlap with another holder's work: it fails once the loss is known. And let the
/// resource check the token, because the lease can be lost right after the question.
///
/// If stopping halfway is worse than running twice, set `on_lost = "finish"`. The body then
/// runs to its end, possibly at the same time as the next holder. Its result is returned
/// and the loss is logged. The body can ask `lease.is_held()`.
///
/// ```
/// use leasehold::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "import", max_hold = "10m")]
/// async fn import() -> Result<(), LockError> {
///     std::future::pending().await // stuck: stopped after ten minutes
/// }
///
/// #[distributed_lock(key = "move", max_hold = "10m", on_lost = "finish", lease = lease)]
/// async fn move_files(files: Vec<String>) -> Result<usize, LockError> {
///     let mut moved = 0;
///     for file in files {
///         if !lease.is_held() {
///             break; // not in the middle of a file
///         }
///         copy_and_delete(file).await;
///         moved += 1;
///     }
///     Ok(moved)
/// }
/// # async fn copy_and_delete(_: String) {}
/// ```
///
/// `max_hold` counts from the grant. At its end the lock is free for others, so a stuck
/// body does not hold it for ever.
///
/// # Errors
///
/// The call fails with one of these ([`LockError`]) before the body begins:
///
/// - `LockError::TimedOut` if others held the lock, or were before this call in the queue,
///   for the whole `wait`. The caller itself may be the holder.
/// - `LockError::Busy` in the same case, with a `wait` of zero.
/// - `LockError::Done` if the work has succeeded before (`once`, `once_per`).
/// - `LockError::Closed` if an operator's limit leaves no room for it, such as 0.
/// - `LockError::RateLimited` if its `rate` is used up for the whole `wait`.
/// - `LockError::WouldDeadlock` if it would write, and its `owner` reads or writes already.
/// - `LockError::Store` if the store failed for the whole `wait`, and for at least a
///   second; at once if it refuses the client.
/// - `LockError::Quorum` on a quorum, if too few servers agreed because too many of them
///   failed.
/// - `LockError::WrongKind` if the name is in use by another kind of lock, or by something
///   that is not a lock.
/// - `LockError::InvalidKey` if no lock can have the name, for example because the value of
///   a placeholder is empty.
/// - `LockError::InvalidOption` if an argument that is an expression is out of its range.
/// - `LockError::NotInstalled` if there is no client, and `LockError::NoRuntime` if there is no
///   Tokio runtime with timers.
/// - `LockError::Unsupported` if a quorum can't do it, such as `once`.
/// - `LockError::ShutDown` once the client was shut down.
///
/// It fails with `LockError::Lost` if the lease was lost and the body was stopped.
///
/// # Panics
///
/// The call panics if the body does. A background task then releases the lock.
///
/// # Cancel safety
///
/// Safe: a future that is dropped while it waits leaves the queue. Dropped later, it drops
/// the body, and a background task releases the lock.
///
/// # Functions that are not async
///
/// Only an async function can wait for a lock. Blocking work goes inside:
///
/// ```
/// use leasehold::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "thumbnail:{id}", permits = 4, on_lost = "finish")]
/// async fn thumbnail(id: u64) -> Result<u64, LockError> {
///     let work = tokio::task::spawn_blocking(move || id * 2);
///     Ok(work.await.expect("the work does not panic"))
/// }
/// ```
///
/// Such work cannot be stopped. Without `on_lost = "finish"`, the function would return
/// [`LockError`]`::Lost` while the work goes on. If the future is dropped, it continues without
/// the lock. The guide shows [how such work checks its lease][blocking].
///
/// # Other attributes
///
/// `#[tracing::instrument]` works on either side: below this attribute, its span includes
/// the wait; above, only the body. Methods of `#[async_trait]` and functions that end in
/// `Box::pin(async move { .. })` work too. What stands before the box runs without the lock, and must not
/// return.
///
/// The guide has [more on the attribute][guide].
///
/// [`Locks::scope`]: https://docs.rs/leasehold/latest/leasehold/struct.Locks.html#method.scope
/// [`Locks::install`]: https://docs.rs/leasehold/latest/leasehold/struct.Locks.html#method.install
/// [blocking]: https://docs.rs/leasehold/latest/leasehold/guide/long_work/index.html#spawned-tasks
/// [`LockError`]: https://docs.rs/leasehold/latest/leasehold/enum.LockError.html
/// [guide]: https://docs.rs/leasehold/latest/leasehold/guide/attribute/index.html
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::distributed_lock(args.into(), &item.into()).into()
}

#[doc = include_str!("lock_key.md")]
#[proc_macro]
pub fn lock_key(template: TokenStream) -> TokenStream {
    lock_key::lock_key(template.into()).into()
}

#[doc = include_str!("key_part.md")]
#[proc_macro_derive(KeyPart)]
pub fn derive_key_part(item: TokenStream) -> TokenStream {
    key_part::derive(item.into()).into()
}
