//! Every answer is one that the faults of a soak can explain, and no process ends by itself.

use crate::history::History;

const REFUSALS: [&str; 8] =
    ["busy", "timed-out", "store", "quorum", "gave-up", "shut-down", "done", "ticket-ended"];

const RELEASES: [&str; 9] =
    ["free", "still", "kept", "lingers", "lost", "store", "quorum", "dropped", "detached"];

pub(super) fn check(history: &History) -> Vec<String> {
    let mut wrong = history.broken.clone();
    for request in &history.requests {
        let id = &request.id;
        if let Some((_, why)) = &request.refused
            && !REFUSALS.contains(&&**why)
        {
            wrong.push(format!("answer: {id} was refused: {why}"));
        }
        if let Some((_, how)) = &request.freed
            && !RELEASES.contains(&&**how)
        {
            wrong.push(format!("answer: {id} was released: {how}"));
        }
        if request.granted.is_some() {
            if request.refused.is_some() {
                wrong.push(format!("answer: {id} was granted and refused"));
            }
            if request.kind.is_fenced() && request.token.is_none() && request.lost.is_none() {
                wrong.push(format!("answer: {id} has no token"));
            }
        }
    }
    wrong
}
