//! The decisions of the Lua scripts, in Rust. Each function is the script of
//! the same name, for both kinds of lock.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::super::{Attempt, Ended, Kind, Renewal, Request, RequestId};
use crate::{LockKey, LossReason};

/// How long a free record is remembered.
const GRACE: Duration = Duration::from_secs(60);

/// All records, and the last token: one for the whole store, which grows with
/// each grant of any mutex and so with those of each.
#[derive(Debug, Default)]
pub(super) struct Table {
    records: HashMap<LockKey, Record>,
    last_token: u64,
    /// How many records there may be before the ended ones are forgotten.
    sweep_above: usize,
}

#[derive(Debug)]
struct Record {
    state: State,
    /// The request that ended last.
    ended: Option<RequestId>,
    /// When the record ends.
    until: Instant,
}

#[derive(Debug)]
enum State {
    Free,
    /// Held for the rest of its least time, by nobody.
    Kept,
    Mutex {
        id: RequestId,
        token: u64,
    },
    /// Each holder's deadline.
    Semaphore(HashMap<RequestId, Instant>),
}

impl Table {
    pub(super) fn acquire(&mut self, request: &Request, now: Instant) -> Attempt {
        let until = now + request.ttl;
        if let Some(record) = self.live(request, now) {
            if record.ended == Some(request.id) {
                return Attempt::Ended;
            }
            let busy = |until: Instant| Attempt::Busy { retry_after: until - now, repaired: false };
            match (&mut record.state, request.kind) {
                (State::Free, _) => {}
                (State::Mutex { .. } | State::Kept, Kind::Semaphore { .. })
                | (State::Semaphore(_), Kind::Mutex) => return Attempt::WrongKind,
                (State::Kept, Kind::Mutex) => return busy(record.until),
                (&mut State::Mutex { id, token }, Kind::Mutex) => {
                    if id != request.id {
                        return busy(record.until);
                    }
                    record.until = until;
                    return Attempt::Granted { token };
                }
                (State::Semaphore(holders), Kind::Semaphore { limit, .. }) => {
                    holders.retain(|_, deadline| *deadline > now);
                    let is_full = holders.len() >= limit as usize;
                    if is_full && !holders.contains_key(&request.id) {
                        return busy(holders.values().min().copied().unwrap_or(now));
                    }
                    holders.insert(request.id, until);
                    record.until = record.until.max(until);
                    return Attempt::Granted { token: 0 };
                }
            }
        }
        self.grant(request, now)
    }

    /// Grants what nobody holds.
    fn grant(&mut self, request: &Request, now: Instant) -> Attempt {
        self.sweep(now);
        let (state, token) = match request.kind {
            Kind::Mutex => {
                self.last_token += 1;
                (State::Mutex { id: request.id, token: self.last_token }, self.last_token)
            }
            Kind::Semaphore { .. } => {
                (State::Semaphore([(request.id, now + request.ttl)].into()), 0)
            }
        };
        let ended = self.live(request, now).and_then(|record| record.ended);
        let record = Record { state, ended, until: now + request.ttl };
        self.records.insert(request.key.clone(), record);
        Attempt::Granted { token }
    }

    pub(super) fn renew(&mut self, request: &Request, now: Instant) -> Renewal {
        let until = now + request.ttl;
        let Some(record) = self.live(request, now) else {
            return Renewal::NotHeld(LossReason::Expired);
        };
        match &mut record.state {
            State::Mutex { id, .. } if *id == request.id => record.until = until,
            State::Semaphore(holders) => match holders.get_mut(&request.id) {
                Some(deadline) if *deadline > now => {
                    *deadline = until;
                    record.until = record.until.max(until);
                }
                _ => return Renewal::NotHeld(LossReason::Expired),
            },
            _ => return Renewal::NotHeld(LossReason::Taken),
        }
        Renewal::Renewed
    }

    pub(super) fn release(&mut self, request: &Request, keep: Duration, now: Instant) -> Ended {
        let reason = match request.kind {
            Kind::Mutex if self.live(request, now).is_some() => LossReason::Taken,
            _ => LossReason::Expired,
        };
        if self.take_out(request, now) {
            let Some(record) = self.live(request, now) else { return Ended::Released };
            if !keep.is_zero() && matches!(record.state, State::Free) {
                record.state = State::Kept;
                record.until = now + keep;
                return Ended::Kept;
            }
            return Ended::Released;
        }
        match self.live(request, now) {
            Some(record) if record.ended == Some(request.id) => match record.state {
                State::Kept => Ended::Kept,
                _ => Ended::Released,
            },
            _ => Ended::NotHeld(reason),
        }
    }

    pub(super) fn cancel(&mut self, request: &Request, now: Instant) -> bool {
        if self.take_out(request, now) {
            return true;
        }
        if let Some(record) = self.live(request, now) {
            record.ended = Some(request.id);
        } else {
            self.sweep(now);
            let record = Record { state: State::Free, ended: Some(request.id), until: now + GRACE };
            self.records.insert(request.key.clone(), record);
        }
        false
    }

    /// Ends the request's lease, and says whether it had one.
    fn take_out(&mut self, request: &Request, now: Instant) -> bool {
        let Some(record) = self.live(request, now) else { return false };
        match &mut record.state {
            State::Mutex { id, .. } if *id == request.id => {}
            State::Semaphore(holders) => {
                if holders.remove(&request.id).is_none_or(|deadline| deadline <= now) {
                    return false;
                }
                if let Some(last) = holders.values().max().filter(|last| **last > now) {
                    record.until = *last;
                    record.ended = Some(request.id);
                    return true;
                }
            }
            _ => return false,
        }
        *record = Record { state: State::Free, ended: Some(request.id), until: now + GRACE };
        true
    }

    fn live(&mut self, request: &Request, now: Instant) -> Option<&mut Record> {
        self.records.get_mut(&request.key).filter(|record| record.until > now)
    }

    /// Forgets what ended, once there are twice as many records as were live
    /// the last time: constant work a grant, and no thread.
    fn sweep(&mut self, now: Instant) {
        if self.records.len() > self.sweep_above {
            self.records.retain(|_, record| record.until > now);
            self.sweep_above = (self.records.len() * 2).max(64);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::super::super::ClientId;
    use super::*;

    #[test]
    fn what_ended_is_forgotten() {
        let (mut table, mut now) = (Table::default(), Instant::now());
        let (client, counter) = (ClientId::random(), AtomicU64::new(0));
        for n in 0..10_000 {
            let request = Request {
                key: LockKey::new(format!("lock:{n}")).unwrap(),
                id: RequestId::next(client, &counter),
                kind: Kind::Mutex,
                ttl: Duration::from_secs(1),
            };
            assert!(matches!(table.acquire(&request, now), Attempt::Granted { .. }));
            assert_eq!(table.release(&request, Duration::ZERO, now), Ended::Released);
            now += Duration::from_secs(1);
        }
        assert!(table.records.len() < 200, "{} records", table.records.len());
    }
}
