//! What is refused without a question to the store.

use crate::core::error::{LockError, Step};
use crate::core::options::Options;
use crate::core::timers::check_timers;
use crate::engine::shared::Shared;
use crate::store::{Kind, RequestSpec};

/// Refuses what is invalid, without asking the store.
pub(super) fn check(
    shared: &Shared,
    spec: &RequestSpec,
    options: &Options,
) -> Result<(), LockError> {
    let client = &shared.client;
    client.check_not_forked(Step::Acquire, &spec.key)?;
    check_timers()?;
    options.check(spec.kind.is_mutex())?;
    options.check_longest(client.store.longest_ttl())?;
    let once = matches!(spec.kind, Kind::Once(_)).then_some("work that succeeds once");
    if let Some(what) = once.or(options.replace.then_some("`replace`"))
        && !client.store.has_queue()
    {
        return Err(LockError::Unsupported { what });
    }
    Ok(())
}
