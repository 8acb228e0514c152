//! Limits of operators: a client that has been in touch with the server for some time asks with the
//! limit that holds.

use std::collections::BTreeMap;

use leasehold_history::Judged;

use super::call::Call;
use super::format::CLIENT;
use crate::server::keyspace::{Keyspace, Value};

/// A client looks every ten seconds, and the answer of one look may be lost.
const KNOWN_US: i64 = 23_000_000;

/// A client that was silent for so long may have been out of touch.
const SILENT_US: i64 = 2_000_000;

/// The limits of one server, and who has been in touch with it.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// Each with its value, and since when it stands there.
    set: BTreeMap<Vec<u8>, (Vec<u8>, i64)>,
    /// Since when a client has been in touch, and until when.
    in_touch: BTreeMap<Vec<u8>, (i64, i64)>,
    now_us: i64,
}

impl Limits {
    /// What is wrong with the limits that a call asks with.
    pub(super) fn problems(
        &mut self,
        keyspace: &Keyspace,
        call: &Call<'_>,
        now_us: i64,
        judged: &mut Judged,
    ) -> Vec<String> {
        if !(0..SILENT_US).contains(&(now_us - self.now_us)) {
            // The clock was set, or the server was away.
            *self = Self::default();
        }
        self.now_us = now_us;
        for request in &call.requests {
            let client = &request.name[..request.name.len().min(CLIENT)];
            let (since, last) = self.in_touch.entry(client.to_vec()).or_insert((now_us, now_us));
            if now_us - *last > SILENT_US {
                *since = now_us;
            }
            *last = now_us;
        }
        self.look(keyspace, call, now_us);
        let wrong = call.requests.iter().filter_map(|request| {
            let asked = request.limit(&call.script)?;
            let name = call.places[request.nth].name();
            let (value, set) = self.set.get(format!("n{name}").as_bytes())?;
            let (since, _) = self.in_touch.get(&request.name[..CLIENT])?;
            let limit = limit(value)?;
            let is_known = now_us - set.max(since) > KNOWN_US;
            judged.add("limits of operators", u64::from(is_known));
            (is_known && asked != limit)
                .then(|| format!("it asks with a limit of {asked}, and {limit} holds for long"))
        });
        wrong.collect()
    }

    fn look(&mut self, keyspace: &Keyspace, call: &Call<'_>, now_us: i64) {
        let Some(place) = call.places.first() else { return };
        let entry = keyspace.peek(&place.key_of_all("limits"), now_us.div_euclid(1000));
        let Some(Value::Hash(set)) = entry.map(|entry| &entry.value) else {
            self.set.clear();
            return;
        };
        self.set.retain(|field, (value, _)| set.get(field) == Some(value));
        for (field, value) in set {
            self.set.entry(field.clone()).or_insert_with(|| (value.clone(), now_us));
        }
    }
}

/// The limit of a value: behind the time, in the first line.
fn limit(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    text.split_once(' ')?.1.lines().next()?.parse().ok()
}
