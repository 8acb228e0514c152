//! The contract of every store, by capability. One line runs all cases on a store. A case that is
//! in no list is dead code, which the lints refuse.

mod adopt;
mod adopt_queue;
mod adopt_refused;
mod core;
mod fence;
mod force;
mod jobs;
mod last_limit;
mod lease_set;
mod limits;
mod linger;
mod listing;
mod multi_atomic;
mod notes;
mod offers;
mod once;
mod operator;
#[cfg(feature = "servers")]
mod over_tls;
mod queue;
mod queue_kinds;
mod rates;
pub(crate) mod reentrant;
mod renewals;
mod replace;
mod rw;
pub(crate) mod rw_queue;
mod semaphore;
mod semaphore_queue;
pub(crate) mod several;
mod turns;
pub(crate) mod waiting;

use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use leasehold::Outcome;
use leasehold::store::{
    AnswerOf, Ask, Attempt, ClientId, Ended, Kind, Owner, QueuePosition, Renewal, Reply, Request,
    Stamp, Waiting,
};
use leasehold_tests::backend::Backend;
use leasehold_tests::requests::Requests;
use leasehold_tests::waiting::until_some;
use tokio::runtime::Builder;

/// A module for a backend, with one test for each case of these suites.
macro_rules! suites {
    ($backend:ident: $($suite:ident),*) => {
        use leasehold_tests::backend::$backend as Store;

        $(super::$suite::cases!(crate::conformance::case);)*
    };
}

macro_rules! conformance {
    ($backend:ident $(, $more:ident)*) => {
        suites!($backend: adopt, adopt_queue, adopt_refused, core, fence, force, jobs, last_limit,
            lease_set, limits, multi_atomic, notes, offers, once, operator, queue,
            queue_kinds, rates, reentrant, renewals, replace, rw, rw_queue,
            semaphore, semaphore_queue, several, turns, waiting $(, $more)*);
    };
}

/// The same for a store without a queue, which has only mutexes and read-write locks.
macro_rules! without_queue {
    ($backend:ident) => {
        suites!($backend: core, fence, rw, several);
    };
}

/// The same for a store, or a way to a server, that hands each command on unchanged: the suites that
/// have each command.
#[cfg(feature = "servers")]
macro_rules! forwarding {
    ($backend:ident $(, $more:ident)*) => {
        suites!($backend: adopt, core, fence, force, jobs, last_limit, lease_set, listing, notes,
            offers, once, operator, rates, replace, rw, semaphore, several $(, $more)*);
    };
}

macro_rules! case {
    ($suite:ident: $($name:ident),* $(,)?) => {
        mod $suite {
            $(
                #[test]
                fn $name() {
                    use crate::conformance::{$suite::$name, run};
                    run::<super::Store>(|backend| Box::pin($name(backend)));
                }
            )*
        }
    };
}
use case;

pub(crate) type Case = for<'a> fn(&'a dyn Backend) -> LocalBoxFuture<'a, ()>;

/// Runs a case. There are thousands, so this is compiled once for each store.
pub(crate) fn run<B: Backend>(case: Case) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("there is a runtime");
    let run = Box::pin(async { case(&B::start().await).await });
    runtime.block_on(run);
}

mod memory {
    conformance!(Memory, listing, linger);
}

mod quorum_in_memory {
    without_queue!(QuorumInMemory);
}

#[cfg(feature = "servers")]
mod redis {
    conformance!(Redis, listing, linger);
}

#[cfg(feature = "servers")]
mod lazy {
    forwarding!(Lazy, limits, linger);
}

#[cfg(feature = "servers")]
mod pool {
    forwarding!(Pool);
}

#[cfg(feature = "servers")]
mod sentinel {
    conformance!(Sentinel, listing, linger);
}

#[cfg(feature = "servers")]
mod quorum {
    without_queue!(Quorum);
}

#[cfg(feature = "servers")]
mod quorum_of_five {
    without_queue!(QuorumOfFive);
}

#[cfg(feature = "servers")]
mod quorum_without_its_minority {
    without_queue!(QuorumWithoutMinority);
}

#[cfg(feature = "servers")]
mod resp2 {
    forwarding!(Resp2, linger);
}

#[cfg(feature = "servers")]
mod least_rights {
    conformance!(LeastRights, linger);
}

#[cfg(feature = "servers")]
mod cluster {
    conformance!(Cluster, listing, linger);
}

/// Longer than any test, so a slow machine loses no lease.
const LONG: Duration = Duration::from_secs(30);

/// The only permit of a semaphore.
const PERMIT: Kind = Kind::Semaphore { limit: 1, weight: 1 };

/// The TTL for cases about expiry. A command has a third of it.
const SHORT: Duration = Duration::from_millis(300);

/// Requests of one client.
struct Client {
    id: ClientId,
    requests: Requests,
}

impl Client {
    fn new() -> Self {
        let id = ClientId::random();
        Self { id, requests: Requests::of(id) }
    }

    fn mutex(&self, ttl: Duration) -> Request {
        self.request(Kind::Mutex, ttl)
    }

    fn permit(&self, limit: u32, ttl: Duration) -> Request {
        self.request(Kind::Semaphore { limit, weight: 1 }, ttl)
    }

    fn weighted(&self, limit: u32, weight: u32) -> Request {
        self.request(Kind::Semaphore { limit, weight }, LONG)
    }

    /// A request of this owner.
    fn owned(&self, kind: Kind, owner: &str, ttl: Duration) -> Request {
        let owner = Some(Owner::new(owner).expect("a name"));
        Request { owner, ..self.request(kind, ttl) }
    }

    fn request(&self, kind: Kind, ttl: Duration) -> Request {
        self.requests.next("a", kind, ttl)
    }
}

/// Sends a command again if no answer came in time, as a client would: a server has little
/// time for a short lease, and the machine may be busy.
async fn answered<T: AnswerOf>(send: impl Fn() -> Reply<T>) -> T {
    let mut more = 0..9;
    loop {
        match send().await {
            Err(error) if error.outcome == Outcome::Unknown && more.next().is_some() => {}
            answer => return answer.expect("the store answers"),
        }
    }
}

async fn acquire(backend: &dyn Backend, request: &Request) -> Attempt {
    answered(|| backend.store().acquire(request, None)).await
}

/// The token of a request that must be granted.
async fn granted(backend: &dyn Backend, request: &Request) -> u64 {
    match acquire(backend, request).await {
        Attempt::Granted { token } => token,
        other => {
            let lock = backend.store().inspect(&request.key).await;
            panic!("{other:?} for {request:?}, of {lock:?}")
        }
    }
}

/// The time that a refused request is told to wait, while another holds the lock.
async fn busy(backend: &dyn Backend, request: &Request) -> Duration {
    refused(backend, request, false).await
}

/// The same, while nobody holds the lock and it is kept.
async fn kept(backend: &dyn Backend, request: &Request) -> Duration {
    refused(backend, request, true).await
}

async fn refused(backend: &dyn Backend, request: &Request, is_kept: bool) -> Duration {
    match acquire(backend, request).await {
        Attempt::Busy { retry_after, expiry_added: false, kept } if kept == is_kept => retry_after,
        other => panic!("{other:?}"),
    }
}

/// A heartbeat longer than any test.
const LIVE: Duration = Duration::from_secs(10);

const FIRST: QueuePosition = QueuePosition::New { age: Duration::ZERO };

/// Asks for a request that has ended. A quorum counts it as busy while a server is late that has its
/// end, or the end of another.
async fn has_ended(backend: &dyn Backend, request: &Request) {
    let answer = async || match acquire(backend, request).await {
        Attempt::Busy { .. } if !backend.store().has_queue() => None,
        answer => Some(answer),
    };
    assert_eq!(until_some("it is not busy", answer).await, Attempt::Ended);
}

async fn ask(
    backend: &dyn Backend,
    request: &Request,
    live: Duration,
    position: QueuePosition,
) -> Attempt {
    let waiting = Some(Waiting { live, position });
    backend.store().acquire(request, waiting).await.expect("the store answers")
}

/// Joins the queue, or asks again; and again at once where the server says so, as after many dead. Returns
/// the answer.
async fn queued(
    backend: &dyn Backend,
    request: &Request,
    live: Duration,
    position: QueuePosition,
) -> (u64, Stamp, Duration) {
    loop {
        match ask(backend, request, live, position).await {
            Attempt::Queued { position, until, ask_again } => return (position, until, ask_again),
            Attempt::Busy { retry_after: Duration::ZERO, .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Joins the queue for the first time. Returns the position.
async fn waits(backend: &dyn Backend, request: &Request, live: Duration) -> u64 {
    queued(backend, request, live, FIRST).await.0
}

/// A lock with a holder, and requests for it that have not been sent yet.
async fn held<const N: usize>(
    backend: &dyn Backend,
    kind: Kind,
) -> (Client, Request, [Request; N]) {
    let client = Client::new();
    let holder = client.request(kind, LONG);
    let others = [(); N].map(|()| client.request(kind, LONG));
    granted(backend, &holder).await;
    (client, holder, others)
}

/// A lock with a holder and a queue of waiters, all with long heartbeats.
async fn held_with_queue<const N: usize>(
    backend: &dyn Backend,
    kind: Kind,
) -> (Client, Request, [Request; N]) {
    let (client, holder, waiters) = held(backend, kind).await;
    for waiter in &waiters {
        waits(backend, waiter, LIVE).await;
    }
    (client, holder, waiters)
}

async fn renewed(backend: &dyn Backend, request: &Request) -> Renewal {
    answered(|| backend.store().renew(request)).await
}

async fn released(backend: &dyn Backend, request: &Request) -> Ended {
    answered(|| backend.store().release(request, Duration::ZERO)).await
}

async fn cancelled(backend: &dyn Backend, request: &Request) -> bool {
    backend.store().cancel(request).await.unwrap()
}

/// Confirms the offer that the request must have.
async fn claims(backend: &dyn Backend, request: &Request) {
    assert_eq!(renewed(backend, request).await, Renewal::Renewed);
}

/// Asks again while it is told to ask again at once, until it is granted.
async fn granted_in_the_end(backend: &dyn Backend, request: &Request) {
    for _ in 0..5 {
        match acquire(backend, request).await {
            Attempt::Granted { .. } => return,
            Attempt::Busy { retry_after: Duration::ZERO, expiry_added: false, .. } => {}
            other => panic!("{other:?}"),
        }
    }
    panic!("it was told to ask at once again and again");
}

/// A waiter that asks again must be granted.
async fn granted_when_asking(backend: &dyn Backend, waiter: &Request, position: u64) {
    let answer = ask(backend, waiter, LIVE, QueuePosition::Assigned(position)).await;
    assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
}
