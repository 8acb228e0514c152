//! The response's body, which holds the lease until its end.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::held::Held;
use super::held_body::HeldBody;

pin_project! {
    /// The body of a response from a [`LockService`](super::LockService): that of the inner
    /// service, which holds the lease until its end, or that of a refusal.
    ///
    /// The end is held back until the lock store has answered the release. So an HTTP client that
    /// has read the whole response is not refused because of it. If the whole body is ready with
    /// the head, up to 16 frames or 64 KiB, the head waits too, and the body holds no lease any
    /// more. Otherwise the last frame waits: the one after which the inner body says that it is
    /// at its end, or has given as much as the response's `Content-Length` announces. If neither
    /// tells, the end itself waits, and so do trailers and an error. If the store fails, they wait
    /// no longer than [`Lease::release`](crate::Lease::release) would.
    ///
    /// The lease of a body that is dropped is released in the background. A body that an HTTP
    /// server does not send, as with status 204 or for HEAD, holds none. Trailers, the size hint
    /// and errors pass through. While the body is polled and holds the lease,
    /// [`LeaseHandle::current`](crate::LeaseHandle::current) is the lease's.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Request, Response};
    /// use leasehold::layer::LeaseBody;
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
    /// // Its text was ready with the head.
    /// assert!(locks.mutex("import").try_lock().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub struct LeaseBody<B>
    where
        B: Body,
    {
        kind: BodyKind<B>,
    }
}

enum BodyKind<B: Body> {
    Inner(HeldBody<B>),
    Refusal { text: Option<Bytes> },
}

impl<B: Body> LeaseBody<B> {
    /// Holds what the request holds for as long as the body has something to send: this many bytes, if
    /// that is announced. If the request is a success by then, the lease is completed.
    pub(super) fn new(
        body: B,
        held: Option<Held>,
        is_success: bool,
        announced: Option<u64>,
    ) -> Self {
        Self { kind: BodyKind::Inner(HeldBody::new(body, held, is_success, announced)) }
    }

    /// Takes what is ready with the head, so that a server sends both together: a second part
    /// could wait for the client to acknowledge the first. Ready when the head may be sent.
    pub(super) fn poll_early(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.kind {
            BodyKind::Inner(inner) => inner.poll_early(cx),
            BodyKind::Refusal { .. } => Poll::Ready(()),
        }
    }

    /// What the request holds, if the body still has it.
    pub(super) fn take_held(&mut self) -> Option<Held> {
        match &mut self.kind {
            BodyKind::Inner(inner) => inner.take_held(),
            BodyKind::Refusal { .. } => None,
        }
    }

    /// A refusal's text.
    pub(super) fn refusal(text: Bytes) -> Self {
        Self { kind: BodyKind::Refusal { text: Some(text).filter(|text| !text.is_empty()) } }
    }
}

/// An empty body without a lease, for layers outside that answer by themselves, such as a
/// time-out.
impl<B: Body> Default for LeaseBody<B> {
    fn default() -> Self {
        Self { kind: BodyKind::Refusal { text: None } }
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
        match self.project().kind {
            BodyKind::Inner(inner) => inner.poll_frame(cx),
            BodyKind::Refusal { text } => {
                Poll::Ready(text.take().map(|text| Ok(Frame::data(text.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            BodyKind::Inner(inner) => inner.is_end_stream(),
            BodyKind::Refusal { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Inner(inner) => inner.size_hint(),
            BodyKind::Refusal { text } => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
        }
    }
}

impl<B: Body + fmt::Debug> fmt::Debug for LeaseBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            BodyKind::Inner(inner) => inner.fmt(f),
            BodyKind::Refusal { text } => f.debug_struct("LeaseBody").field("text", text).finish(),
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
        (LeaseBody::new(script, Some(Held::One(lease)), true, None), is_held)
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
