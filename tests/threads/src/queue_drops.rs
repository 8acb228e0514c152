//! The local queue's lock against drops: acquisitions of one lock, which may be dropped wherever
//! they are, on threads of their own. Whatever goes when, nobody is locked out, and no two hold the
//! lock.
//!
//! This is the whole client in memory, with its tasks in the background. Time stands still: nothing
//! here may need a timer.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use shuttle::thread;

use super::core::error::LockError;
use super::core::key::LockKey;
use super::core::options::{Options, Wait};
use super::engine::acquire::acquire;
use super::engine::lease::Lease;
use super::engine::shared::Shared;
use super::explore::{check_slow, finds, switches};
use super::keeper::Keeper;
use super::store::memory::MemoryStore;
use super::store::{ClientId, Kind, RequestSpec, Store};

const THREADS: usize = 3;
const EACH: usize = 2;

/// Clients of one store in memory.
fn clients(count: usize) -> Vec<Arc<Shared>> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let client = |_| {
        let (keeper, id) = (Keeper::on_callers_runtime(store.clone()), ClientId::random());
        Arc::new(Shared::new(store.clone(), keeper, id, thread_rng().gen_bool(0.5)))
    };
    (0..count).map(client).collect()
}

/// What all acquire.
#[derive(Clone, Copy)]
struct Lock {
    kind: Kind,
    linger: Duration,
    /// How many may hold it.
    most: usize,
}

const MUTEX: Lock = Lock { kind: Kind::Mutex, linger: Duration::ZERO, most: 1 };
const PERMIT: Lock =
    Lock { kind: Kind::Semaphore { limit: 2, weight: 1 }, linger: Duration::ZERO, most: 2 };

impl Lock {
    fn lingering(self) -> Self {
        Self { linger: Duration::from_secs(1), ..self }
    }

    async fn acquire(self, client: &Arc<Shared>) -> Result<Lease, LockError> {
        let key = LockKey::new("a").unwrap();
        let spec = RequestSpec { key, kind: self.kind, owner: None, note: None };
        // An idle lease of another TTL does not suit, and is ended.
        let ttl = Duration::from_secs(if thread_rng().gen_bool(0.7) { 30 } else { 20 });
        let (wait, linger) = (Wait::Forever, self.linger);
        let options = Options { ttl, wait, linger, ..Options::default() };
        acquire(client, spec, options).await
    }
}

/// Drops a future after so many polls. Then it gives nothing.
struct Impatient<F> {
    work: Option<Pin<Box<F>>>,
    polls: u32,
}

impl<F: Future> Future for Impatient<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            self.work = None;
            return Poll::Ready(None);
        }
        self.polls -= 1;
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        if let Poll::Ready(output) = work.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Who holds the lock, as its holders see it.
#[derive(Default)]
struct Holders {
    count: AtomicUsize,
    /// The last fencing token of a mutex.
    token: AtomicU64,
}

impl Holders {
    /// Holds the lock for a moment.
    fn hold(&self, lease: &Lease, lock: Lock) {
        assert!(self.count.fetch_add(1, Ordering::SeqCst) < lock.most, "too many hold it");
        if let Ok(fence) = lease.fence() {
            let last = self.token.swap(fence.get(), Ordering::SeqCst);
            assert!(last < fence.get(), "the token {} comes after {last}", fence.get());
        }
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Acquires, and is dropped on the way, or while it holds the lock, or releases it.
fn acquire_once(client: &Arc<Shared>, holders: &Holders, lock: Lock) {
    let acquiring = lock.acquire(client);
    let lease = if thread_rng().gen_bool(0.5) {
        let polls = thread_rng().gen_range(0..4);
        block_on(Impatient { work: Some(Box::pin(acquiring)), polls })
    } else {
        Some(block_on(pin!(acquiring)))
    };
    let lease = match lease {
        Some(Ok(lease)) => lease,
        None | Some(Err(LockError::ShutDown)) => return,
        Some(Err(error)) => panic!("{error}"),
    };
    holders.hold(&lease, lock);
    if thread_rng().gen_bool(0.5) {
        block_on(lease.release()).unwrap();
    } else {
        drop(lease);
    }
}

/// Threads that acquire, for each client in turn.
fn contenders(
    clients: &[Arc<Shared>],
    holders: &Arc<Holders>,
    lock: Lock,
) -> Vec<thread::JoinHandle<()>> {
    let contenders = clients.iter().cycle().take(THREADS).map(|client| {
        let (client, holders) = (client.clone(), holders.clone());
        thread::spawn(move || (0..EACH).for_each(|_| acquire_once(&client, &holders, lock)))
    });
    contenders.collect()
}

/// All are served, or gone. Then each client gets the lock, and nothing is left.
fn all_get_it(count: usize, lock: Lock) {
    let (clients, holders) = (clients(count), Arc::default());
    for thread in contenders(&clients, &holders, lock) {
        thread.join().unwrap();
    }
    for client in &clients {
        let last = block_on(pin!(lock.acquire(client))).unwrap();
        block_on(last.release_now()).unwrap();
    }
    for client in &clients {
        shut_down(client);
        assert!(client.queues.lock().by_name.is_empty(), "a queue is left");
    }
}

/// As `Locks::shutdown` does it, with all the time in the world.
fn shut_down(client: &Shared) {
    let shutdown = &client.client.keeper.shutdown;
    shutdown.begin();
    client.queues.stop_all_lingering();
    // An acquisition under way may still be granted the lock.
    block_on(shutdown.idle());
    assert_eq!(shutdown.report().left, 0, "a lease is left");
}

fn acquisitions_may_be_dropped_anywhere() {
    all_get_it(1, MUTEX);
}

fn acquisitions_of_lingering_locks_may_be_dropped_anywhere() {
    all_get_it(1, MUTEX.lingering());
}

fn a_lingering_lock_goes_to_and_fro() {
    all_get_it(2, MUTEX.lingering());
}

fn a_lingering_permit_goes_to_and_fro() {
    all_get_it(2, PERMIT.lingering());
}

fn a_shutdown_waits_for_all_that_is_held() {
    let (clients, holders) = (clients(1), Arc::<Holders>::default());
    let threads = contenders(&clients, &holders, MUTEX);
    shut_down(&clients[0]);
    assert_eq!(holders.count.load(Ordering::SeqCst), 0, "a task holds the lock");
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_shutdown_may_begin_at_any_time() {
    check_slow(a_shutdown_waits_for_all_that_is_held);
}

#[test]
fn a_lock_may_linger_in_two_processes() {
    check_slow(a_lingering_lock_goes_to_and_fro);
}

#[test]
fn a_permit_may_linger_in_two_processes() {
    check_slow(a_lingering_permit_goes_to_and_fro);
}

#[test]
fn nobody_is_locked_out() {
    check_slow(acquisitions_may_be_dropped_anywhere);
}

#[test]
fn nobody_is_locked_out_of_a_lingering_lock() {
    check_slow(acquisitions_of_lingering_locks_may_be_dropped_anywhere);
}

#[test]
fn the_next_run_tries_the_same_schedules() {
    assert_eq!(
        switches(a_lingering_lock_goes_to_and_fro),
        switches(a_lingering_lock_goes_to_and_fro)
    );
}

#[test]
fn a_wake_under_the_lock_is_found() {
    let mistake = "a waiter is woken while the queues are locked";
    finds(mistake, "deadlock", acquisitions_may_be_dropped_anywhere);
}

#[test]
fn an_admission_of_nobody_is_found() {
    let mistake = "a waiter that goes looks for its admission, and may get one after that";
    finds(mistake, "deadlock", acquisitions_may_be_dropped_anywhere);
}

#[test]
fn a_waiter_behind_nobody_is_found() {
    let mistake = "an acquisition looks whether it must wait, and then waits";
    finds(mistake, "deadlock", acquisitions_may_be_dropped_anywhere);
}
