//! A queue that a task works off, and so may those who put something into it. It decides who
//! works, and that nothing stays in it while the task sleeps.

use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use crate::core::sync::lock;

/// The queue, and what the work needs. `work` is locked before `queue`.
pub(super) struct WorkQueue<T, W> {
    work: Mutex<W>,
    queue: Mutex<Queue<T>>,
}

struct Queue<T> {
    items: Vec<T>,
    /// The task, while it sleeps.
    sleeper: Option<Waker>,
    /// Either end is gone: those who put something into it, or the task.
    is_closed: bool,
}

/// What is left for the task after some work.
#[derive(PartialEq, Eq)]
pub(super) enum Left {
    /// It has to look at once.
    More,
    /// It is woken when there is more to do.
    Later,
    Nothing,
}

impl<T, W: Default> Default for WorkQueue<T, W> {
    fn default() -> Self {
        let queue = Queue { items: Vec::new(), sleeper: None, is_closed: false };
        Self { work: Mutex::default(), queue: Mutex::new(queue) }
    }
}

impl<T, W: Default> WorkQueue<T, W> {
    /// Puts items into the queue, in this order; drops them if it is closed. If nobody is at work,
    /// `work_here` may do it on this thread; if that returns false, the task does.
    pub(super) fn push(
        &self,
        items: impl IntoIterator<Item = T>,
        work_here: impl FnOnce(&mut W) -> bool,
    ) {
        {
            let mut queue = lock(&self.queue);
            if queue.is_closed {
                return;
            }
            queue.items.extend(items);
        }
        // If it is locked, the task is at work, or another caller is.
        let is_done = self.work.try_lock().is_ok_and(|mut work| work_here(&mut work));
        if !is_done {
            self.wake_task();
        }
    }

    /// What is in the queue. Only to be called by who works.
    pub(super) fn take(&self) -> Vec<T> {
        std::mem::take(&mut lock(&self.queue).items)
    }

    pub(super) fn work(&self) -> MutexGuard<'_, W> {
        lock(&self.work)
    }

    pub(super) fn wake_task(&self) {
        let sleeper = lock(&self.queue).sleeper.take();
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }

    /// The task's poll: calls `work` with what is in the queue. Ready once the queue is closed and
    /// nothing is left to do.
    pub(super) fn poll(
        &self,
        context: &mut Context<'_>,
        mut work: impl FnMut(&mut W, Vec<T>, &mut Context<'_>) -> Left,
    ) -> Poll<()> {
        let mut at_work = self.work();
        loop {
            let left = work(&mut at_work, self.take(), context);
            if left == Left::More {
                continue;
            }
            let mut queue = lock(&self.queue);
            if queue.items.is_empty() {
                if queue.is_closed && left == Left::Nothing {
                    return Poll::Ready(());
                }
                // Only from here on does an item wake the task.
                queue.sleeper = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
    }

    /// Nothing is put into it any more. The task ends when its work is done.
    pub(super) fn close(&self) {
        lock(&self.queue).is_closed = true;
        self.wake_task();
    }

    /// The task is gone, also if its work is not done: what is left of it is dropped.
    pub(super) fn abandon(&self) {
        let left = {
            let mut queue = lock(&self.queue);
            queue.is_closed = true;
            std::mem::take(&mut queue.items)
        };
        drop(left);
        // Not dropped while it is locked.
        let work = std::mem::take(&mut *self.work());
        drop(work);
    }
}
