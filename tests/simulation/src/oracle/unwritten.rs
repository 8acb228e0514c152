//! Successes that write nothing. With `sync_replicas` a client waits until replicas have what its connection
//! has written: where a script finds what a copy of it has done, and writes nothing, it waits for nothing.

use super::call::{Call, Verb};
use crate::server::core::Core;
use crate::server::reply::Reply;

/// What is wrong with a call whose command has not ended yet.
pub(super) fn problem(core: &Core, call: &Call<'_>, reply: &Reply) -> Option<String> {
    use Verb::{Acquire, AcquireAll, AcquireOnce, Adopt, Complete, Take};
    let verb = call.script.verb;
    let is_confirmed = matches!(verb, Acquire | AcquireOnce | AcquireAll | Adopt | Complete | Take);
    let is_unwritten = is_confirmed && is_success(reply) && !core.journal.has_effect();
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
