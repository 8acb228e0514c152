//! The local queue's lock against drops: acquisitions of one lock, which may be dropped wherever
//! they are, on threads of their own. Whatever goes when, nobody is locked out, and no two hold the
//! lock.
//!
//! This is the whole client in memory. Time stands still, and tasks in the background do not run:
//! nothing here may need them.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

use super::core::key::LockKey;
use super::core::options::{Options, Wait};
use super::engine::acquire::acquire;
use super::engine::lease::Lease;
use super::engine::shared::Shared;
use super::explore::{check, finds};
use super::keeper::Keeper;
use super::store::memory::MemoryStore;
use super::store::{ClientId, Kind, RequestSpec, Store};

const THREADS: usize = 3;
const EACH: usize = 2;

/// A client in memory.
fn client() -> Arc<Shared> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let keeper = Keeper::on_callers_runtime(store.clone());
    let hands_over = thread_rng().gen_bool(0.5);
    Arc::new(Shared::new(store, keeper, ClientId::random(), hands_over))
}

async fn lock(client: &Arc<Shared>, linger: Duration) -> Lease {
    let key = LockKey::new("a").unwrap();
    let spec = RequestSpec { key, kind: Kind::Mutex, owner: None, note: None };
    let options = Options { wait: Wait::Forever, linger, ..Options::default() };
    acquire(client, spec, options).await.unwrap()
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

/// Acquires, and is dropped on the way, or while it holds the lock, or releases it.
fn acquire_once(client: &Arc<Shared>, holders: &AtomicUsize, linger: Duration) {
    let locking = lock(client, linger);
    let lease = if thread_rng().gen_bool(0.5) {
        let polls = thread_rng().gen_range(0..4);
        block_on(Impatient { work: Some(Box::pin(locking)), polls })
    } else {
        Some(block_on(pin!(locking)))
    };
    let Some(lease) = lease else { return };
    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two hold it");
    holders.fetch_sub(1, Ordering::SeqCst);
    if thread_rng().gen_bool(0.5) {
        block_on(lease.release()).unwrap();
    } else {
        drop(lease);
    }
}

/// Some threads acquire. Then the lock is free, and no queue is left.
fn all_get_it(linger: Duration) {
    let (client, holders) = (client(), Arc::<AtomicUsize>::default());
    let threads = (0..THREADS).map(|_| {
        let (client, holders) = (client.clone(), holders.clone());
        thread::spawn(move || (0..EACH).for_each(|_| acquire_once(&client, &holders, linger)))
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
    let last = block_on(pin!(lock(&client, Duration::ZERO)));
    block_on(last.release()).unwrap();
    let left = client.queues.lock().by_name.len();
    assert_eq!(left, 0, "a queue is left");
}

fn acquisitions_may_be_dropped_anywhere() {
    all_get_it(Duration::ZERO);
}

fn acquisitions_of_lingering_locks_may_be_dropped_anywhere() {
    all_get_it(Duration::from_secs(1));
}

#[test]
fn nobody_is_locked_out() {
    check(acquisitions_may_be_dropped_anywhere);
}

#[test]
fn nobody_is_locked_out_of_a_lingering_lock() {
    check(acquisitions_of_lingering_locks_may_be_dropped_anywhere);
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
