//! A driver's held-back wakes: whoever polls the connection, it is polled again after each wake.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use shuttle::future::block_on;
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread;

use super::explore::{check, finds};
use super::store::redis::driver::{Driver, DriverTask};

const CALLERS: usize = 2;
const EACH: usize = 1;
const REPLIES: usize = 1;

/// The two ends of a connection.
#[derive(Default)]
struct Pipe {
    /// Commands that are to be written, and replies that are to be read.
    queued: usize,
    arrived: usize,
    written: usize,
    read: usize,
    waker: Option<Waker>,
}

/// Changes what there is to do, and wakes the connection.
fn change(pipe: &Mutex<Pipe>, change: impl FnOnce(&mut Pipe)) {
    let mut locked = pipe.lock().unwrap();
    change(&mut locked);
    let waker = locked.waker.take();
    drop(locked);
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Pipe {
    /// Writes and reads what is there. Ends after all commands and replies.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.written += std::mem::take(&mut self.queued);
        self.read += std::mem::take(&mut self.arrived);
        if (self.written, self.read) == (CALLERS * EACH, REPLIES) {
            return Poll::Ready(());
        }
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// The connection's future. It notes its own end.
fn connection(pipe: &Arc<Mutex<Pipe>>, end: End) -> impl Future<Output = ()> + Send + 'static {
    let pipe = pipe.clone();
    poll_fn(move |context| {
        let _ = &end;
        pipe.lock().unwrap().poll(context)
    })
}

struct End(Arc<AtomicBool>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn callers(driver: &Arc<Driver>, pipe: &Arc<Mutex<Pipe>>) -> Vec<thread::JoinHandle<()>> {
    let caller = |_| {
        let (driver, pipe) = (driver.clone(), pipe.clone());
        thread::spawn(move || {
            for _ in 0..EACH {
                driver.drive(|| change(&pipe, |pipe| pipe.queued += 1));
            }
        })
    };
    (0..CALLERS).map(caller).collect()
}

fn every_wake_is_followed_by_a_poll() {
    let (pipe, has_ended) = (Arc::<Mutex<Pipe>>::default(), Arc::default());
    let driver = Driver::new(connection(&pipe, End(Arc::clone(&has_ended))));
    let mut threads = callers(&driver, &pipe);
    threads.push(thread::spawn(move || {
        for _ in 0..REPLIES {
            change(&pipe, |pipe| pipe.arrived += 1);
        }
    }));
    // It ends once all is written and read. If a wake is lost, it sleeps for ever.
    block_on(DriverTask(driver));
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(has_ended.load(Ordering::SeqCst));
}

fn the_connection_ends_with_its_task() {
    let (pipe, has_ended) = (Arc::<Mutex<Pipe>>::default(), Arc::default());
    let driver = Driver::new(connection(&pipe, End(Arc::clone(&has_ended))));
    let threads = callers(&driver, &pipe);
    let mut task = DriverTask(driver.clone());
    let _ = std::pin::Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop()));
    drop(task);
    assert!(has_ended.load(Ordering::SeqCst), "the connection is open without its task");
    for thread in threads {
        thread.join().unwrap();
    }
    drop(driver);
}

#[test]
fn wakes_are_held_back_and_not_lost() {
    check(every_wake_is_followed_by_a_poll);
}

#[test]
fn a_connection_is_closed_under_a_callers_hands() {
    check(the_connection_ends_with_its_task);
}

#[test]
fn a_wake_that_is_held_back_for_ever_is_found() {
    let mistake = "the driver looks for wakes before it lets them through";
    finds(mistake, "deadlock", every_wake_is_followed_by_a_poll);
}

#[test]
fn a_wake_of_the_own_poll_is_found() {
    let mistake = "the driver forgets the wakes of its own poll";
    finds(mistake, "deadlock", every_wake_is_followed_by_a_poll);
}

#[test]
fn a_wake_that_nobody_looks_for_is_found() {
    let mistake = "a wake is noted after it was held back";
    finds(mistake, "deadlock", every_wake_is_followed_by_a_poll);
}

#[test]
fn an_open_connection_is_found() {
    let mistake = "the connection outlives its task while a caller polls it";
    finds(mistake, "without its task", the_connection_ends_with_its_task);
}
