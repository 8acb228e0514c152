//! What the tasks of a client do: they acquire, work, and release, or give up.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use leasehold::{Lease, LockError, Locks};
use tokio::time::{Instant, sleep, timeout};

use super::holders::{Holders, Mode};
use crate::trace::Trace;

pub(super) const MUTEXES: [&str; 3] = ["m0", "m1", "m2"];

pub(super) struct Task {
    pub(super) who: String,
    pub(super) locks: Locks,
    pub(super) rng: Rng,
    pub(super) trace: Rc<RefCell<Trace>>,
    pub(super) holders: Rc<RefCell<Holders>>,
}

/// A lock, and how it is asked for.
#[derive(Clone, Debug)]
struct Ask {
    name: &'static str,
    mode: Mode,
    ttl: Duration,
    wait: Duration,
    linger: Duration,
}

impl Task {
    pub(super) async fn work(mut self, ends: Instant) {
        while Instant::now() < ends {
            sleep(Duration::from_millis(self.rng.u64(0..60))).await;
            let ask = self.choose();
            let acquiring = acquire(&self.locks, &ask);
            // Some callers give up in the middle of whatever it is.
            let gives_up = self.rng.u8(0..8) == 0;
            let limit = Duration::from_micros(self.rng.u64(0..3000));
            let acquired = if gives_up {
                let Ok(acquired) = timeout(limit, acquiring).await else {
                    self.say(&ask, "gave up");
                    continue;
                };
                acquired
            } else {
                acquiring.await
            };
            match acquired {
                Ok(lease) => self.hold(&ask, lease).await,
                Err(error) => self.say(&ask, reason(&error)),
            }
        }
    }

    fn choose(&mut self) -> Ask {
        let (name, mode) = match self.rng.u8(0..6) {
            at @ 0..=2 => (MUTEXES[usize::from(at)], Mode::Alone),
            3 => ("s0", Mode::Permit { limit: 2 }),
            4 => ("r0", Mode::Reader),
            _ => ("r0", Mode::Alone),
        };
        let mut one_of = |millis: [u64; 4]| Duration::from_millis(millis[self.rng.usize(0..4)]);
        Ask {
            name,
            mode,
            ttl: one_of([300, 1000, 3000, 20_000]),
            wait: one_of([0, 200, 2000, 8000]),
            linger: one_of([0, 0, 300, 3000]),
        }
    }

    async fn hold(&mut self, ask: &Ask, lease: Lease) {
        let token = lease.fence().map_or(0, leasehold::Fence::get);
        self.holders.borrow_mut().granted(ask.name, &self.who, ask.mode, &lease);
        self.say(ask, &format!("has it, token {token}"));
        let longest = if self.rng.u8(0..10) == 0 { 4000 } else { 40 };
        let time = Duration::from_millis(self.rng.u64(0..longest));
        let is_lost = timeout(time, lease.lost()).await.is_ok();
        self.say(ask, if is_lost { "has lost it" } else { "has done its work" });
        if self.rng.u8(0..3) == 0 {
            drop(lease);
        } else {
            let released = lease.release().await.is_ok();
            self.say(ask, if released { "has released it" } else { "could not release it" });
        }
    }

    fn say(&self, ask: &Ask, what: &str) {
        let Ask { name, mode, ttl, wait, linger } = ask;
        let how = format!("{mode:?}, ttl {ttl:?}, wait {wait:?}, linger {linger:?}");
        self.trace.borrow_mut().say(&format!("{}: {name} ({how}): {what}", self.who));
    }
}

async fn acquire(locks: &Locks, ask: &Ask) -> Result<Lease, LockError> {
    let Ask { name, mode, ttl, wait, linger } = *ask;
    match (mode, name) {
        (Mode::Alone, "r0") => locks.rw_lock(name).ttl(ttl).wait(wait).linger(linger).write().await,
        (Mode::Alone, _) => locks.mutex(name).ttl(ttl).wait(wait).linger(linger).lock().await,
        (Mode::Reader, _) => locks.rw_lock(name).ttl(ttl).wait(wait).linger(linger).read().await,
        (Mode::Permit { limit }, _) => {
            let limit = u32::try_from(limit).expect("a small number");
            locks.semaphore(name, limit).ttl(ttl).wait(wait).linger(linger).acquire().await
        }
    }
}

fn reason(error: &LockError) -> &'static str {
    match error {
        LockError::Busy { .. } => "is refused",
        LockError::TimedOut { .. } => "has waited for too long",
        LockError::Store { .. } => "can't reach the server",
        LockError::Lost { .. } => "has lost it at once",
        _ => "has an error",
    }
}
