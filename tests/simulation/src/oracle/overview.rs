//! Who has each lock of a server, and who waits for it: what an engineer wants to know of a world that
//! stands still.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::format::{CLIENT, Holder, Mode};
use super::stored::{Place, Stored};
use crate::server::core::Core;

const ROLES: [&str; 4] = ["lock", "holders", "queue", "waiters"];

/// All locks of which a server has a key, with what is stored of each.
pub(super) fn locks(core: &Core) -> impl Iterator<Item = (Place, Stored)> {
    let now_ms = core.now_us.div_euclid(1000);
    core.databases.values().flat_map(move |keyspace| {
        let of_key = |(key, _)| ROLES.iter().find_map(|role| Place::of(key, role));
        let places: BTreeSet<_> = keyspace.live(now_ms).filter_map(of_key).collect();
        places.into_iter().map(move |place| {
            let stored = Stored::look(keyspace, &place, now_ms);
            (place, stored)
        })
    })
}

/// Says of each lock on a server who has it, and who waits for it, one to a line. `who` names the
/// process of a client.
pub fn overview(core: &Core, who: impl Fn(&[u8]) -> Option<String>) -> String {
    let mut text = String::new();
    for (place, stored) in locks(core) {
        let shown = |id: &[u8]| {
            let (client, number) = id.split_at(CLIENT.min(id.len()));
            let number = String::from_utf8_lossy(number);
            let number = u64::from_str_radix(&number, 16).unwrap_or_default();
            let client = || format!("the lost client {}", String::from_utf8_lossy(client));
            format!("request {number} of {}", who(id).unwrap_or_else(client))
        };
        let state = match stored.record().map(|it| (it.kind(), it.state())) {
            None if stored.record.is_some() => "has a foreign record",
            None => "has no record",
            Some((_, b'F')) => "is free",
            Some((_, b'K')) => "is kept after its release",
            Some((_, b'O')) => "is offered",
            Some(_) => "is held",
        };
        let _ = writeln!(text, "    `{place}` {state}");
        for live in stored.live() {
            let left = live.ends_ms - stored.now_ms;
            let how = how(live.holder);
            let _ = writeln!(text, "      {} has it{how}, for {left} ms", shown(live.holder.id));
        }
        for (nth, (id, _, ask)) in stored.waiting().enumerate() {
            let left = ask.until_ms - stored.now_ms;
            let is_alive = if left > 0 { "alive" } else { "dead" };
            let _ =
                writeln!(text, "      waiter {}: {}, {is_alive} ({left} ms)", nth + 1, shown(id));
        }
    }
    text
}

fn how(holder: Holder<'_>) -> String {
    match holder.mode {
        Mode::Alone => String::new(),
        Mode::Reentrant => {
            format!(" as {}", String::from_utf8_lossy(holder.owner.unwrap_or_default()))
        }
        Mode::Permit => format!(" with {} permits", holder.weight),
        Mode::Reader => " as a reader".to_owned(),
        Mode::Writer => " as a writer".to_owned(),
    }
}
