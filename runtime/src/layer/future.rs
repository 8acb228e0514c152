//! One request: acquire the lock, run the handler, give the lease to the body.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::task::consume_budget;
use tower::Service;

use super::answer::{Answer, KeptParts, incomplete};
use super::body::LeaseBody;
use super::call::Call;
use super::ending::Ending;
use super::held::Held;
use super::held_body::under;
use super::hold::{HoldUntil, OnLost};
use super::policy::Policy;
use super::reject::Refusal;
use super::response_head::{announced, is_success, sends_body};
use super::stop::Stop;
use super::upgrade;
use super::waiters::{Acquire, Denied};
use crate::core::lock_key::NO_LABEL;

pin_project! {
    /// The future of a [`LockService`](super::LockService): acquires the lock, and then
    /// runs the inner service.
    ///
    /// # Cancel safety
    ///
    /// A server drops it when it notices that the client has gone. Before the lock is acquired, that
    /// stops waiting. Afterwards it drops the inner service's future and then releases the lock
    /// in the background. A refused request holds nothing: only the future of
    /// [`on_refused`](super::LockLayer::on_refused) is dropped.
    ///
    /// # Panics
    ///
    /// If the inner service panics: it goes on with that panic when the lock is released. If
    /// `on_refused` panics.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Method, Request, Response, StatusCode};
    /// use leasehold::layer::{LockService, ResponseFuture};
    /// use tower::Service;
    /// use tower::util::BoxCloneService;
    /// # use std::convert::Infallible;
    ///
    /// type Inner = BoxCloneService<Request<()>, Response<String>, Infallible>;
    ///
    /// fn call(service: &mut LockService<Inner, &'static str>) -> ResponseFuture<Inner, (), String> {
    ///     service.call(Request::new(()))
    /// }
    /// ```
    pub struct ResponseFuture<S, A, B>
    where
        S: Service<Request<A>>,
    B: Body,
    {
        policy: Arc<Policy>,
        // Refusals are statuses of gRPC.
        is_grpc: bool,
        #[pin]
        state: State<S, A, B>,
        // What logs and metrics call the lock.
        label: &'static str,
        // An acquisition that did not wait has not paid its part of tokio's budget yet.
        owes_budget: bool,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, A, B>
    where
        S: Service<Request<A>>,
    B: Body,
    {
        Refused { answer: Answer },
        Acquiring { acquire: Acquire, call: Option<Call<S, A>> },
        // Dropped in this order: the lock is free when its work has stopped.
        Running {
            #[pin]
            response: S::Future,
            stop: Stop,
            held: Option<Held>,
            method: Method,
            // For the program's own answer, if it is stopped.
            parts: KeptParts,
        },
        // Whoever reads the outcome may come again at once, and must find the lock free.
        Ending { ending: Ending<Outcome<S::Response, S::Error>> },
        // What is ready of the body is taken before the head is given. If that is all, the lock is
        // released first.
        Early { response: Option<Response<LeaseBody<B>>> },
        Done,
    }
}

/// What the layer does once the lease has ended.
enum Outcome<R, E> {
    Answer(Result<R, E>),
    Refuse(Refusal, KeptParts),
    Panic(Box<dyn Any + Send>),
}

impl<S, A, B> ResponseFuture<S, A, B>
where
    S: Service<Request<A>>,
    A: 'static,
    B: Body,
{
    pub(super) fn locked(
        policy: Arc<Policy>,
        is_grpc: bool,
        (label, acquire): (&'static str, Acquire),
        inner: S,
        request: Request<A>,
    ) -> Self {
        let state = State::Acquiring { acquire, call: Some(Call::new(inner, request)) };
        Self { policy, is_grpc, state, label, owes_budget: false }
    }

    /// Runs the inner service at once.
    pub(super) fn under_idle(
        policy: Arc<Policy>,
        is_grpc: bool,
        held: Held,
        inner: &mut S,
        request: Request<A>,
    ) -> Self {
        let label = held.log_label();
        let state = State::run(&policy, is_grpc, inner, request, Some(held));
        Self { policy, is_grpc, state, label, owes_budget: true }
    }

    pub(super) fn unlocked(policy: Arc<Policy>, is_grpc: bool, response: S::Future) -> Self {
        let (stop, held, method) = (Stop::default(), None, Method::GET);
        let state = State::Running { response, stop, held, method, parts: None };
        Self { policy, is_grpc, state, label: NO_LABEL, owes_budget: false }
    }

    pub(super) fn refused(
        policy: Arc<Policy>,
        is_grpc: bool,
        refusal: Refusal,
        request: Request<A>,
    ) -> Self {
        let answer = policy.refuse(refusal, is_grpc, NO_LABEL, request);
        let state = State::Refused { answer };
        Self { policy, is_grpc, state, label: NO_LABEL, owes_budget: false }
    }
}

impl<S, A, B> Future for ResponseFuture<S, A, B>
where
    S: Service<Request<A>, Response = Response<B>>,
    A: 'static,
    B: Body,
    B::Data: From<Bytes>,
{
    type Output = Result<Response<LeaseBody<B>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let (policy, is_grpc, label) = (&**this.policy, *this.is_grpc, *this.label);
        if *this.owes_budget {
            ready!(pin!(consume_budget()).poll(cx));
            *this.owes_budget = false;
        }
        loop {
            let next = match this.state.as_mut().project() {
                StateProj::Acquiring { acquire, call } => match acquire.as_mut().poll(cx) {
                    Poll::Ready(answer) => {
                        let call = call.take().expect("it is acquired once");
                        State::asked(policy, is_grpc, label, answer, call.into_parts())
                    }
                    Poll::Pending => {
                        let call = call.as_mut().expect("it is not acquired yet");
                        if !call.is_cut_off(policy.read_ahead, cx) {
                            return Poll::Pending;
                        }
                        State::Refused { answer: Answer::BuiltIn(Some(incomplete())) }
                    }
                },
                StateProj::Running { response, stop, held, method, parts } => {
                    // A handler that was stopped past its deadline does not go on.
                    let may_go_on = policy.needed(held.as_ref()).is_none_or(Held::is_held);
                    let lasts = policy.on_lost == OnLost::Cancel;
                    let polled =
                        may_go_on.then(|| caught(held.as_ref(), lasts, || response.poll(cx)));
                    let outcome = match polled {
                        Some(Ok(Poll::Ready(answer))) => Outcome::Answer(answer),
                        Some(Err(panic)) => Outcome::Panic(panic),
                        Some(Ok(Poll::Pending)) | None => {
                            let refusal = ready!(stop.poll(policy, held.as_ref(), cx));
                            let needed = policy.needed(held.as_ref());
                            *this.label = needed.map_or(label, Held::log_label);
                            Outcome::Refuse(refusal, parts.take())
                        }
                    };
                    let (held, method) = (held.take(), std::mem::take(method));
                    // The handler is dropped under its lock.
                    this.state.set(State::Done);
                    let Outcome::Answer(Ok(mut response)) = outcome else {
                        this.state.set(State::ending(held, false, outcome));
                        continue;
                    };
                    Policy::note_loss(held.as_ref());
                    let held = held.and_then(|held| held.told(response.headers_mut()));
                    let is_success = is_success(&response);
                    let held = match held {
                        Some(held) if policy.keeps_upgraded(&method, &response) => {
                            upgrade::leave(held, is_success, &policy.warned)
                        }
                        held => held,
                    };
                    let bytes = announced(response.headers(), response.body());
                    if policy.hold_until == HoldUntil::BodyEnd
                        && bytes != Some(0)
                        && sends_body(&method, &response)
                    {
                        let with_lease = |body| LeaseBody::new(body, held, is_success, bytes);
                        this.state.set(State::Early { response: Some(response.map(with_lease)) });
                        continue;
                    }
                    State::ending(held, is_success, Outcome::Answer(Ok(response)))
                }
                StateProj::Ending { ending } => match ready!(ending.poll(cx)) {
                    Outcome::Answer(answer) => {
                        this.state.set(State::Done);
                        return Poll::Ready(answer.map(|response| {
                            response.map(|body| LeaseBody::new(body, None, false, None))
                        }));
                    }
                    Outcome::Refuse(refusal, parts) => State::Refused {
                        answer: policy.answer(refusal, is_grpc, this.label, parts, None),
                    },
                    Outcome::Panic(panic) => resume_unwind(panic),
                },
                StateProj::Refused { answer } => {
                    let response = ready!(answer.poll(cx));
                    this.state.set(State::Done);
                    return Poll::Ready(Ok(response.map(LeaseBody::refusal)));
                }
                StateProj::Early { response } => {
                    if let Some(given) = response {
                        let early = || given.body_mut().poll_early(cx);
                        match catch_unwind(AssertUnwindSafe(early)) {
                            Ok(polled) => ready!(polled),
                            // It is not polled again, and dropped under its lock.
                            Err(panic) => {
                                let held = given.body_mut().take_held();
                                *response = None;
                                this.state.set(State::ending(held, false, Outcome::Panic(panic)));
                                continue;
                            }
                        }
                    }
                    let response = response.take().expect("it is given once");
                    this.state.set(State::Done);
                    return Poll::Ready(Ok(response));
                }
                StateProj::Done => panic!("it is polled again after its response"),
            };
            this.state.set(next);
        }
    }
}

impl<S, A, B> State<S, A, B>
where
    S: Service<Request<A>>,
    A: 'static,
    B: Body,
{
    /// The store has answered, or the layer did without it.
    fn asked(
        policy: &Policy,
        is_grpc: bool,
        label: &'static str,
        answer: Result<Held, Denied>,
        (mut inner, request): (S, Request<A>),
    ) -> Self {
        let judge = |denied| policy.judge(denied, label).map(|()| None);
        match answer.map(Some).or_else(judge) {
            Ok(held) => Self::run(policy, is_grpc, &mut inner, request, held),
            Err(refusal) => {
                let answer = policy.refuse(refusal, is_grpc, label, request);
                Self::Refused { answer }
            }
        }
    }

    fn run(
        policy: &Policy,
        is_grpc: bool,
        inner: &mut S,
        request: Request<A>,
        mut held: Option<Held>,
    ) -> Self {
        // Before the handles are in the request: their lease is lost when the copy is used.
        let (mut request, parts) = policy.keep_parts(held.as_ref(), is_grpc, request);
        if let Some(held) = &mut held {
            upgrade::give_handles(held, &mut request);
        }
        let method = request.method().clone();
        match caught(held.as_ref(), false, || inner.call(request)) {
            Ok(response) => Self::Running { response, stop: Stop::default(), held, method, parts },
            Err(panic) => Self::ending(held, false, Outcome::Panic(panic)),
        }
    }

    fn ending(
        held: Option<Held>,
        is_success: bool,
        outcome: Outcome<S::Response, S::Error>,
    ) -> Self {
        Self::Ending { ending: Ending::new(held, is_success, outcome) }
    }
}

/// Runs a part of the inner service under the lease. If it panics, it is not called again, and
/// the panic goes on once the lease has ended.
fn caught<R>(
    held: Option<&Held>,
    lasts: bool,
    work: impl FnOnce() -> R,
) -> Result<R, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(|| under(held, lasts, work)))
}

impl<S, A, B> fmt::Debug for ResponseFuture<S, A, B>
where
    S: Service<Request<A>>,
    B: Body,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").field("policy", &self.policy).finish_non_exhaustive()
    }
}
