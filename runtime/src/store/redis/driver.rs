//! The future that reads and writes a connection. Its task runs on the keeper's runtime; a caller
//! that has just sent a command may poll it too, and so writes the command itself. Every wake
//! goes to the task.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

use crate::core::sync::lock;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The future, and what wakes its task.
pub(super) struct Driver {
    /// `None` once the connection has ended.
    work: Mutex<Option<Work>>,
    wake: Arc<DriverWaker>,
    waker: Waker,
}

#[derive(Default)]
struct DriverWaker {
    task: AtomicWaker,
    /// A caller is about to poll the future: a wake only notes that there was one.
    is_held_back: AtomicBool,
    was_woken: AtomicBool,
}

impl Wake for DriverWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.was_woken.store(true, Ordering::SeqCst);
        if !self.is_held_back.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

impl Driver {
    pub(super) fn new(work: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        let wake = Arc::<DriverWaker>::default();
        let waker = Waker::from(wake.clone());
        Arc::new(Self { work: Mutex::new(Some(Box::pin(work))), wake, waker })
    }

    /// Calls `send`, which may send commands on the connection, and then polls the future, on the
    /// caller's thread. If the task or another caller is polling it, `send` wakes the task, so that
    /// the commands are seen.
    pub(super) fn drive(&self, send: impl FnOnce()) {
        let Ok(mut work) = self.work.try_lock() else { return send() };
        self.wake.is_held_back.store(true, Ordering::SeqCst);
        send();
        // The poll below serves each wake up to here, also that by `send`.
        self.wake.was_woken.store(false, Ordering::SeqCst);
        let has_ended = self.poll_once(&mut work).is_ready();
        self.wake.is_held_back.store(false, Ordering::SeqCst);
        // `SeqCst`: either a waker sees that nothing is held back any more, and wakes the task, or its
        // wake is seen here.
        if has_ended || self.wake.was_woken.swap(false, Ordering::SeqCst) {
            self.wake.task.wake();
        }
    }

    fn poll_once(&self, work: &mut Option<Work>) -> Poll<()> {
        let Some(future) = work else { return Poll::Ready(()) };
        let polled = future.as_mut().poll(&mut Context::from_waker(&self.waker));
        if polled.is_ready() {
            *work = None;
        }
        polled
    }
}

/// The task of a connection.
pub(super) struct DriverTask(pub(super) Arc<Driver>);

impl Future for DriverTask {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.wake.task.register(context.waker());
        self.0.poll_once(&mut lock(&self.0.work))
    }
}

impl Drop for DriverTask {
    /// The connection ends with its task, also if a caller holds the driver.
    fn drop(&mut self) {
        let work = lock(&self.0.work).take();
        drop(work);
    }
}
