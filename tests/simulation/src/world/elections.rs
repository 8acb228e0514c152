//! Leaders: a task is a candidate for some time. It leads now and then, steps down, or has its work
//! done. Each campaign with the leadership after it is a request of the history.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use leasehold::{ElectionHandle, ElectionState, LeaseHandle};
use leasehold_history::{Kind, Line};
use tokio::time::{sleep, timeout};

use super::turns::{LOOK, Worker, now, reason};
use super::wishes::{LEADER, LONGEST_WAIT, Part, Wish};

/// How far a candidate has come.
enum Position {
    Idle,
    /// Its request for the lock.
    Campaigns(String),
    Leads(String),
}

/// What a leader does when it has led for some time.
#[derive(Clone, Copy)]
enum Then {
    Finishes,
    StepsDown(Duration),
    /// It leads until its lease is lost, or the candidate is dropped.
    GoesOn,
}

impl Then {
    fn random(rng: &mut Rng) -> Self {
        match rng.u8(..4) {
            0 => Self::Finishes,
            1 => Self::GoesOn,
            _ => Self::StepsDown(Duration::from_millis(rng.u64(..300))),
        }
    }
}

struct Candidate<'a> {
    worker: &'a Worker,
    wish: Wish,
    handle: ElectionHandle,
    position: Mutex<Position>,
}

impl Candidate<'_> {
    fn position(&self) -> MutexGuard<'_, Position> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A campaign begins.
    fn campaigns(&self) {
        let position = &mut *self.position();
        if matches!(position, Position::Idle) {
            *position = Position::Campaigns(self.worker.ask(&self.wish).remove(0));
        }
    }

    /// It has the lock. Returns its request.
    fn leads(&self, lease: &LeaseHandle) -> String {
        self.campaigns();
        let position = &mut *self.position();
        let (Position::Campaigns(id) | Position::Leads(id)) = position else { unreachable!() };
        let (id, token) = (id.clone(), lease.fence().ok().map(u64::from));
        self.worker.note(Line::Got { id: id.clone(), at: now(), token });
        *position = Position::Leads(id.clone());
        id
    }

    /// Its work has ended, or was dropped.
    fn ends(&self) {
        let position = std::mem::replace(&mut *self.position(), Position::Idle);
        if let Position::Leads(id) = position {
            let at = now();
            self.worker.note(Line::End { id: id.clone(), at });
            self.worker.note(Line::Freed { id, at, how: "dropped".to_owned() });
        }
    }

    /// Leads for some time, and looks at the lease again and again.
    async fn work(&self, lease: LeaseHandle, time: Duration, then: Then) {
        let mut term = Term { candidate: self, goes_on: true };
        let id = self.leads(&lease);
        let until = tokio::time::Instant::now() + time;
        let mut has_stepped_down = false;
        loop {
            let (id, at, left) = (id.clone(), now(), lease.remaining());
            // Both are said by the same clock.
            if self.handle.is_leader() != lease.is_held() {
                self.says_wrongly("a leader says otherwise than its lease");
            }
            if left.is_zero() {
                self.worker.note(Line::Lost { id, at });
            } else {
                self.worker.held(id, at, self.wish.ttl, left);
            }
            let rest = until.saturating_duration_since(tokio::time::Instant::now());
            match then {
                Then::Finishes if rest.is_zero() => {
                    term.goes_on = false;
                    return;
                }
                Then::StepsDown(pause) if rest.is_zero() && !has_stepped_down => {
                    has_stepped_down = true;
                    term.goes_on = !self.handle.step_down(pause);
                    sleep(LOOK).await;
                    if !term.goes_on {
                        self.says_wrongly("a leader that has stepped down leads on");
                    }
                }
                _ if rest.is_zero() => sleep(LOOK).await,
                _ => sleep(rest.min(LOOK)).await,
            }
        }
    }

    /// Notes each campaign when it begins.
    async fn watch(&self) {
        let mut handle = self.handle.clone();
        while let Some(state) = handle.changed().await {
            match state {
                ElectionState::Campaigning | ElectionState::Following { .. } => self.campaigns(),
                ElectionState::Idle if handle.is_leader() => {
                    self.says_wrongly("one that is idle leads");
                }
                _ => {}
            }
        }
    }

    fn says_wrongly(&self, what: &str) {
        let (at, name) = (now(), &self.worker.name);
        self.worker.shared.violation(format!("election: {what}: {name} at {at} ns"));
    }
}

/// One leadership.
struct Term<'a> {
    candidate: &'a Candidate<'a>,
    /// The candidate campaigns at once when it is over.
    goes_on: bool,
}

impl Drop for Term<'_> {
    fn drop(&mut self) {
        self.candidate.ends();
        if self.goes_on {
            self.candidate.campaigns();
        }
    }
}

impl Worker {
    /// A task is a candidate for some time.
    pub(super) async fn turn_as_candidate(&self, rng: &mut Rng) {
        let (ttl, is_renewed) = (self.version.ttl(rng), rng.u8(..4) > 0);
        let most = (rng.u8(..4) == 0).then(|| Duration::from_millis(rng.u64(100..1_500)));
        let plain =
            Wish::plain(Part::of(LEADER, Kind::Mutex), self.name.clone(), ttl, LONGEST_WAIT);
        let wish = Wish { is_renewed, max_hold: most, ..plain };
        self.calls.others(wish.all_series());
        let mutex = self.client.mutex(LEADER).ttl(ttl).auto_renew(is_renewed).max_hold(most);
        let mut election = mutex.owner(&*self.name).election();
        let candidate = Candidate {
            worker: self,
            wish,
            handle: election.handle(),
            position: Mutex::new(Position::Idle),
        };
        let patience = Duration::from_millis(rng.u64(..4_000));
        let (candidate, mut rng) = (&candidate, rng.fork());
        let campaign = election.lead(|lease| {
            let longest = if rng.bool() { 20 } else { 400 };
            let time = Duration::from_millis(rng.u64(..longest));
            candidate.work(lease, time, Then::random(&mut rng))
        });
        let why = tokio::select! {
            biased;
            ended = timeout(patience, campaign) => match ended {
                Ok(Err(error)) => reason(&error),
                Ok(Ok(())) | Err(_) => "gave-up".to_owned(),
            },
            () = candidate.watch() => "gave-up".to_owned(),
            () = self.shared.ending(&self.name) => "gave-up".to_owned(),
        };
        if candidate.handle.state() != ElectionState::Idle || candidate.handle.is_leader() {
            candidate.says_wrongly("one that has ended is not idle");
        }
        let position = std::mem::replace(&mut *candidate.position(), Position::Idle);
        if let Position::Campaigns(id) = position {
            self.refused(&[id], now(), &why);
        }
    }
}
