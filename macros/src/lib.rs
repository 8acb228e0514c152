//! The macros of [`leasehold`], which re-exports it: depend on that crate,
//! not on this one.
//!
//! [`leasehold`]: https://docs.rs/leasehold

use proc_macro::TokenStream;

mod args;
mod contradictions;
mod duration;
mod expand;
mod fenceless;
mod function;
mod key_part;
mod lock_key;
mod parser;
mod signature;
mod template;
mod values;

/// Runs an async function or method under a distributed lock.
///
/// A call first acquires the lock that `key` names, then runs the body, then
/// releases the lock, and then returns the body's result. If the lock is not
/// acquired, the body does not run. While the body runs, the lease is renewed;
/// if it is lost all the same, the body is stopped.
///
/// ```
/// use leasehold::{LockError, Locks, distributed_lock};
///
/// #[distributed_lock(key = "invoice:{invoice_id}", ttl = "10s")]
/// async fn charge(invoice_id: u64) -> Result<u64, LockError> {
///     Ok(invoice_id) // one at a time for each invoice, on all servers
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// Locks::in_memory().install(); // on servers: Locks::connect(url).await?.install()
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
/// | `weight` | how much of the `permits` one call takes, from 1 up to all of them; semaphores only | 1 |
/// | `mode` | `"read"` runs beside other readers, `"write"` alone: makes the lock a read-write lock | a mutex |
/// | `if_held` | when the wait is over and others still hold the lock: `"error"` returns the error, `"skip"` returns quietly | `"error"` |
/// | `hold_at_least` | how long the lock stays held after its grant, even if the body is over before: up to 24 h; mutexes only | 0 |
/// | `max_hold` | for how long the lock is held at most, however often the lease is renewed: 100 ms to 30 days | no end |
/// | `auto_renew` | `false` lets the lease end with its `ttl` | `true` |
/// | `on_lost` | when the lease is lost: `"cancel"` stops the body, `"finish"` lets it come to its end | `"cancel"` |
/// | `lease` | the name that the body has for the `LeaseHandle` of its lease | none |
/// | `locks` | the client: a `Locks` or a `QuorumLocks`, or a reference to one; with `permits` a `Locks` | see below |
///
/// A duration is a string with units, such as `"500ms"`, `"10s"` or
/// `"1m 30s"`, checked when compiling; or an expression of type `Duration`.
/// The values of all arguments may be expressions, except those of `mode`,
/// `if_held`, `on_lost` and `lease`.
/// Expressions can use the function's arguments; each is evaluated once for
/// each call, before the body takes the arguments, the key first.
///
/// # The key
///
/// A string literal is a template with a syntax of its own:
///
/// - `{id}` is the argument `id`: whatever name the signature binds, also in a
///   pattern such as `Path(id): Path<u64>`;
/// - `{order.id}` and `{order.lines.0}` are fields of an argument, `{self.id}`
///   of the method's `self`;
/// - `{{` and `}}` are braces.
///
/// There are no format specs and no calls. What a placeholder names implements
/// `KeyPart`: integers, strings, `Uuid` and the like. Of its text, ASCII letters and
/// digits, `-`, `_` and `.` stay; all else is percent-escaped.
///
/// Between two placeholders stands at least one character that is escaped in values,
/// such as a `:`, so that different values never make the same key: `"{a}-{b}"` does
/// not compile.
///
/// For any other key write an expression without quotes, of a type that
/// implements `IntoLockKey`: a string, a `LockKey`, or the `Result` of making
/// one. Nothing in it is escaped.
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
/// With `#[async_trait]` only arguments that are plain names can be used: the
/// names in patterns are bound inside the body there.
///
/// # Calls of different weight
///
/// A call takes one of the semaphore's `permits`, or as many as `weight` says.
/// A heavy call waits for all of them at once, and in its turn: light ones that
/// came later do not pass it.
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
/// A weight of 0, or above `permits`, does not compile where both are literals;
/// otherwise the call fails with `LockError::InvalidOption`.
///
/// # Readers and writers
///
/// With `mode`, calls that read run together, and one that writes runs alone. It
/// waits for those that came before it, and those that come later wait for it.
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
///     Ok(()) // while nobody shows it, on any server
/// }
/// ```
///
/// A function with the same key and no `mode` asks for a mutex of that name: while
/// one kind of lock is in use, whoever asks for another gets
/// `LockError::WrongKind`.
///
/// # The lease in the body
///
/// With `lease = name` the body has a `LeaseHandle` of that name: with the key, the
/// fencing token, what is left of the lease, and `lost()`, which resolves when it is
/// lost. What the body calls finds the same by `LeaseHandle::current()`.
///
/// The token is for the resource to check. A process can stand still past the end of
/// its lease, and go on for a moment when it wakes up; then the resource has seen a
/// newer token, and refuses its write.
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
/// A permit and a reader's lease have no token, since several are out at once:
/// `lease.fence()` does not compile there, elsewhere it is `LockError::NotFenced`; and
/// `is_held()` says whether the lease is lost.
///
/// # Which client
///
/// The one that `locks` names; else that of the task's `Locks::scope`; else the
/// installed one (`Locks::install`). If there is none, the call fails with
/// `LockError::NotInstalled`.
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
/// `Result<_, E>` with `E: From<LockError>`: if the lock is not acquired, the
/// error says why. Every error but `LockError::Lost` means that the body did
/// not begin; after `Lost` it was stopped somewhere in the middle, so look what
/// is done before you try again. (A `LockError` that the body itself returns, of
/// another lock or of `lease.fence()?`, looks the same.)
///
/// With `if_held = "skip"` it returns `()`, `Option<_>`, `Result<(), E>` or
/// `Result<Option<_>, E>`. If others hold the lock, the function returns
/// `()`, `None`, `Ok(())` or `Ok(None)`, quietly. Any other failure is the
/// error; where the type has no room for one, it is an error event in the log,
/// and the body does not run. Prefer `Result<(), E>`.
///
/// A job that every server starts, and one is to run:
///
/// ```
/// use leasehold::{LockError, Locks, distributed_lock};
///
/// #[distributed_lock(key = "nightly", if_held = "skip", hold_at_least = "5m")]
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
///         nightly(&mut reports).await // skipped: still held for five minutes
///     })
///     .await?;
/// assert_eq!(reports, 1);
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
/// After the body, however that ends (its last expression, `return`, `?`), and
/// before the result is returned: the caller finds the lock free. An error of
/// the release is logged; it never takes the place of the body's result. With
/// `hold_at_least` the lock stays held, without a holder, for the rest of that
/// time.
///
/// A transaction belongs inside the function, with its commit: committed by
/// the caller, it would be committed after the next holder has started.
///
/// The lock is not reentrant: a call inside the body for the same key waits
/// for its own caller, until `wait` is over; the error then says that the caller
/// holds it. A reader inside a reader waits as
/// well, if a writer came in between.
///
/// # When the lease is lost
///
/// A lease is lost when it can't be renewed in time, when somebody takes the lock by
/// force, at the end of `max_hold`, and with `auto_renew = false` at the end of its `ttl`.
/// Then others may have the lock.
///
/// The body is cancelled at the `.await` at which it is, and the function fails with
/// `LockError::Lost`. A body that runs to its end without another `.await` returns its own
/// result, and the loss is logged. So before a step that must not be done beside another
/// holder, ask `lease.fence()?`, which is an error by then; and let the resource check
/// the token, since the lease can be lost right after the question.
///
/// With `on_lost = "finish"` the body is never cancelled: it runs to its end, beside the
/// next holder if there is one, its result is returned, and the loss is logged. That is
/// for work which is worse half done than done twice. It can ask its `lease` how things
/// stand.
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
/// `max_hold` counts from the grant. At its end the lock is free for others, so that
/// work which is stuck does not hold it for ever.
///
/// # Panics
///
/// If the body does; the lock is then released in the background.
///
/// # Cancel safety
///
/// Dropping the future while it waits stops waiting. Dropping
/// it later drops the body, and the lock is released in the background.
///
/// # Functions that are not async
///
/// Only an async function can wait for a lock. Blocking work goes inside:
///
/// ```
/// use leasehold::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "thumbnail:{id}", permits = 4)]
/// async fn thumbnail(id: u64) -> Result<u64, LockError> {
///     let work = tokio::task::spawn_blocking(move || id * 2);
///     Ok(work.await.expect("the work does not panic"))
/// }
/// ```
///
/// If the future is dropped, such work runs on without the lock.
///
/// # Other attributes
///
/// `#[tracing::instrument]` goes on either side: below, its span has the wait
/// in it; above, only the body. Methods of `#[async_trait]` and functions that
/// end in `Box::pin(async move { .. })` can be annotated too.
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
