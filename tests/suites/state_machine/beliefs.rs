//! The leases that clients believe in, by the answers that they got.

use std::collections::HashMap;
use std::time::Duration;

use leasehold::store::{
    Adoption, Attempt, Ended, Forced, Kind, Lingering, Renewal, Repaired, Request, RequestId,
};

use super::answers::Answer;
use super::commands::{Command, What};

/// A lease that a client believes to hold.
struct Belief {
    request: Request,
    until: Duration,
    /// It was released, and is kept for the rest of its time.
    is_kept: bool,
}

#[derive(Default)]
pub(super) struct Beliefs {
    all: Vec<Belief>,
    /// The forced requests, and until when the store remembers them.
    forced: HashMap<RequestId, Duration>,
}

impl Beliefs {
    /// Checks an answer against earlier ones. A holder may not have known that it holds: its
    /// time was over, and the clock was set back.
    pub(super) fn hear(
        &mut self,
        command: &Command,
        answer: &Answer,
        now: Duration,
        had_it: bool,
    ) -> Result<(), String> {
        self.pass(now);
        for (request, _) in command.granted(answer) {
            self.grant(request, now);
            self.are_exclusive(request)?;
        }
        let request = &command.request;
        if let Some((from, _)) = command.adopted(answer) {
            self.all.retain(|belief| belief.request.id != from.id);
            self.grant(request, now);
        }
        if let Answer::Renewal(Renewal::Renewed) | Answer::Lingering(Some(Lingering::Kept { .. })) =
            answer
        {
            self.grant(request, now);
        }
        let mine = self.all.iter().position(|belief| belief.request.id == request.id);
        if let Some(lasts) = command.repaired(answer).filter(|_| mine.is_none()) {
            if had_it {
                return Ok(());
            }
            self.grant_for(request, now + lasts);
            return self.are_exclusive(request);
        }
        let is_live = mine.is_some_and(|mine| !self.all[mine].is_kept);
        let is_true = match (answer, &command.what) {
            (Answer::Ended(Ended::Kept), &What::Release(keep)) => {
                // A repeat gets the same answer, and keeps the lock no longer.
                if let Some(mine) = mine.filter(|_| is_live) {
                    (self.all[mine].until, self.all[mine].is_kept) = (now + keep, true);
                }
                true
            }
            (
                Answer::Ended(Ended::Released | Ended::StillHeld(_))
                | Answer::Lingering(Some(Lingering::Ended(Ended::Released)))
                | Answer::Cancelled(true),
                _,
            ) => {
                mine.map(|mine| self.all.swap_remove(mine));
                true
            }
            (Answer::Forced(Forced::Released { .. }), _) => {
                for taken in self.all.extract_if(.., |belief| belief.request.key == request.key) {
                    self.forced.insert(taken.request.id, taken.until);
                }
                true
            }
            (Answer::Forced(_), _) => {
                !self.all.iter().any(|belief| belief.request.key == request.key)
            }
            (Answer::WasForced(was), _) => {
                let until = self.forced.get(&request.id);
                *was || until.is_none_or(|until| *until <= now)
            }
            // A holder is not refused its own lease.
            (Answer::Attempt(attempt), _) => matches!(attempt, Attempt::Granted { .. }) || !is_live,
            (
                Answer::Renewal(Renewal::NotHeld(_))
                | Answer::Adoption(Adoption::NotHeld(_))
                | Answer::Ended(Ended::NotHeld(_))
                | Answer::Lingering(Some(Lingering::Ended(_)))
                | Answer::Cancelled(false)
                | Answer::Repaired(Repaired::NotHeld),
                _,
            ) => !is_live,
            (Answer::Lingering(Some(Lingering::Wanted)), _) => had_it,
            // A kept lock has no holder.
            (Answer::Repaired(Repaired::Held { .. }), _) => is_live,
            _ => true,
        };
        ensure(is_true, || format!("{:?} was told otherwise before", request.id))?;
        self.are_exclusive(request)
    }

    /// Forgets beliefs that have ended.
    pub(super) fn pass(&mut self, now: Duration) {
        self.all.retain(|belief| belief.until > now);
    }

    /// A client that was told that it holds something.
    pub(super) fn nth(&self, nth: usize) -> Option<&Request> {
        self.all.get(nth % self.all.len().max(1)).map(|belief| &belief.request)
    }

    fn grant(&mut self, request: &Request, now: Duration) {
        self.grant_for(request, now + request.ttl);
    }

    fn grant_for(&mut self, request: &Request, until: Duration) {
        self.all.retain(|belief| belief.request.id != request.id);
        self.all.push(Belief { request: request.clone(), until, is_kept: false });
    }

    /// Checks that all clients that believe in a lease may hold the lock together.
    fn are_exclusive(&self, request: &Request) -> Result<(), String> {
        let here: Vec<_> =
            self.all.iter().map(|it| &it.request).filter(|it| it.key == request.key).collect();
        let mut pairs = here
            .iter()
            .enumerate()
            .flat_map(|(nth, first)| here[nth + 1..].iter().map(move |second| (first, second)));
        let may_meet = |(first, second): (&&Request, &&Request)| {
            let is_one_owner = first.owner.is_some() && first.owner == second.owner;
            match (first.kind, second.kind) {
                (Kind::Reentrant, Kind::Reentrant)
                | (Kind::Read, Kind::Write)
                | (Kind::Write, Kind::Read) => is_one_owner,
                (Kind::Read, Kind::Read) | (Kind::Semaphore { .. }, Kind::Semaphore { .. }) => true,
                _ => false,
            }
        };
        ensure(pairs.all(may_meet), || format!("at the same time: {here:?}"))
    }
}

pub(super) fn ensure(is_so: bool, problem: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(problem()) }
}
