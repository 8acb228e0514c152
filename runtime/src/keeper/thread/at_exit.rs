//! What delays the end of a process until its releases are sent.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use super::super::state::KeeperState;
use crate::state::shutdown::DRAIN;
use crate::system;

thread_local! {
    static AT_EXIT: RefCell<AtExit> = const { RefCell::new(AtExit::new()) };
}

/// The wait at the end of a thread is divided into these, so that it is one for all its keepers.
const SLICE: Duration = Duration::from_millis(50);

/// How long a thread waits for the line that says what is left. The logger may block.
const TELLING: Duration = Duration::from_millis(500);

/// Makes the end of this thread wait, within a limit, for the jobs that the keeper has by then.
///
/// A process ends with its main thread, and takes the keeper's thread along. Without this, a
/// lease that was dropped just before would stay until its TTL. Every thread that connects,
/// acquires or drops calls this. With musl the main thread drops no thread-locals, so nothing
/// waits there.
pub(in super::super) fn drain_at_exit(shared: &Arc<KeeperState>) {
    // The thread of a simulated process is not its own, and ends with the world.
    if system::is_simulated() {
        return;
    }
    // There the process ends all other threads before this one drops its thread-locals, and
    // nobody is left to wait for.
    if cfg!(windows) {
        return;
    }
    // Does nothing on a thread that is already ending.
    let _ = AT_EXIT.try_with(|at_exit| {
        let AtExit { keepers, is_main, is_keepers } = &mut *at_exit.borrow_mut();
        if *is_keepers {
            return;
        }
        *is_main = *is_main || keepers.is_empty() && thread::current().name() == Some("main");
        if !keepers.iter().any(|keeper| keeper.as_ptr() == Arc::as_ptr(shared)) {
            keepers.retain(|keeper| keeper.strong_count() > 0);
            keepers.push(Arc::downgrade(shared));
        }
    });
}

/// Lets this thread end without waiting for any keeper, also for what it drops with its runtime: it is
/// a keeper's own.
pub(super) fn wait_for_nobody() {
    let _ = AT_EXIT.try_with(|at_exit| at_exit.borrow_mut().is_keepers = true);
}

/// The keepers that a thread has used, and which thread it is.
struct AtExit {
    keepers: Vec<Weak<KeeperState>>,
    is_main: bool,
    is_keepers: bool,
}

impl AtExit {
    const fn new() -> Self {
        Self { keepers: Vec::new(), is_main: false, is_keepers: false }
    }
}

impl Drop for AtExit {
    /// Nothing is logged here: see [`KeeperState::tell`].
    fn drop(&mut self) {
        let keepers = self.keepers.drain(..).filter_map(|keeper| keeper.upgrade());
        let keepers: Vec<_> = keepers.filter(|keeper| keeper.is_here()).collect();
        for keeper in &keepers {
            // The process ends with its main thread. Other threads come and go.
            if let Some(at_exit) = keeper.at_exit.get().filter(|_| self.is_main) {
                at_exit.0();
            }
            keeper.jobs.repeating.hurry();
        }
        let mut left: Vec<_> = keepers.iter().map(|keeper| (keeper, keeper.last_job())).collect();
        for _ in 0..DRAIN.as_millis() / SLICE.as_millis() {
            left.retain(|(keeper, last)| !keeper.drain(*last, Duration::ZERO));
            let Some((keeper, last)) = left.first() else { return };
            keeper.drain(*last, SLICE);
        }
        for (keeper, last) in &left {
            keeper.give_up_jobs(*last);
        }
        for (keeper, _) in left {
            keeper.until_told(TELLING);
        }
    }
}
