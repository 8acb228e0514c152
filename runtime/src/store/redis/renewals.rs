//! Renewals that are due together, and an answer to each.

#[cfg(feature = "cluster")]
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;

use super::batcher::Entry;
use super::command::{Command, integers, is_wrong_type, limit, unreadable};
use super::{RedisStore, Servers, errors, script};
use crate::core::error::LossReason;
use crate::store::{Renewal, Renewals, Request, StoreError};

impl RedisStore {
    pub(super) fn renew_together(&self, requests: &[Request]) -> Renewals {
        let limit = |request: &Request| limit(request, self.command_timeout);
        #[cfg_attr(
            not(feature = "cluster"),
            expect(clippy::infallible_destructuring_match, reason = "a cluster is the other")
        )]
        let pumps = match &self.servers {
            Servers::One(pumps) => pumps,
            // They are on several nodes: each goes to that of its slot.
            #[cfg(feature = "cluster")]
            Servers::Cluster(cluster) => {
                let renew = |request| {
                    // One whose slot moves is sent again with the next, and holds up nobody.
                    let answer =
                        cluster.send(self.renewal(request), limit(request), Duration::ZERO);
                    async move { read(answer.await) }
                };
                return Box::pin(join_all(requests.iter().map(renew)));
            }
        };
        let renew = |request| Entry::new(self.renewal(request), limit(request));
        let (entries, answers): (Vec<_>, Vec<_>) = requests.iter().map(renew).unzip();
        pumps.push(entries);
        Box::pin(async move {
            let answers = join_all(answers).await.into_iter();
            answers.map(|answer| read(answer.unwrap_or_else(|_| Err(errors::shutdown())))).collect()
        })
    }

    pub(super) fn renewal(&self, request: &Request) -> Command {
        self.of(request, &script::RENEW).millis(request.ttl)
    }
}

/// What a renewal was answered.
pub(super) fn read(answer: Result<Value, StoreError>) -> Result<Renewal, StoreError> {
    let answer = match answer {
        Err(error) if is_wrong_type(&error) => return Ok(Renewal::NotHeld(LossReason::Taken)),
        answer => answer?,
    };
    Ok(match *integers(&answer) {
        [1] => Renewal::Renewed,
        [0] => Renewal::NotHeld(LossReason::Expired),
        [2] => Renewal::NotHeld(LossReason::Taken),
        _ => return Err(unreadable(&answer)),
    })
}
