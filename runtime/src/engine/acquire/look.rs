//! A look whether the store answers, for somebody who does not wait for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::check::check;
use crate::core::options::Options;
use crate::engine::lease::{LeaseHandle, OwnLock};
use crate::engine::shared::Shared;
use crate::keeper::ToCancel;
use crate::store::{Kind, Request, RequestSpec, TakeSpec};

/// Longer than a store takes that answers.
const LONGEST: Duration = Duration::from_secs(5);

/// A look at the store's part that has a lock.
pub(crate) struct Look {
    shared: Arc<Shared>,
    asked: ToCancel,
}

impl Look {
    /// A look at the store for a request that only the store can refuse. `None` if it would be
    /// refused without the store.
    pub(crate) fn new(shared: &Arc<Shared>, spec: RequestSpec, options: &Options) -> Option<Self> {
        let client = &shared.client;
        let is_open = !client.keeper.shutdown.has_begun();
        let is_own = LeaseHandle::own_lock(client.id, &spec) != OwnLock::No;
        let is_closed = client.limits.in_force(&spec.key, spec.kind).is_err();
        if !is_open || is_own || is_closed || check(shared, &spec, options).is_err() {
            return None;
        }
        let request = spec.into_request(client.next_request(), options.first_ttl());
        Some(Self { shared: shared.clone(), asked: request.into() })
    }

    /// The same, for a rate.
    pub(crate) fn of_rate(shared: &Arc<Shared>, spec: TakeSpec) -> Option<Self> {
        let client = &shared.client;
        let take = spec.into_take(client.next_request(), Vec::new());
        let is_open = !client.keeper.shutdown.has_begun();
        is_open.then(|| Self { shared: shared.clone(), asked: take.into() })
    }

    /// Returns true if the store answers, though it refuses.
    pub(crate) async fn finds_answer(self) -> bool {
        let client = &self.shared.client;
        let answer = async {
            // Nobody gets a permit before the limits were read.
            if let ToCancel::Request(Request { kind: Kind::Semaphore { .. }, .. }) = self.asked {
                client.limits.know().await?;
            }
            // A cancel of a request that has never asked takes nothing from anybody. Unlike a
            // question, it writes, so a server that can't write does not count as back.
            self.asked.send(&*client.store).await
        };
        match timeout(LONGEST, answer).await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => !error.is_passing,
            Err(_) => false,
        }
    }
}
