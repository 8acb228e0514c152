//! The members of a quorum, and how a command is sent to all of them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;

use crate::core::sync::lock;
use crate::store::{Request, Store};

/// How far the clocks of two members may differ, as in the script `include/raise_token`.
/// No lease is shorter.
pub(super) const CLOCK_DRIFT: Duration = Duration::from_millis(100);

/// One store of a quorum.
pub(super) struct Member {
    /// Its name in errors.
    pub(super) name: String,
    pub(super) store: Arc<dyn Store>,
    pending_cancels: Mutex<PendingCancels>,
}

/// The cancels that a member has not confirmed yet.
#[derive(Default)]
pub(super) struct PendingCancels {
    /// The requests, and when their TTL has ended them anyway.
    pub(super) list: VecDeque<(Request, Instant)>,
    /// True if a task is sending them.
    pub(super) is_running: bool,
}

impl Member {
    pub(super) fn new(name: String, store: Arc<dyn Store>) -> Self {
        Self { name, store, pending_cancels: Mutex::default() }
    }

    pub(super) fn pending_cancels(&self) -> MutexGuard<'_, PendingCancels> {
        lock(&self.pending_cancels)
    }
}

/// How many members are a majority.
pub(super) fn majority(members: &[Arc<Member>]) -> usize {
    members.len() / 2 + 1
}

/// The members' answers as they arrive, each with the member's index.
pub(super) type Answers<T> = FuturesUnordered<Pin<Box<dyn Future<Output = (usize, T)> + Send>>>;

/// Sends a command to all members.
pub(super) fn ask<T, F>(members: &[Arc<Member>], command: impl Fn(&Member) -> F) -> Answers<T>
where
    F: Future<Output = T> + Send + 'static,
{
    let asked = members.iter().enumerate().map(|(index, member)| {
        let answer = command(member);
        Box::pin(async move { (index, answer.await) }) as Pin<Box<_>>
    });
    asked.collect()
}
