//! The store on a Redis or Valkey server: each command is one Lua script.

mod address;
mod args;
mod batch;
mod batcher;
mod clock;
#[cfg(feature = "cluster")]
mod cluster;
mod command;
mod connect;
mod connection;
mod encode;
mod endpoint;
mod errors;
mod external_pool;
mod handshake;
mod hints;
mod inspect;
mod lazy;
mod manager;
mod member;
mod quorum_member;
mod renewals;
mod replicated;
mod script;
mod sentinel;
mod server_info;
mod server_state;
mod settings;
mod subscriber;
mod tcp;
mod wire;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use self::batcher::Pumps;
use self::command::{Command, integers, is_wrong_type, limit, limit_of, unreadable};
use self::encode::{by, holder};
pub use self::lazy::Lazy;
pub use self::member::Member;
use self::replicated::Synced;
pub use self::settings::Settings;
#[cfg(feature = "cluster")]
use super::Subscription;
use super::{
    Adoption, All, Attempt, ClientId, ClientInfo, Ended, Forced, Kind, Listener, LockInfo, Owner,
    QueuePosition, Renewal, Renewals, Request, RequestId, Stamp, Store, StoreFuture, Waiting,
};
use crate::core::error::LossReason;
use crate::core::fence::Fence;
use crate::core::key::LockKey;

/// What a store is connected to.
#[derive(Clone, Debug)]
enum Servers {
    One(Arc<Pumps>),
    #[cfg(feature = "cluster")]
    Cluster(Arc<cluster::Cluster>),
}

/// Keeps leases on one server, or on a cluster.
#[derive(Clone, Debug)]
pub struct RedisStore {
    servers: Servers,
    prefix: Arc<str>,
    /// Where one server's scripts publish, but for the client's id.
    wake: Arc<str>,
    /// The most that a command may take.
    command_timeout: Duration,
    /// What grants goes by these, if replicas are to have it.
    synced: Option<Arc<Synced>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an acquire was answered.
fn attempt(answer: &[u64]) -> Option<Attempt> {
    Some(match *answer {
        [1, token] => Attempt::Granted { token },
        [code @ (0 | 4 | 7), millis] => {
            let retry_after = Duration::from_millis(millis);
            Attempt::Busy { retry_after, expiry_added: code == 4, kept: code == 7 }
        }
        [2] => Attempt::Ended,
        [3] => Attempt::WrongKind,
        [6] => Attempt::WouldDeadlock,
        [5, position, until, again] => {
            Attempt::Queued { position, until, ask_again: Duration::from_millis(again) }
        }
        _ => return None,
    })
}

impl Store for RedisStore {
    fn acquire(&self, request: &Request, waiting: Option<Waiting>) -> StoreFuture<Attempt> {
        let mut command = self.of(request, &script::ACQUIRE).millis(request.ttl);
        if let Kind::Semaphore { limit, .. } = request.kind {
            command = command.number(limit);
        }
        command = match waiting {
            None => command.number(0_u8).number(0_u8),
            Some(Waiting { live, position: QueuePosition::Assigned(position) }) => {
                command.millis(live).number(position)
            }
            Some(Waiting { live, position: QueuePosition::New { age } }) => {
                let command = command.millis(live);
                if age.is_zero() {
                    command.number(0_u8)
                } else {
                    command.arg(format!("-{}", age.as_micros()))
                }
            }
        };
        if request.kind == Kind::Mutex {
            command = command.arg(by(request.owner.as_ref()));
        }
        let command = command.arg(&*self.wake(&request.key));
        let of_one = std::slice::from_ref(request);
        let is_grant = |answer: &[u64]| matches!(*answer, [1, _]);
        self.grant(command, of_one, is_grant, Attempt::WrongKind, attempt)
    }

    fn acquire_all(&self, requests: &[Request]) -> Option<StoreFuture<All>> {
        let (first, count) = (requests.first()?, requests.len());
        let is_one_call = |request: &Request| match &self.servers {
            // What takes one back must not overtake it, by another connection.
            Servers::One(pumps) => pumps.have_together(&request.key, &first.key),
            #[cfg(feature = "cluster")]
            Servers::Cluster(_) => request.key.shares_slot(&first.key),
        };
        if !requests.iter().all(is_one_call) {
            return None;
        }
        let mut command = Command::new(&script::MUTEX_ACQUIRE_ALL);
        for request in requests {
            command = command.keys(&request.key, &self.prefix);
        }
        command = command.millis(first.ttl);
        for request in requests {
            command = command.arg(request.id.as_bytes());
        }
        // A value of another type is found, and named, by who asks for it alone.
        let is_grant = |answer: &[u64]| answer.first() != Some(&0);
        Some(self.grant(command, requests, is_grant, Err(None), move |answer| match *answer {
            [0, place] => Some(Err(usize::try_from(place).ok()?.checked_sub(1))),
            _ => (answer.len() == count).then(|| Ok(answer.to_vec())),
        }))
    }

    fn renew(&self, request: &Request) -> StoreFuture<Renewal> {
        self.send(self.renewal(request), limit(request, self.command_timeout), renewals::read)
    }

    fn renew_all(&self, requests: &[Request]) -> Renewals {
        self.renew_together(requests)
    }

    fn keep_offer(&self, request: &Request, until: Stamp) -> StoreFuture<()> {
        let command = Command::new(&script::LOCK_KEEP_OFFER).keys(&request.key, &self.prefix);
        let command = command.arg(holder(request)).number(until);
        self.ask(command, request, (), |answer| matches!(*answer, [0 | 1]).then_some(()))
    }

    fn adopt(&self, from: RequestId, request: &Request) -> StoreFuture<Adoption> {
        let before = Request { id: from, ..request.clone() };
        let command = self.of(request, &script::ADOPT).arg(&*holder(&before)).millis(request.ttl);
        let foreign = Adoption::NotHeld(LossReason::Taken);
        self.ask(command, request, foreign, |answer| {
            Some(match *answer {
                [1, token] => Adoption::Adopted { token },
                [0] => Adoption::NotHeld(LossReason::Expired),
                [2] => Adoption::NotHeld(LossReason::Taken),
                _ => return None,
            })
        })
    }

    fn release(&self, request: &Request, keep: Duration) -> StoreFuture<Ended> {
        let mut command = self.of(request, &script::RELEASE);
        if request.kind == Kind::Mutex {
            command = command.millis(keep);
        }
        let command = command.arg(&*self.wake(&request.key));
        self.ask(command, request, Ended::NotHeld(LossReason::Taken), |answer| {
            Some(match *answer {
                [1] | [1, 0] => Ended::Released,
                [1, left] => Ended::StillHeld(u32::try_from(left).unwrap_or(u32::MAX)),
                [3] => Ended::Kept,
                [0] => Ended::NotHeld(LossReason::Expired),
                [2] => Ended::NotHeld(LossReason::Taken),
                _ => return None,
            })
        })
    }

    fn cancel(&self, request: &Request) -> StoreFuture<bool> {
        self.ask(self.cancellation(request), request, false, |answer| match *answer {
            [held @ (0 | 1)] => Some(held == 1),
            _ => None,
        })
    }

    fn inspect(&self, key: &LockKey) -> StoreFuture<LockInfo> {
        let store = self.clone();
        let key = key.clone();
        Box::pin(async move { store.look_at(&key).await })
    }

    fn is_held_by(&self, key: &LockKey, owner: &Owner) -> StoreFuture<bool> {
        let store = self.clone();
        let (key, owner) = (key.clone(), by(Some(owner)));
        Box::pin(async move { store.is_owned_by(&key, &owner).await })
    }

    fn force_release(&self, key: &LockKey) -> StoreFuture<Forced> {
        let command = Command::new(&script::LOCK_FORCE_RELEASE).keys(key, &self.prefix);
        self.send(command.arg(&*self.wake(key)), self.command_timeout, |answer| match answer {
            Err(error) if is_wrong_type(&error) => Ok(Forced::Foreign),
            answer => {
                let answer = answer?;
                match *integers(&answer) {
                    [0] | [1, 0, _] => Ok(Forced::NotHeld),
                    [1, held, token] => Ok(Forced::Released { held, fence: Fence::new(token) }),
                    [3] => Ok(Forced::Foreign),
                    _ => Err(unreadable(&answer)),
                }
            }
        })
    }

    fn was_forced(&self, request: &Request) -> StoreFuture<bool> {
        let command = Command::new(&script::LOCK_WAS_FORCED).keys(&request.key, &self.prefix);
        self.ask(command.arg(holder(request)), request, false, |answer| match *answer {
            [forced @ (0 | 1)] => Some(forced == 1),
            _ => None,
        })
    }

    fn introduce(&self, client: &ClientInfo, lasts: Duration) -> StoreFuture<()> {
        let command = Command::new(&script::CLIENT_INTRODUCE).key(&self.client(client.id));
        let command = command.arg(&client.service).arg(&client.host).number(client.process);
        self.send(command.millis(lasts), self.command_timeout, |answer| answer.map(|_| ()))
    }

    fn listen(&self, _: ClientId, listener: Weak<dyn Listener>) {
        match &self.servers {
            Servers::One(pumps) => pumps.connections().shared().ears.listen(listener),
            #[cfg(feature = "cluster")]
            Servers::Cluster(cluster) => cluster.hub.ears.listen(listener),
        }
    }

    fn gives_hints(&self) -> bool {
        match &self.servers {
            Servers::One(pumps) => pumps.hear(),
            #[cfg(feature = "cluster")]
            Servers::Cluster(cluster) => cluster.hub.is_open(),
        }
    }

    #[cfg(feature = "cluster")]
    fn subscribe(&self, request: &Request) -> Option<StoreFuture<Subscription>> {
        match &self.servers {
            Servers::One(_) => None,
            Servers::Cluster(cluster) => {
                Some(Box::pin(cluster.hub.clone().attend(self.wake(&request.key).into_owned())))
            }
        }
    }

    fn answers_within(&self, ttl: Duration) -> Option<Duration> {
        let limit = limit_of(ttl, self.command_timeout);
        let once = match &self.servers {
            Servers::One(_) => limit,
            #[cfg(feature = "cluster")]
            Servers::Cluster(_) => cluster::patience(limit),
        };
        Some(self.synced.as_ref().map_or(once, |synced| synced.patience(limit)))
    }

    fn now(&self) -> Instant {
        clock::now()
    }
}
