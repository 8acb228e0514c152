//! Several locks and rates in one command.

use super::Encoder;
use crate::store::redis::encoded::Encoded;
use crate::store::redis::holder::asker;
use crate::store::redis::script;
use crate::store::{Kind, Request};

/// The role of a rate's key.
const RATE: &str = "rate";

impl Encoder {
    /// Acquires the locks, and takes of the rates behind them.
    pub(in crate::store::redis) fn acquire_all(&self, requests: &[Request]) -> Encoded {
        let count = requests.iter().take_while(|request| !request.kind.is_rate()).count();
        let (locks, rates) = requests.split_at(count);
        debug_assert!(rates.iter().all(|it| it.kind.is_rate()), "a rate comes before a lock");
        // The scripts for mutexes or a rate alone have less to define, and cost the server less.
        let is_of_mutexes = rates.is_empty() && locks.iter().all(|it| it.kind.is_mutex());
        let mut command = match (locks, rates) {
            ([], [rate]) => return self.take_rate(rate),
            _ if is_of_mutexes => Encoded::new(&script::MUTEX_ACQUIRE_ALL),
            _ => Encoded::new(&script::LOCK_ACQUIRE_ALL),
        };
        for request in locks {
            command = command.lock_keys(&request.key, &self.prefix);
        }
        for request in rates {
            command = command.key_of_lock(&request.key, &self.prefix, RATE);
        }
        if let Some(first) = requests.first() {
            command = self.shared_key(&first.key, command).millis(first.ttl);
        }
        if !is_of_mutexes {
            command = command.number(u64::try_from(count).unwrap_or(u64::MAX));
        }
        for request in locks {
            command = command.arg(&*asker(request));
            match request.kind {
                Kind::Semaphore { limit, .. } => command = command.number(limit),
                _ if is_of_mutexes => {}
                _ => command = command.number(0u64),
            }
        }
        rates.iter().fold(command, Self::rate_args)
    }

    fn take_rate(&self, request: &Request) -> Encoded {
        let command = Encoded::new(&script::RATE_TAKE);
        Self::rate_args(command.lock_keys(&request.key, &self.prefix), request)
    }

    /// What a request takes of a rate.
    fn rate_args(command: Encoded, request: &Request) -> Encoded {
        let Kind::Rate { rate, weight } = request.kind else { unreachable!("it is a rate") };
        let command = command.arg(request.id.as_bytes()).number(rate.micros(weight));
        command.number(rate.micros(rate.most_at_once()))
    }
}
