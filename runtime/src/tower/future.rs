//! One request: acquire the lock, run the handler, give the lease to the body.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::task::consume_budget;
use tower::Service;

use super::body::{LeaseBody, under};
use super::grpc;
use super::policy::Policy;
use super::reject::Refusal;
use super::waiters::Acquire;
use crate::core::error::LossReason;
use crate::engine::lease::Lease;

/// Resolves when the lease of a running request is lost.
type Loss = Pin<Box<dyn Future<Output = LossReason> + Send>>;

pin_project! {
    /// The future of a [`LockService`](super::LockService): acquires the lock, and then
    /// runs the inner service.
    ///
    /// # Cancel safety
    ///
    /// A server drops it when the client goes away. Before the lock is acquired, that stops
    /// waiting. Afterwards it drops the inner service's future and then releases the lock
    /// in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Request, Response};
    /// use leasehold::tower::{LockService, ResponseFuture};
    /// use tower::Service;
    /// use tower::util::BoxCloneService;
    /// # use std::convert::Infallible;
    ///
    /// type Inner = BoxCloneService<Request<()>, Response<String>, Infallible>;
    ///
    /// fn call(service: &mut LockService<Inner, &'static str>) -> ResponseFuture<Inner, ()> {
    ///     service.call(Request::new(()))
    /// }
    /// ```
    pub struct ResponseFuture<S, A>
    where
        S: Service<Request<A>>,
    {
        policy: Arc<Policy>,
        // Refusals are statuses of gRPC.
        is_grpc: bool,
        #[pin]
        state: State<S, A>,
        // What logs and metrics call the lock.
        label: Option<&'static str>,
        // An acquisition that did not wait has not paid its part of tokio's budget yet.
        owes_budget: bool,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, A>
    where
        S: Service<Request<A>>,
    {
        Refused { refusal: Refusal },
        Acquiring { acquire: Acquire, call: Option<(S, Request<A>)> },
        // Dropped in this order: the lock is free when its work has stopped.
        // The loss is listened for once the response has to be waited for.
        Running { #[pin] response: S::Future, loss: Option<Loss>, lease: Option<Lease> },
        Done,
    }
}

impl<S, A> ResponseFuture<S, A>
where
    S: Service<Request<A>>,
{
    pub(super) fn locked(
        policy: Arc<Policy>,
        is_grpc: bool,
        (label, acquire): (Option<&'static str>, Acquire),
        inner: S,
        request: Request<A>,
    ) -> Self {
        let state = State::Acquiring { acquire, call: Some((inner, request)) };
        Self { policy, is_grpc, state, label, owes_budget: false }
    }

    /// Runs the inner service at once.
    pub(super) fn under_idle(
        policy: Arc<Policy>,
        is_grpc: bool,
        lease: Lease,
        inner: &mut S,
        request: Request<A>,
    ) -> Self {
        let label = lease.key().label();
        let state = State::run(inner, request, Some(lease));
        Self { policy, is_grpc, state, label, owes_budget: true }
    }

    pub(super) fn unlocked(policy: Arc<Policy>, is_grpc: bool, response: S::Future) -> Self {
        let state = State::Running { response, loss: None, lease: None };
        Self { policy, is_grpc, state, label: None, owes_budget: false }
    }

    pub(super) fn refused(policy: Arc<Policy>, is_grpc: bool, refusal: Refusal) -> Self {
        let state = State::Refused { refusal };
        Self { policy, is_grpc, state, label: None, owes_budget: false }
    }
}

impl<S, A, B> Future for ResponseFuture<S, A>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: Body,
    B::Data: From<Bytes>,
{
    type Output = Result<Response<LeaseBody<B>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if *this.owes_budget {
            ready!(pin!(consume_budget()).poll(cx));
            *this.owes_budget = false;
        }
        loop {
            let next = match this.state.as_mut().project() {
                StateProj::Acquiring { acquire, call } => {
                    let answer = ready!(acquire.as_mut().poll(cx));
                    match answer
                        .map(Some)
                        .or_else(|denied| this.policy.judge(denied, *this.label).map(|()| None))
                    {
                        Ok(lease) => {
                            let (mut inner, request) = call.take().expect("it is acquired once");
                            State::run(&mut inner, request, lease)
                        }
                        Err(refusal) => State::Refused { refusal },
                    }
                }
                StateProj::Running { response, loss, lease } => {
                    // The deadline is looked at before each poll: a handler that
                    // was stopped past it does not go on.
                    if this.policy.needed(lease.as_ref()).is_none_or(Lease::is_held)
                        && let Poll::Ready(response) = under(lease.as_ref(), || response.poll(cx))
                    {
                        let lease = lease.take();
                        this.state.set(State::Done);
                        return Poll::Ready(response.map(|response| {
                            let is_success = is_success(&response);
                            let lease = this.policy.lease_of_body(lease, is_success);
                            response.map(|body| LeaseBody::new(body, lease, is_success))
                        }));
                    }
                    let Some(lease) = this.policy.needed(lease.as_ref()) else {
                        return Poll::Pending;
                    };
                    // A handler that is ready at once needs no timer. A loss is pending until
                    // its reason is known.
                    let loss = loss.get_or_insert_with(|| lost(lease));
                    let reason = ready!(loss.as_mut().poll(cx));
                    State::Refused { refusal: Refusal::Lost(reason) }
                }
                StateProj::Refused { refusal } => {
                    let response = this.policy.answer(refusal, *this.is_grpc, *this.label);
                    this.state.set(State::Done);
                    return Poll::Ready(Ok(response));
                }
                StateProj::Done => panic!("it is polled again after its response"),
            };
            this.state.set(next);
        }
    }
}

impl<S, A> State<S, A>
where
    S: Service<Request<A>>,
{
    fn run(inner: &mut S, mut request: Request<A>, lease: Option<Lease>) -> Self {
        if let Some(lease) = &lease {
            request.extensions_mut().insert(lease.handle());
        }
        let response = under(lease.as_ref(), || inner.call(request));
        Self::Running { response, loss: None, lease }
    }
}

/// Returns true if the head of a response says nothing of a failure.
fn is_success<B>(response: &Response<B>) -> bool {
    let status = response.status();
    !status.is_client_error() && !status.is_server_error() && !grpc::is_failure(response.headers())
}

fn lost(lease: &Lease) -> Loss {
    let handle = lease.handle();
    Box::pin(async move { handle.lost().await })
}

impl<S, A> fmt::Debug for ResponseFuture<S, A>
where
    S: Service<Request<A>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").field("policy", &self.policy).finish_non_exhaustive()
    }
}
