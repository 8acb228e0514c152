//! What delays the end of a process until its releases are sent.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::thread;

use super::super::state::KeeperState;
use crate::state::shutdown::DRAIN;
use crate::system;

thread_local! {
    static AT_EXIT: RefCell<AtExit> = const { RefCell::new(AtExit(Vec::new(), false)) };
}

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
        let AtExit(keepers, is_main) = &mut *at_exit.borrow_mut();
        *is_main = *is_main || keepers.is_empty() && thread::current().name() == Some("main");
        if !keepers.iter().any(|keeper| keeper.as_ptr() == Arc::as_ptr(shared)) {
            keepers.retain(|keeper| keeper.strong_count() > 0);
            keepers.push(Arc::downgrade(shared));
        }
    });
}

/// Lets this thread end without waiting for any keeper: it is a keeper's own.
pub(super) fn waits_for_nobody() {
    let _ = AT_EXIT.try_with(|at_exit| at_exit.borrow_mut().0.clear());
}

/// The keepers that a thread has used, and whether it is the main thread.
struct AtExit(Vec<Weak<KeeperState>>, bool);

impl Drop for AtExit {
    fn drop(&mut self) {
        let keepers = self.0.drain(..).filter_map(|keeper| keeper.upgrade());
        for keeper in keepers.filter(|keeper| keeper.is_here()) {
            // The process ends with its main thread. Other threads come and go.
            if let Some(at_exit) = keeper.at_exit.get().filter(|_| self.1) {
                at_exit.0();
            }
            let left = keeper.drain(DRAIN);
            if left > 0 {
                // The keeper's thread logs it. A logger may use thread-locals, and those of
                // this thread are gone: a panic here would abort the process.
                keeper.push(Box::pin(async move {
                    tracing::warn!(
                        left,
                        "not all locks were released in time; their TTLs end them"
                    );
                }));
            }
        }
    }
}
