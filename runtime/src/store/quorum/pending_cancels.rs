//! What is still to be taken back from a store that did not answer: else a server that
//! was silent for a moment would keep a lease that nobody has, until its TTL.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::store::{QuorumMember, Request};

/// The most that is remembered: what is older ends with its TTL.
const MOST: usize = 10_000;

/// The pauses between tries.
const PAUSE: Duration = Duration::from_millis(100);

/// One store of a quorum.
pub(super) struct Member {
    /// What it is called in errors.
    pub(super) name: String,
    pub(super) store: Arc<dyn QuorumMember>,
    debts: Mutex<Debts>,
}

#[derive(Default)]
struct Debts {
    /// The requests, and when time has ended them anyway.
    list: VecDeque<(Request, Instant)>,
    is_worked_off: bool,
}

impl Member {
    pub(super) fn new(name: String, store: Arc<dyn QuorumMember>) -> Self {
        Self { name, store, debts: Mutex::default() }
    }

    fn debts(&self) -> std::sync::MutexGuard<'_, Debts> {
        self.debts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a request back, now or when the store answers again.
pub(super) fn owe(member: &Arc<Member>, request: &Request, runtime: &Handle) {
    let end = member.store.now() + request.ttl;
    let mut debts = member.debts();
    debts.list.push_back((request.clone(), end));
    if debts.list.len() > MOST {
        debts.list.pop_front();
    }
    if !std::mem::replace(&mut debts.is_worked_off, true) {
        runtime.spawn(work_off(member.clone()));
    }
}

/// Takes back one after another, for as long as there are any.
async fn work_off(member: Arc<Member>) {
    loop {
        let next = {
            let mut debts = member.debts();
            let next = debts.list.pop_front();
            debts.is_worked_off = next.is_some();
            next
        };
        let Some((request, end)) = next else { return };
        while member.store.now() < end {
            match member.store.cancel(&request).await {
                Ok(_) => break,
                Err(error) if error.is_shut_down => return,
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}
