//! Rates, and several locks and rates in one command.

use std::time::Duration;

use super::Encoder;
use crate::store::redis::encoded::Encoded;
use crate::store::redis::holder::asker;
use crate::store::redis::script;
use crate::store::{Kind, Request, RequestId, Take};

/// The role of a rate's key.
const RATE: &str = "rate";

impl Encoder {
    /// Acquires the locks, and takes of the rates.
    pub(in crate::store::redis) fn acquire_all(
        &self,
        locks: &[Request],
        takes: &[Take],
    ) -> Encoded {
        // The scripts for mutexes or a rate alone have less to define, and cost the server less.
        let is_of_mutexes = takes.is_empty() && locks.iter().all(|it| it.kind.is_mutex());
        let mut command = match (locks, takes) {
            ([], [take]) => return self.take(take),
            _ if is_of_mutexes => Encoded::new(&script::MUTEX_ACQUIRE_ALL),
            _ => Encoded::new(&script::LOCK_ACQUIRE_ALL),
        };
        for request in locks {
            command = command.lock_keys(&request.key, &self.prefix);
        }
        for take in takes {
            command = command.key_of_lock(&take.key, &self.prefix, RATE);
        }
        let key = locks.first().map(|it| &it.key).or(takes.first().map(|it| &it.key));
        if let Some(key) = key {
            command = self.shared_key(key, command);
        }
        // A call for rates alone does not read it.
        command = command.millis(locks.first().map_or(Duration::ZERO, |it| it.ttl));
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        command = command.number(number(locks.len()));
        if !is_of_mutexes {
            command = command.number(number(takes.len()));
        }
        for request in locks {
            command = command.arg(&*asker(request));
            match request.kind {
                Kind::Semaphore { limit, .. } => command = command.number(limit),
                _ if is_of_mutexes => {}
                _ => command = command.number(0u64),
            }
        }
        takes.iter().fold(command, Self::take_args)
    }

    fn take(&self, take: &Take) -> Encoded {
        let command = Encoded::new(&script::RATE_TAKE).lock_keys(&take.key, &self.prefix);
        Self::take_args(command, take)
    }

    fn take_args(command: Encoded, take: &Take) -> Encoded {
        let command = command.arg(take.id.as_bytes()).number(take.micros());
        let command = command.number(take.rate.micros(take.rate.most_at_once()));
        let settled: Vec<_> = take.settled.iter().map(RequestId::as_bytes).collect();
        let wait = u64::try_from(take.wait.as_micros()).unwrap_or(u64::MAX);
        command.arg(settled.concat()).number(wait)
    }

    /// Gives back what a request took of a rate.
    pub(in crate::store::redis) fn give_back(&self, take: &Take) -> Encoded {
        let command = Encoded::new(&script::RATE_GIVE_BACK).lock_keys(&take.key, &self.prefix);
        command.arg(take.id.as_bytes()).number(take.micros())
    }
}
