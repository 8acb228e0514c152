//! The answer to a refused request: the built-in one, or one of the program's own.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};

use super::held::Boxed;
use super::problem::{Problem, problem};
use super::read_ahead::ReadAhead;
use super::reject::Refusal;

/// A function of the program that answers refused requests.
#[derive(Clone)]
pub(super) struct OnRefused(Arc<dyn Fn(Refusal, Parts) -> Boxed<Response<Bytes>> + Send + Sync>);

impl OnRefused {
    pub(super) fn new<F, Fut, D>(answer: F) -> Self
    where
        F: FnOnce(Refusal, Parts) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Response<D>> + Send,
        D: Into<Bytes>,
    {
        Self(Arc::new(move |refusal, parts| {
            let answer = answer.clone();
            Box::pin(async move { answer(refusal, parts).await.map(Into::into) })
        }))
    }

    /// Its answer. The first poll calls the function. Meanwhile the body, if the inner service has not
    /// got it, is read and forgotten.
    pub(super) fn answer(
        &self,
        refusal: Refusal,
        parts: Parts,
        unread: Option<Box<ReadAhead>>,
    ) -> Answer {
        Answer::Own { answer: (self.0)(refusal, parts), unread }
    }
}

/// The answer to a refused request. It holds neither a lock nor a place among the waiters.
pub(super) enum Answer {
    BuiltIn(Option<Response<Bytes>>),
    Own { answer: Boxed<Response<Bytes>>, unread: Option<Box<ReadAhead>> },
}

impl Answer {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Response<Bytes>> {
        match self {
            Self::BuiltIn(response) => Poll::Ready(response.take().expect("it is given once")),
            Self::Own { answer, unread } => match answer.as_mut().poll(cx) {
                Poll::Pending if unread.as_mut().is_some_and(|body| body.discard(cx)) => {
                    Poll::Ready(incomplete())
                }
                polled => polled,
            },
        }
    }
}

pub(super) fn incomplete() -> Response<Bytes> {
    let details = Problem {
        kind: "incomplete",
        title: "Request incomplete",
        detail: "The connection broke before the request was complete.",
        lock: None,
        retry_after: None,
    };
    problem(StatusCode::BAD_REQUEST, &details, None)
}

/// The head of a request, for the program's own answer. Boxed, because it is large and rare.
pub(super) type KeptParts = Option<Box<Parts>>;

/// Copies the head of a request that goes to the inner service.
pub(super) fn copy_parts<A>(request: Request<A>) -> (Request<A>, KeptParts) {
    let (parts, body) = request.into_parts();
    let copy = Box::new(parts.clone());
    (Request::from_parts(parts, body), Some(copy))
}
