//! The commands that both stores are sent.

use std::fmt;
use std::time::Duration;

use leasehold::store::{
    Adoption, Ask, Attempt, ClientInfo, Kind, Owner, Repaired, Reply, Request, Stamp, Store,
    StoreError, Success, Usage, Waiting,
};

use super::answers::Answer;

/// One command, as it is sent to both stores, and perhaps again later.
#[derive(Clone)]
pub(super) struct Command {
    /// The request that it is for, or one for the same lock.
    pub(super) request: Request,
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    Acquire,
    /// With the position that each store told: memory, Redis.
    Wait([Waiting; 2]),
    /// Together with this one.
    AcquireAll(Request),
    Renew,
    /// Until the heartbeat that each store told: memory, Redis.
    KeepOffer([Stamp; 2]),
    /// In the place of this one.
    Adopt(Request),
    Release(Duration),
    Complete,
    Cancel,
    Linger(Usage),
    Introduce(Duration),
    /// The client asks again within this time.
    Vote(Duration),
    Repair(Repair),
    Inspect,
    IsHeldBy(Owner),
    ForceRelease,
    WasForced,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Repair {
    /// As each store counts them: memory, Redis.
    pub(super) tokens: [u64; 2],
    pub(super) lasts: Duration,
}

impl Command {
    pub(super) async fn send(&self, store: &dyn Store, nth: usize) -> Result<Answer, StoreError> {
        let (request, key) = (&self.request, &self.request.key);
        Ok(match &self.what {
            What::Acquire => Answer::Attempt(store.acquire(request, None).await?),
            What::Wait(waiting) => {
                Answer::Attempt(store.acquire(request, Some(waiting[nth])).await?)
            }
            What::AcquireAll(other) => {
                let all: Option<Reply<_>> =
                    store.acquire_all(&[request.clone(), other.clone()], &[]);
                Answer::All(all.expect("it can").await?)
            }
            What::Renew => Answer::Renewal(store.renew(request).await?),
            What::KeepOffer(until) => {
                store.keep_offer(request, until[nth]).await?;
                Answer::Kept
            }
            What::Adopt(from) => Answer::Adoption(store.adopt(from.id.into(), request).await?),
            What::Release(keep) => Answer::Ended(store.release(request, *keep).await?),
            // Other work never counts as done.
            What::Complete if !matches!(request.kind, Kind::Once(_)) => {
                Answer::Ended(store.release(request, Duration::ZERO).await?)
            }
            What::Complete => {
                let answer: Option<Reply<_>> = store.complete(request, Success::default());
                Answer::Ended(answer.expect("it can").await?)
            }
            What::Cancel => Answer::Cancelled(store.cancel(request).await?),
            What::Linger(usage) => {
                // The connection for hints is open, or recalls could not be told.
                let answer: Option<Reply<_>> = store.linger(request, *usage);
                Answer::Lingering(match answer {
                    Some(answer) => Some(answer.await?),
                    None => None,
                })
            }
            What::Introduce(lasts) => {
                let (id, process) = (request.id.client(), 1);
                let (service, host) = (format!("service {id}"), "host".to_owned());
                let info = ClientInfo::new(id, service, host, process);
                store.introduce(&info, *lasts).await?;
                Answer::Introduced
            }
            What::Vote(again) => Answer::Attempt(store.vote(request, *again).await?),
            What::Repair(Repair { tokens, lasts }) => {
                Answer::Repaired(store.repair(request, tokens[nth], *lasts).await?)
            }
            What::Inspect => Answer::Info(store.inspect(key).await?),
            What::IsHeldBy(owner) => Answer::IsHeld(store.is_held_by(key, owner).await?),
            What::ForceRelease => {
                Answer::Forced(store.force_release(key, leasehold_tests::requests::force()).await?)
            }
            What::WasForced => Answer::WasForced(store.was_forced(request).await?),
        })
    }

    /// The requests that an answer grants, and their tokens.
    pub(super) fn granted(&self, answer: &Answer) -> Vec<(&Request, u64)> {
        match (answer, &self.what) {
            (Answer::Attempt(Attempt::Granted { token }), _) => vec![(&self.request, *token)],
            (Answer::All(Ok(tokens)), What::AcquireAll(other)) => {
                [&self.request, other].into_iter().zip(tokens.iter().copied()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The place that an answer gives, and its token.
    pub(super) fn adopted(&self, answer: &Answer) -> Option<(&Request, u64)> {
        match (answer, &self.what) {
            (Answer::Adoption(Adoption::Adopted { token }), What::Adopt(from)) => {
                Some((from, *token))
            }
            _ => None,
        }
    }

    /// The time of a lease that an answer restores. `None` if it restores none.
    pub(super) fn repaired(&self, answer: &Answer) -> Option<Duration> {
        match (answer, &self.what) {
            (Answer::Repaired(Repaired::Held { .. }), What::Repair(repair)) => Some(repair.lasts),
            _ => None,
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { key, id, kind, owner, .. } = &self.request;
        write!(f, "{:?} {} {id:?} {kind:?}", self.what, key.name())?;
        owner.as_ref().map_or(Ok(()), |owner| write!(f, " of {owner:?}"))
    }
}
