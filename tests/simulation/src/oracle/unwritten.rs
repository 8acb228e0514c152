//! Successes that write nothing. With `sync_replicas` a client waits until replicas have what its connection
//! has written: where a script finds what a copy of it has done, and writes nothing, it waits for nothing.

use super::call::{Call, Verb};
use crate::server::core::Core;
use crate::server::reply::Reply;

/// Returns true if a client may wait until replicas have what this call has written.
pub(super) fn is_confirmed(call: &Call<'_>, reply: &Reply) -> bool {
    use Verb::{Acquire, AcquireAll, AcquireOnce, Adopt, Complete, Take};
    let verb = call.script.verb;
    let is_confirmed = matches!(verb, Acquire | AcquireOnce | AcquireAll | Adopt | Complete | Take);
    is_confirmed && is_success(reply)
}

/// What is wrong with such a call, before its command has ended.
pub(super) fn problem(core: &Core) -> Option<String> {
    let is_unwritten = !core.journal.has_effect();
    is_unwritten.then(|| "it succeeds, and writes nothing that replicas can confirm".to_owned())
}

/// Returns true if this is a success, or the answer to one of several requests is.
fn is_success(reply: &Reply) -> bool {
    match reply {
        Reply::Int(code) => *code == 1,
        Reply::Array(all) => match all.first() {
            Some(Reply::Array(_)) => all.iter().any(is_success),
            first => first.is_some_and(is_success),
        },
        _ => false,
    }
}
