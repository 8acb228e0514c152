//! What the tasks of a process do: ask, hold, look, release. What they see goes into the history.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use leasehold::{LockError, LossReason};
use leasehold_history::{Line, Nanos};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::answers::{ACQUIRES, Bound, SHUTS_DOWN, SHUTS_DOWN_AMID};
use super::client::Client;
use super::kept::Neglect;
use super::metrics::Calls;
use super::plan::Deployment;
use super::shared::Shared;
use super::told::Before;
use super::version::Version;
use super::wishes::{Guard, LONGEST_WAIT, Succeeds, Wish};
use crate::clocks::Clocks;
use crate::process;

/// How often a holder looks whether it still has its leases.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// A process at work.
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) client: Client,
    pub(super) shared: Arc<Shared>,
    pub(super) version: Version,
    /// How far the clocks of its world drift.
    pub(super) clocks: Clocks,
    pub(super) deployment: Deployment,
    /// Its client is shut down while its tasks hold leases and wait for others.
    works_on: bool,
    pub(super) calls: Calls,
    requests: AtomicU64,
}

pub(super) fn now() -> Nanos {
    process::now() * 1_000
}

pub(super) fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn millis(rng: &mut Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.u64(range))
}

impl Worker {
    pub(super) fn new(
        name: String,
        client: Client,
        shared: Arc<Shared>,
        version: Version,
        (deployment, clocks): (Deployment, Clocks),
    ) -> Self {
        let (calls, works_on, requests) = (Calls::default(), false, AtomicU64::new(0));
        Self { name, client, shared, version, clocks, deployment, works_on, calls, requests }
    }

    /// Works until the world ends, or the process is to end; then shuts the client down. Some do that at once.
    pub(super) async fn work(mut self, tasks: usize, mut rng: Rng) {
        self.works_on = rng.u8(..4) == 0;
        let worker = Arc::new(self);
        let mut all = JoinSet::new();
        for task in 0..tasks {
            let (worker, rng) = (worker.clone(), rng.fork());
            all.spawn(async move { Box::pin(worker.turns(task, rng)).await });
        }
        if worker.works_on {
            worker.shared.ending(&worker.name).await;
            worker.shuts_down(SHUTS_DOWN_AMID).await;
        }
        while let Some(ended) = all.join_next().await {
            if let Err(error) = ended {
                worker.shared.violation(format!("{}: a task panicked: {error}", worker.name));
            }
        }
        worker.ends().await;
    }

    /// Shuts the client down, when nothing is held any more.
    pub(super) async fn ends(&self) {
        self.shuts_down(SHUTS_DOWN).await;
        self.expect_figures();
        self.shared.ended(&self.name);
    }

    async fn shuts_down(&self, bound: Bound) {
        let shut_down = async { Ok(self.client.shut_down().await) };
        let report = self.asked("the shutdown".to_owned(), bound, shut_down).await;
        self.expect_shut_down(&report.expect("it is no error"));
    }

    /// True once its tasks are to let go.
    pub(super) fn is_to_stop(&self) -> bool {
        self.is_ending() && !self.works_on
    }

    /// True once its tasks are to let go, and hold on for a while.
    pub(super) fn holds_on(&self) -> bool {
        self.is_ending() && self.works_on
    }

    pub(super) fn is_ending(&self) -> bool {
        self.shared.is_ending(&self.name)
    }

    async fn turns(self: &Arc<Self>, task: usize, mut rng: Rng) {
        while !self.is_ending() {
            sleep(millis(&mut rng, 0..60)).await;
            if let Client::All(locks) = &self.client
                && rng.u8(..6) == 0
            {
                self.turn_at_a_front_door(locks, &mut rng).await;
                continue;
            }
            if let Client::All(locks) = &self.client
                && rng.u8(..16) == 0
            {
                Box::pin(self.turn_at_a_rate(locks, &mut rng)).await;
                continue;
            }
            if let Client::All(locks) = &self.client
                && rng.u8(..40) == 0
            {
                Box::pin(self.turn_at_a_job(locks, &mut rng)).await;
                continue;
            }
            let owner = format!("{}.{task}", self.name);
            if let Client::All(locks) = &self.client
                && rng.u16(..300) == 0
            {
                self.turn_as_operator(locks, &mut rng).await;
                continue;
            }
            match rng.u8(..40) {
                0 => {
                    self.turn_as_candidate(&mut rng).await;
                    continue;
                }
                1 => {
                    Box::pin(self.turn_of_an_owner(&owner, &mut rng)).await;
                    continue;
                }
                _ => {}
            }
            let wish = match &self.client {
                Client::Quorum(_) => Wish::random_on_quorum(&mut rng, &owner, &self.version),
                Client::All(_) => match rng.bool().then(|| self.shared.take_ticket(&mut rng)) {
                    Some(Some(travelling)) => Wish::adopt(travelling),
                    _ => Wish::random(&mut rng, &owner, &self.version),
                },
            };
            self.turn(&wish, &mut rng).await;
        }
    }

    /// One request, and what becomes of it.
    async fn turn(&self, wish: &Wish, rng: &mut Rng) {
        if let Some((guard, ids)) = self.acquire(wish, rng).await {
            self.hold(guard, &ids, wish, rng).await;
        }
    }

    /// Asks, and notes the answer. Returns what it got, with the ids of its requests.
    pub(super) async fn acquire(&self, wish: &Wish, rng: &mut Rng) -> Option<(Guard, Vec<String>)> {
        // Some requests are dropped on their way.
        let patience = match rng.u8(..16) {
            0 => millis(rng, 0..300),
            1 => millis(rng, 0..6),
            _ => LONGEST_WAIT * 4,
        };
        let (before, ids) = (Before::of(wish), self.ask(wish));
        let neglect = Neglect::random(rng);
        let bound = ACQUIRES.after(wish.waits());
        let bound = neglect.map_or(bound, |it| bound.neglected(it.time));
        let call = self.asked(ids.join(", "), bound, Box::pin(self.called(wish)));
        let request = self.ask_neglectfully(call, neglect, (&ids, wish));
        let ended = tokio::select! {
            ended = timeout(patience, request) => ended.ok().flatten(),
            () = self.shared.ending(&self.name), if !self.works_on => None,
        };
        let at = now();
        match ended {
            Some(Ok(guard)) => {
                self.got(&guard, &ids, wish, at);
                return Some((guard, ids));
            }
            Some(Err(error)) => {
                self.expect_true(wish, &error, &before);
                if matches!(error, LockError::Closed { .. }) {
                    self.expect_open(wish, at, false);
                }
                self.refused(&ids, at, &reason(&error));
            }
            None => self.refused(&ids, at, "gave-up"),
        }
        None
    }

    /// Notes that a request begins; returns its ids, one for each lock.
    pub(super) fn ask(&self, wish: &Wish) -> Vec<String> {
        let (at, mut ids) = (now(), Vec::new());
        for part in &wish.parts {
            let id = format!("{}:{}", self.name, self.requests.fetch_add(1, Ordering::Relaxed));
            ids.push(id.clone());
            self.note(Line::Ask {
                id,
                at,
                lock: part.lock.to_owned(),
                kind: part.kind,
                units: part.units,
                limit: part.limit,
                owner: wish.owner.clone(),
                ttl: nanos(wish.ttl),
                linger: nanos(wish.linger.max(wish.keeps.unwrap_or_default())),
            });
        }
        // It is a time by the process's clock, which may be as slow as any.
        if let Some(time) = wish.max_hold.map(|it| nanos(self.clocks.longest(it))) {
            for id in &ids {
                self.note(Line::MaxHold { id: id.clone(), time });
            }
        }
        for id in &ids {
            self.note(Line::Waits { id: id.clone(), time: nanos(wish.waits()) });
        }
        if wish.is_named {
            for id in &ids {
                self.note(Line::Named { id: id.clone() });
            }
        }
        // Whether one is renewed that is taken over was said by the request before.
        if wish.is_renewed && wish.max_hold.is_none() && wish.ticket.is_none() {
            for id in &ids {
                self.note(Line::Renewed { id: id.clone() });
            }
        }
        if let Some(Succeeds::Once(lasts)) = wish.succeeds {
            let time = nanos(self.clocks.shortest(lasts));
            self.note(Line::Lasts { id: ids[0].clone(), time });
        }
        if let Some(travelling) = &wish.ticket {
            self.note(Line::Adopt { id: ids[0].clone(), of: travelling.of.clone() });
        }
        ids
    }

    pub(super) fn refused(&self, ids: &[String], at: Nanos, why: &str) {
        for id in ids {
            self.note(Line::Refused { id: id.clone(), at, why: why.to_owned() });
        }
    }

    pub(super) fn note(&self, line: Line) {
        self.shared.note(process::now(), line);
    }
}

/// An error in one word.
pub(super) fn reason(error: &LockError) -> String {
    match error {
        LockError::Busy { .. } => "busy".to_owned(),
        LockError::TimedOut { .. } => "timed-out".to_owned(),
        LockError::Store { .. } => "store".to_owned(),
        LockError::Quorum { .. } => "quorum".to_owned(),
        // The server has kept it for its holder until this release.
        LockError::Lost { reason: LossReason::Replaced | LossReason::ShutDown, .. } => {
            "dropped".to_owned()
        }
        LockError::Lost { .. } => "lost".to_owned(),
        LockError::TicketEnded { .. } => "ticket-ended".to_owned(),
        LockError::ShutDown => "shut-down".to_owned(),
        LockError::Done { .. } => "done".to_owned(),
        LockError::Closed { .. } => "closed".to_owned(),
        LockError::WouldDeadlock { .. } => "would-deadlock".to_owned(),
        LockError::WrongKind { .. } => "wrong-kind".to_owned(),
        other => format!("{other:?}").replace(char::is_whitespace, "_"),
    }
}
