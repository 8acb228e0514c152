//! What an operator is to see of a lock, one thing to a line.

use super::format::{Holder, Mode, Record};
use super::stored::{Place, Stored};

/// A waiter of whom nothing else is known.
const UNKNOWN: &str = "1 None None false";

/// So many waiters are shown, the first ones.
const MOST: usize = 64;

/// What is stored of a lock, as it is to be shown.
pub(super) fn shown(place: &Place, stored: &Stored) -> Vec<String> {
    let record = stored.record();
    let token = record.map_or(0, Record::token);
    let is_owned = record.is_some_and(|it| it.kind() == b'E');
    let mut lines = vec![format!("name {}", place.name())];
    // Without a record, the holders say it.
    let kind = record.map(|it| match it.kind() {
        b'M' => "mutex",
        b'E' => "reentrant_mutex",
        b'S' => "semaphore",
        _ => "rw_lock",
    });
    lines.extend(kind.map(|kind| format!("kind {kind}")));
    lines.push(format!("held by {}", stored.live().count()));
    let shown = |holder: Holder<'_>| {
        let is_fenced = is_owned || matches!(holder.mode, Mode::Alone | Mode::Writer);
        let token = Some(token).filter(|token| is_fenced && *token > 0);
        format!("holder {} {token:?} {}", String::from_utf8_lossy(holder.id), how(holder))
    };
    let mut holders: Vec<_> = stored.live().map(|it| shown(it.holder)).collect();
    holders.sort();
    lines.extend(holders);
    lines.push(format!("{} wait", stored.queue.as_ref().map_or(0, |queue| queue.value.len())));
    for (id, _) in stored.queue.iter().flat_map(|queue| &queue.value).take(MOST) {
        // What it asked for may have been deleted by hand.
        let ask = stored.ask(id);
        let waiter = ask.and_then(|ask| ask.holder(id)).map_or_else(|| UNKNOWN.to_owned(), how);
        lines.push(format!("waiter {waiter} {:?}", ask.and_then(|ask| ask.limit)));
    }
    let limit = record.filter(|it| it.kind() == b'S' && it.state() == b'H').and_then(Record::limit);
    lines.push(format!("limit {limit:?}"));
    lines.push(format!("kept {}", record.is_some_and(|it| it.state() == b'K')));
    lines.push(format!("done {}", stored.done.is_some()));
    lines
}

fn how(holder: Holder<'_>) -> String {
    let text = |part: Option<&[u8]>| part.map(|it| String::from_utf8_lossy(it).into_owned());
    let (owner, note) = (text(holder.owner), text(holder.note));
    format!("{} {owner:?} {note:?} {}", holder.weight, holder.mode == Mode::Writer)
}
