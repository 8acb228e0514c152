//! An operator's view: which locks there are.

use std::collections::BTreeSet;
use std::fmt;
use std::future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::stream::{self, BoxStream, Stream, StreamExt, TryStreamExt};
use tokio::sync::OnceCell;

use super::locks::Locks;
use crate::core::error::{LockError, Step};
use crate::core::name_pattern::NamePattern;
use crate::store::{Ask, ListCursor, ListOf, ListPage, LockInfo, StoreError};

/// How many locks are looked at at the same time.
const LOOKS: usize = 16;

impl Locks {
    /// Lists the locks that are held, kept by `hold_at_least`, or waited for, whose names
    /// match a pattern: `*` is any text, `?` is any one character.
    ///
    /// The locks come in no order, and as [`inspect`](Self::inspect) shows them. A lock that
    /// is held from the first page to the last is in the list, unless another server takes
    /// over meanwhile, or a slot of a cluster moves. One that is acquired or freed meanwhile
    /// may be in it. A lock may come twice.
    ///
    /// On a server it goes through all keys of its database with `SCAN`, some hundred at a
    /// time, on a cluster on each master: other commands are not held up. It needs memory for
    /// one page. A user of the server needs the right `+scan`.
    ///
    /// # Errors
    ///
    /// - [`LockError::Store`] if the store failed, or refuses the client. The list ends with it; but if
    ///   one master of a cluster does not answer, it goes on with those of the others.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let lease = locks.mutex("order:42").note("TICKET-7").lock().await?;
    ///
    /// let mut orders = locks.list("order:*");
    /// while let Some(order) = orders.next().await {
    ///     let order = order?;
    ///     assert_eq!(order.name, "order:42");
    ///     assert_eq!(order.holders[0].note.as_deref(), Some("TICKET-7"));
    /// }
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn list(&self, pattern: impl AsRef<str>) -> LockList {
        self.list_those(pattern.as_ref(), ListOf::Locks, |info| {
            info.held > 0 || info.waiting > 0 || info.kept.is_some()
        })
    }

    /// The same for the locks that somebody waits for. The server leaves out all others, so this costs
    /// little where many locks are held and few are waited for.
    ///
    /// # Errors
    ///
    /// - [`LockError::Store`] if the store failed, or refuses the client. The list ends with it; but if
    ///   one master of a cluster does not answer, it goes on with those of the others.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let lease = locks.mutex("order:42").lock().await?;
    /// assert!(locks.list_waited_for("*").next().await.is_none());
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_waited_for(&self, pattern: impl AsRef<str>) -> LockList {
        self.list_those(pattern.as_ref(), ListOf::Waited, |info| info.waiting > 0)
    }

    /// The prefixes under which this server has locks, also those of other services: for somebody who
    /// finds no lock where it should be. None in memory, where no store has a prefix.
    ///
    /// It goes through all keys, as [`list`](Self::list) does, and needs the same right.
    ///
    /// # Errors
    ///
    /// - [`LockError::Store`] if the store failed, or refuses the client.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// assert!(locks.prefixes().await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn prefixes(&self) -> Result<Vec<String>, LockError> {
        let (all, mut prefixes) = (NamePattern::new("*"), BTreeSet::new());
        let mut from = Some(ListCursor::default());
        while let Some(at) = from {
            let page = self.page(&all, ListOf::Prefixes, at).await?;
            if let Some(error) = page.failed {
                return Err(failed(&all, error));
            }
            prefixes.extend(page.keys.iter().map(|key| key.name().to_owned()));
            from = page.next;
        }
        Ok(prefixes.into_iter().collect())
    }

    fn list_those(&self, pattern: &str, of: ListOf, is_one: fn(&LockInfo) -> bool) -> LockList {
        let all = self.look_at_all(pattern, of);
        let those = all.try_filter(move |found| future::ready(found.as_ref().map_or(true, is_one)));
        LockList { locks: Some(those.boxed()) }
    }

    /// Looks at each of the locks, or of the jobs, whose names match. One may come twice. An error in
    /// place of a lock is of one of several servers, which the list leaves out.
    pub(super) fn look_at_all(
        &self,
        pattern: &str,
        of: ListOf,
    ) -> impl Stream<Item = Result<Found, LockError>> + Send + use<> {
        let (locks, names) = (self.clone(), NamePattern::new(pattern));
        let pages = stream::try_unfold(Some(ListCursor::default()), move |from| {
            let (locks, names) = (locks.clone(), names.clone());
            async move {
                let Some(from) = from else { return Ok(None) };
                let page = locks.page(&names, of, from).await?;
                let failed = page.failed.map(|error| failed(&names, error));
                let keys = page.keys.into_iter().map(Ok).chain(failed.map(Err));
                Ok::<_, LockError>(Some((keys.collect::<Vec<_>>(), page.next)))
            }
        });
        let keys = pages.map_ok(|keys| stream::iter(keys).map(Ok)).try_flatten();
        let (locks, limits) = (self.clone(), Arc::new(OnceCell::new()));
        let shown = keys.map_ok(move |key| {
            let (locks, limits) = (locks.clone(), limits.clone());
            async move {
                Ok(match key {
                    Ok(key) => Ok(locks.look_at(key, &limits).await?),
                    Err(error) => Err(error),
                })
            }
        });
        shown.try_buffered(LOOKS)
    }

    async fn page(
        &self,
        names: &NamePattern,
        of: ListOf,
        from: ListCursor,
    ) -> Result<ListPage, LockError> {
        let failed = |error| failed(names, error);
        self.client().keeper.check_not_forked().map_err(failed)?;
        // Only a quorum can't, and users have no `Locks` of one.
        let Some(page) = self.client().store.list(names, of, from) else {
            return Err(LockError::Unsupported { what: "a list of the locks" });
        };
        page.await.map_err(failed)
    }
}

/// A lock of a list, or why one of several servers did not answer.
pub(super) type Found = Result<LockInfo, LockError>;

fn failed(names: &NamePattern, error: StoreError) -> LockError {
    LockError::of_store(Step::Inspect, format!("the locks `{names}`"), None, error)
}

/// The locks that are held or waited for, from [`Locks::list`]: a stream.
///
/// # Cancel safety
///
/// Dropping it, or the future of [`next`](Self::next), changes nothing. A dropped `next` may
/// be called again.
///
/// # Examples
///
/// ```
/// use leasehold::{LockError, LockList};
///
/// async fn print(mut locks: LockList) -> Result<(), LockError> {
///     while let Some(lock) = locks.next().await {
///         let lock = lock?;
///         println!("{}: {} hold it, {} wait", lock.name, lock.held, lock.waiting);
///     }
///     Ok(())
/// }
/// ```
#[must_use = "the locks are looked at when the list is read"]
pub struct LockList {
    /// `None` after its end.
    locks: Option<BoxStream<'static, Result<Found, LockError>>>,
}

impl LockList {
    /// The next lock; `None` at the end of the list.
    ///
    /// # Errors
    ///
    /// - [`LockError::Store`] if the store failed, or refuses the client. The list ends with it; but if
    ///   one master of a cluster does not answer, it goes on with those of the others.
    ///
    /// # Cancel safety
    ///
    /// Safe: a dropped future loses no lock of the list.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// assert!(locks.list("*").next().await.is_none());
    ///
    /// let lease = locks.mutex("order:42").lock().await?;
    /// let first = locks.list("*").next().await.expect("one is held")?;
    /// assert_eq!(first.name, "order:42");
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<Result<LockInfo, LockError>> {
        StreamExt::next(self).await
    }
}

impl Stream for LockList {
    type Item = Result<LockInfo, LockError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(locks) = &mut self.locks else { return Poll::Ready(None) };
        let next = ready!(locks.poll_next_unpin(cx));
        if !matches!(next, Some(Ok(_))) {
            self.locks = None;
        }
        Poll::Ready(next.map(|found| found.and_then(|found| found)))
    }
}

impl fmt::Debug for LockList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockList").finish_non_exhaustive()
    }
}
