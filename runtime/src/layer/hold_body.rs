//! A body under leases that a handler has acquired itself.

use http_body::Body;

use super::body::LeaseBody;
use super::held::Held;
use crate::engine::lease::Lease;
use crate::engine::lease_set::LeaseSet;

impl Lease {
    /// A response's body that holds this lease until its end, as a [`LockLayer`](crate::LockLayer) does:
    /// for a handler that acquires a lock by hand and returns a stream.
    ///
    /// When the body has ended, the lease is released, or completed if it has
    /// [`once`](crate::Mutex::once); after an error of the body, or if it is dropped, it is released.
    /// A body whose lease is lost goes on: a stream that must not do so asks
    /// [`is_held`](crate::LeaseHandle::is_held), or ends with [`lost`](crate::LeaseHandle::lost).
    /// Where a server sends no body, as for HEAD, the lease ends with the response.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::Response;
    /// use leasehold::{LockError, Locks, layer::LeaseBody};
    ///
    /// async fn export(locks: &Locks) -> Result<Response<LeaseBody<String>>, LockError> {
    ///     let lease = locks.mutex("export").lock().await?;
    ///     let rows = String::from("a,b\n"); // in axum a `Body::from_stream(…)`
    ///     Ok(Response::new(lease.hold_body(rows))) // and `Body::new(lease.hold_body(…))`
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = Locks::in_memory();
    /// # let response = export(&locks).await?;
    /// # assert!(locks.mutex("export").try_lock().await.is_err());
    /// # drop(response);
    /// # assert!(locks.mutex("export").try_lock().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn hold_body<B: Body>(self, body: B) -> LeaseBody<B> {
        held(Held::One(self), body)
    }
}

impl LeaseSet {
    /// A response's body that holds these leases until its end, as [`Lease::hold_body`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let both = locks.together().permit("tenant:7", 4).permit("exports", 64).lock().await?;
    /// let body = both.hold_body(String::from("a,b\n"));
    /// assert_eq!(locks.inspect("exports").await?.held, 1);
    /// # drop(body);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn hold_body<B: Body>(self, body: B) -> LeaseBody<B> {
        held(Held::All(self), body)
    }
}

/// A body that says how long it is tells its last frame.
fn held<B: Body>(held: Held, body: B) -> LeaseBody<B> {
    let announced = body.size_hint().exact();
    LeaseBody::new(body, Some(held).filter(|held| !held.is_empty()), true, announced)
}
