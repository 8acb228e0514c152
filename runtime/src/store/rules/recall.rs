//! Asking clients to release leases that they keep without using them: the includes `recall`,
//! `recall_clients` and `other_kind`.

use super::context::Context;
use super::mark::Mark;
use super::state::{LockState, Record, Status};
use crate::store::{Attempt, Hint, Request};

/// Returns true if the holder's client keeps the mutex, or was told before that others want it.
pub(super) fn may_recall(lock: &LockState) -> bool {
    let Some(Record { status: Status::One { mark, .. }, .. }) = &lock.record else { return false };
    matches!(mark, Mark::Lingers | Mark::Recalled)
}

/// Tells the holder's client that another client wants the mutex, if it may keep it without
/// using it: once, or with each ask if `repeats`. True if it was told now. The include `recall`.
pub(super) fn recall(
    lock: &mut LockState,
    request: &Request,
    repeats: bool,
    context: &mut Context<'_>,
) -> bool {
    let Some(Record { status: Status::One { id, mark, .. }, .. }) = &mut lock.record else {
        return false;
    };
    if *mark != Mark::Lingers && !(repeats && *mark == Mark::Recalled) {
        return false;
    }
    *mark = Mark::Recalled;
    context.tell(id.client(), Hint::Recalled { key: request.key.clone() });
    true
}

/// Tells each marked client that another client wants the lock: once, or with each ask if
/// `repeats`. True if it told one now. The include `recall_clients`.
pub(super) fn recall_clients(
    lock: &mut LockState,
    request: &Request,
    repeats: bool,
    context: &mut Context<'_>,
) -> bool {
    let mut is_told = false;
    lock.holders.drop_ended_marks(context.now);
    for (client, mark) in &mut lock.holders.marks {
        if mark.mark == Mark::Lingers || repeats {
            mark.mark = Mark::Recalled;
            context.tell(*client, Hint::Recalled { key: request.key.clone() });
            is_told = true;
        }
    }
    is_told
}

/// The answer where the lock is held as another kind. If clients keep it without using it, they are
/// asked to release it: once, or with each ask if `repeats`.
pub(super) fn other_kind(
    lock: &mut LockState,
    request: &Request,
    repeats: bool,
    context: &mut Context<'_>,
) -> Attempt {
    let is_one = lock.record.as_ref().is_some_and(|it| matches!(it.status, Status::One { .. }));
    let is_told = if is_one {
        recall(lock, request, repeats, context)
    } else {
        recall_clients(lock, request, repeats, context)
    };
    let retry_after = lock.left(context.now);
    if is_told { Attempt::Recalled { retry_after, other_kind: true } } else { Attempt::WrongKind }
}
