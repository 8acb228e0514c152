//! Whether somebody lets the work run again. Only the store says so.

use std::time::{Duration, SystemTime};

use super::next::{OUTAGE, SHORTEST, sleep};
use super::{Job, SoFar};
use crate::hints::Wakeup;
use crate::store::{Ask, StoreError};
use crate::system;

/// The longest time until a job asks that was woken, and a little more.
const WOKEN: Duration = Duration::from_secs(1);

impl Job {
    /// Waits until the store says that the work was let run again since this process last heard of it. A
    /// message is only a reason to ask the store: anybody may have sent it.
    pub(super) async fn until_asked_again(&self, wakeup: &Wakeup, so_far: &mut SoFar) {
        let store = &*self.mutex.spec().shared.client.store;
        loop {
            wakeup.woken().await;
            // Those that are woken together do not ask together.
            let mut pause = SHORTEST + system::full_jitter(self.spread().min(WOKEN));
            let known = so_far.asked_again;
            let asked = loop {
                sleep(store, pause).await;
                wakeup.watch(store).await;
                if let Ok(asked) = self.asked_again(so_far).await {
                    break asked;
                }
                pause = system::equal_jitter(OUTAGE);
            };
            if asked != known {
                return;
            }
        }
    }

    /// When the work was last let run again, by the server's clock. A server that will not say so counts
    /// as one that knows of nothing.
    pub(super) async fn asked_again(
        &self,
        so_far: &mut SoFar,
    ) -> Result<Option<SystemTime>, StoreError> {
        let spec = self.mutex.spec();
        let Ok(key) = spec.key() else { return Ok(None) };
        match spec.shared.client.store.inspect(&key).await {
            Ok(seen) => {
                so_far.asked_again = seen.job.and_then(|job| job.asked_again).map(|it| it.at);
                Ok(so_far.asked_again)
            }
            Err(error) if error.is_passing => Err(error),
            Err(_) => Ok(so_far.asked_again),
        }
    }
}
