//! The response's body, which holds the lease until its end.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::grpc;
use crate::engine::lease::Lease;

pin_project! {
    /// The body of a response from a [`LockService`](super::LockService): that of the inner
    /// service, which holds the lease until its end, or that of a refusal.
    ///
    /// The release begins at the first of these: the last frame was given to the HTTP
    /// server, the body failed, or the body was dropped. If there is nothing to send, as
    /// with status 204, it begins at once. An HTTP server may drop the body of a response to
    /// HEAD unread.
    ///
    /// Nothing waits for the release: it runs in the background. Trailers, the size hint
    /// and errors pass through. While the body is polled and holds the lease,
    /// [`LeaseHandle::current`](crate::LeaseHandle::current) is the lease's.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Request, Response};
    /// use leasehold::tower::LeaseBody;
    /// use leasehold::{LockLayer, Locks};
    /// use tower::{Layer, ServiceExt};
    /// # use std::convert::Infallible;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = Locks::in_memory();
    /// let service = LockLayer::mutex(&locks, "import").layer(tower::service_fn(
    ///     |_: Request<()>| async { Ok::<_, Infallible>(Response::new(String::from("done"))) },
    /// ));
    /// let body: LeaseBody<String> = service.oneshot(Request::new(())).await?.into_body();
    /// assert!(locks.mutex("import").try_lock().await.is_err());
    /// drop(body);
    /// assert!(locks.mutex("import").lock().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    pub struct LeaseBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = KindProj]
    enum Kind<B> {
        // Dropped in this order, so that the body is dropped under the lock.
        Inner { #[pin] body: B, lease: Option<Lease>, is_success: bool },
        Refusal { text: Option<Bytes> },
    }
}

/// Runs a function in which the current lease is this one, if there is one.
pub(super) fn under<R>(lease: Option<&Lease>, work: impl FnOnce() -> R) -> R {
    match lease {
        Some(lease) => lease.sync_scope(work),
        None => work(),
    }
}

/// Ends the lease of a body that has nothing more to send.
fn end(lease: &mut Option<Lease>, is_success: bool) {
    if let Some(lease) = lease.take().filter(|_| is_success) {
        lease.complete_later();
    }
}

impl<B: Body> LeaseBody<B> {
    /// Holds the lease, if there is one, for as long as the body has something to send.
    /// If the request is a success by then, the lease is completed.
    pub(super) fn new(body: B, mut lease: Option<Lease>, is_success: bool) -> Self {
        // A body at its end may never be polled.
        if body.is_end_stream() {
            end(&mut lease, is_success);
        }
        Self { kind: Kind::Inner { body, lease, is_success } }
    }
}

/// An empty body without a lease, for layers outside that answer by themselves, such as a
/// time-out.
impl<B> Default for LeaseBody<B> {
    fn default() -> Self {
        Self { kind: Kind::Refusal { text: None } }
    }
}

impl<B> LeaseBody<B> {
    /// A refusal's text.
    pub(super) fn refusal(text: Bytes) -> Self {
        Self { kind: Kind::Refusal { text: Some(text).filter(|text| !text.is_empty()) } }
    }
}

impl<B> Body for LeaseBody<B>
where
    B: Body,
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.project().kind.project() {
            KindProj::Inner { mut body, lease, is_success } => {
                let frame = ready!(under(lease.as_ref(), || body.as_mut().poll_frame(cx)));
                *is_success &= match &frame {
                    None => true,
                    Some(Ok(frame)) => !frame.trailers_ref().is_some_and(grpc::is_failure),
                    Some(Err(_)) => false,
                };
                // A server that sees the end coming does not poll again.
                if !matches!(frame, Some(Ok(_))) || body.is_end_stream() {
                    end(lease, *is_success);
                }
                Poll::Ready(frame)
            }
            KindProj::Refusal { text } => {
                Poll::Ready(text.take().map(|text| Ok(Frame::data(text.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Inner { body, .. } => body.is_end_stream(),
            Kind::Refusal { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Inner { body, .. } => body.size_hint(),
            Kind::Refusal { text } => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use http::HeaderMap;
    use http_body_util::BodyExt;

    use super::*;
    use crate::api::locks::Locks;

    /// Sends what it is given. It says that it is at its end if it is to.
    struct Script {
        frames: VecDeque<Result<Frame<Bytes>, &'static str>>,
        says_the_end: bool,
    }

    impl Body for Script {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
            Poll::Ready(self.frames.pop_front())
        }

        fn is_end_stream(&self) -> bool {
            self.says_the_end && self.frames.is_empty()
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(7)
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "it stands beside errors")]
    fn data() -> Result<Frame<Bytes>, &'static str> {
        Ok(Frame::data(Bytes::from_static(b"data")))
    }

    /// A body under a lock, and how to see whether that is held.
    async fn body<const N: usize>(
        frames: [Result<Frame<Bytes>, &'static str>; N],
        says_the_end: bool,
    ) -> (LeaseBody<Script>, impl AsyncFn() -> bool) {
        let mutex = Locks::in_memory().mutex("a");
        let lease = mutex.lock().await.unwrap();
        let script = Script { frames: frames.into(), says_the_end };
        let is_held = async move || mutex.try_lock().await.is_err();
        (LeaseBody::new(script, Some(lease), true), is_held)
    }

    #[tokio::test]
    async fn it_holds_until_none() {
        let (mut body, is_held) = body([data(), data()], false).await;
        for _ in 0..2 {
            assert!(body.frame().await.unwrap().is_ok());
            assert!(is_held().await);
        }
        assert!(body.frame().await.is_none());
        assert!(!is_held().await);
    }

    #[tokio::test]
    async fn it_holds_until_the_end_is_in_sight() {
        let (mut body, is_held) = body([data(), data()], true).await;
        assert!(body.frame().await.is_some());
        assert!(is_held().await);
        assert!(body.frame().await.is_some());
        assert!(body.is_end_stream());
        assert!(!is_held().await);
    }

    #[tokio::test]
    async fn it_does_not_hold_where_nothing_is_to_be_sent() {
        let (body, is_held) = body([], true).await;
        assert!(!is_held().await);
        drop(body);
    }

    #[tokio::test]
    async fn it_holds_until_an_error() {
        let (mut body, is_held) = body([data(), Err("broken"), data()], false).await;
        assert!(body.frame().await.unwrap().is_ok());
        assert!(is_held().await);
        assert_eq!(body.frame().await.unwrap().unwrap_err(), "broken");
        assert!(!is_held().await);
    }

    #[tokio::test]
    async fn it_holds_until_it_is_dropped() {
        let (mut body, is_held) = body([data(), data()], false).await;
        assert!(body.frame().await.is_some());
        drop(body);
        assert!(!is_held().await);
    }

    #[tokio::test]
    async fn trailers_and_the_size_pass_through() {
        let trailers = HeaderMap::from_iter([(http::header::ETAG, "a".parse().unwrap())]);
        let (mut body, is_held) = body([data(), Ok(Frame::trailers(trailers.clone()))], true).await;
        assert_eq!(body.size_hint().exact(), Some(7));
        assert!(body.frame().await.is_some());
        assert!(is_held().await);
        assert_eq!(body.frame().await.unwrap().unwrap().into_trailers().unwrap(), trailers);
        assert!(!is_held().await);
    }

    #[tokio::test]
    async fn a_refusal_is_one_frame() {
        let mut body = LeaseBody::<Script>::refusal(Bytes::from_static(b"no"));
        assert_eq!(body.size_hint().exact(), Some(2));
        assert!(!body.is_end_stream());
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "no");
        assert!(body.is_end_stream());
        assert!(LeaseBody::<Script>::refusal(Bytes::new()).is_end_stream());
        assert!(LeaseBody::<Script>::default().is_end_stream());
    }
}
