//! What the tasks of a process do: ask, hold, look, release. What they see goes into the history.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use fastrand::Rng;
use leasehold::{LockError, Released};
use leasehold_history::{Kind, Line, Nanos};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::client::Client;
use super::shared::Shared;
use super::version::Version;
use super::wishes::{Guard, LONGEST_WAIT, Part, Travelling, Wish};
use crate::process;

/// How often a holder looks whether it still has its leases.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// A process at work.
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) client: Client,
    pub(super) shared: Arc<Shared>,
    version: Version,
    requests: AtomicU64,
}

pub(super) fn now() -> Nanos {
    process::now() * 1_000
}

pub(super) fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn millis(rng: &mut Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.u64(range))
}

impl Worker {
    pub(super) fn new(name: String, client: Client, shared: Arc<Shared>, version: Version) -> Self {
        Self { name, client, shared, version, requests: AtomicU64::new(0) }
    }

    /// Works until the world ends, or the process is to end; then shuts the client down.
    pub(super) async fn work(self, tasks: usize, mut rng: Rng) {
        let worker = Arc::new(self);
        let mut all = JoinSet::new();
        for task in 0..tasks {
            let (worker, rng) = (worker.clone(), rng.fork());
            all.spawn(async move { worker.turns(task, rng).await });
        }
        while let Some(ended) = all.join_next().await {
            if let Err(error) = ended {
                worker.shared.violation(format!("{}: a task panicked: {error}", worker.name));
            }
        }
        worker.client.shut_down().await;
        worker.shared.ended(&worker.name);
    }

    fn is_ending(&self) -> bool {
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
            let owner = format!("{}.{task}", self.name);
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
        // Some requests are dropped on their way.
        let patience = match rng.u8(..16) {
            0 => millis(rng, 0..300),
            1 => millis(rng, 0..6),
            _ => LONGEST_WAIT * 4,
        };
        let ids = self.ask(wish);
        let ended = tokio::select! {
            ended = timeout(patience, self.client.acquire(wish)) => ended.ok(),
            () = self.shared.ending(&self.name) => None,
        };
        let at = now();
        match ended {
            Some(Ok(guard)) => self.hold(guard, &ids, wish, at, rng).await,
            Some(Err(error)) => self.refused(&ids, at, &reason(&error)),
            None => self.refused(&ids, at, "gave-up"),
        }
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
        if let Some(time) = wish.max_hold.map(nanos) {
            for id in &ids {
                self.note(Line::MaxHold { id: id.clone(), time });
            }
        }
        if let Some(travelling) = &wish.ticket {
            self.note(Line::Adopt { id: ids[0].clone(), of: travelling.of.clone() });
        }
        ids
    }

    /// Holds for some time, looks again and again, and lets go.
    pub(super) async fn hold(
        &self,
        guard: Guard,
        ids: &[String],
        wish: &Wish,
        at: Nanos,
        rng: &mut Rng,
    ) {
        // The leases of a set have an order of their own.
        let id_of = |name: &str| {
            let named = |(part, _): &(&Part, &String)| part.lock == name;
            wish.parts.iter().zip(ids).find(named).map_or(&ids[0], |(_, id)| id).clone()
        };
        for lease in guard.leases() {
            let token = lease.fence().ok().map(u64::from);
            self.note(Line::Got { id: id_of(lease.key().as_ref()), at, token });
        }
        let time = match rng.u8(..20) {
            0 => millis(rng, 0..3_000),
            1..=4 => millis(rng, 0..150),
            _ => millis(rng, 0..8),
        };
        let until = tokio::time::Instant::now() + time;
        loop {
            let mut is_lost = false;
            for lease in guard.leases() {
                let (id, at, left) = (id_of(lease.key().as_ref()), now(), lease.remaining());
                if left.is_zero() {
                    is_lost = true;
                    self.note(Line::Lost { id, at });
                } else {
                    self.note(Line::Held { id, at, left: nanos(left) });
                }
            }
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() || is_lost || self.is_ending() {
                break;
            }
            sleep(left.min(LOOK)).await;
        }
        self.let_go(guard, ids, wish, rng).await;
    }

    async fn let_go(&self, guard: Guard, ids: &[String], wish: &Wish, rng: &mut Rng) {
        let at = now();
        for id in ids {
            self.note(Line::End { id: id.clone(), at });
        }
        let is_once = wish.parts[0].kind == Kind::Once;
        let how = match guard {
            guard if rng.u8(..5) == 0 => {
                drop(guard);
                "dropped".to_owned()
            }
            Guard::One(lease) if wish.may_travel() && self.may_travel() && rng.u8(..8) == 0 => {
                match lease.detach().await {
                    Ok(ticket) => {
                        self.shared.put_ticket(Travelling {
                            part: wish.parts[0],
                            owner: wish.owner.clone(),
                            ttl: wish.ttl,
                            of: ids[0].clone(),
                            ticket,
                        });
                        "detached".to_owned()
                    }
                    Err(error) => reason(&error),
                }
            }
            Guard::One(lease) if is_once && rng.u8(..4) > 0 => {
                let tick = lease.tick().expect("a job has ticks").began;
                match lease.complete().await {
                    Ok(()) => {
                        let tick = tick.duration_since(UNIX_EPOCH).expect("after 1970");
                        let tick = u64::try_from(tick.as_millis()).expect("some milliseconds");
                        self.note(Line::Done { id: ids[0].clone(), at: now(), tick });
                        "free".to_owned()
                    }
                    Err(error) => reason(&error),
                }
            }
            Guard::One(lease) => lease.release().await.map_or_else(|it| reason(&it), released),
            Guard::All(leases) => {
                leases.release().await.map_or_else(|error| reason(&error), |()| "free".to_owned())
            }
        };
        let at = now();
        for id in ids {
            self.note(Line::Freed { id: id.clone(), at, how: how.clone() });
        }
    }

    fn may_travel(&self) -> bool {
        matches!(self.client, Client::All(_))
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

fn released(how: Released) -> String {
    match how {
        Released::Free => "free",
        Released::StillHeld(_) => "still",
        Released::Kept => "kept",
        Released::Lingers => "lingers",
        _ => "unknown",
    }
    .to_owned()
}

/// An error in one word.
pub(super) fn reason(error: &LockError) -> String {
    match error {
        LockError::Busy { .. } => "busy".to_owned(),
        LockError::TimedOut { .. } => "timed-out".to_owned(),
        LockError::Store { .. } => "store".to_owned(),
        LockError::Quorum { .. } => "quorum".to_owned(),
        LockError::Lost { .. } => "lost".to_owned(),
        LockError::TicketEnded { .. } => "ticket-ended".to_owned(),
        LockError::ShutDown => "shut-down".to_owned(),
        LockError::Done { .. } => "done".to_owned(),
        LockError::WrongKind { .. } => "wrong-kind".to_owned(),
        other => format!("{other:?}").replace(char::is_whitespace, "_"),
    }
}
