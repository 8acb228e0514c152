//! Rates: each call does what the rules do, and in no time may more begin than the burst and the rate.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use leasehold::store::rules::shadow::{Part, RatePicture, ShadowRate, begins_together};
use leasehold::store::{RequestId, Take};
use leasehold::{LockKey, Rate};

use super::call::{Call, RatePart, Set, Verb};
use super::format::ID;
use super::stored::whole;
use crate::server::keyspace::{Keyspace, Value};
use crate::server::reply::Reply;

/// How long the scripts remember a request.
const KEPT_US: i64 = 10_000_000;

/// So many takes of a rate are remembered: more than a burst.
const MOST: usize = 200;

/// How a rate is stored; `None` where somebody else has written it.
pub(super) type Pictures = Vec<Option<RatePicture>>;

/// What was taken from the rates of a server.
#[derive(Debug, Default)]
pub(super) struct Rates {
    taken: BTreeMap<Vec<u8>, TakenOf>,
    now_us: i64,
    /// How much was taken in all, and how much of it was given back.
    pub(super) takes: u64,
    pub(super) given_back: u64,
}

/// What was taken from one rate.
#[derive(Debug, Default)]
struct TakenOf {
    all: VecDeque<Taken>,
    /// When the server last changed it.
    seen: u64,
}

#[derive(Debug)]
struct Taken {
    id: Vec<u8>,
    /// When it may begin.
    at_us: u64,
    weight_us: u64,
    /// The burst of its version.
    burst_us: u64,
}

/// Reads the rates of a call.
pub(super) fn pictures(keyspace: Option<&Keyspace>, call: &Call<'_>, now_us: i64) -> Pictures {
    call.parts.iter().map(|part| picture(keyspace, part.key, now_us)).collect()
}

fn picture(keyspace: Option<&Keyspace>, key: &[u8], now_us: i64) -> Option<RatePicture> {
    let Some(entry) = keyspace.and_then(|it| it.peek(key, now_us.div_euclid(1000))) else {
        return Some(RatePicture::default());
    };
    let Value::SortedSet(set) = &entry.value else { return None };
    let mut picture = RatePicture::default();
    for (member, score) in set.iter() {
        // Half a microsecond says that it was given back.
        let was_given_back = score.fract() != 0.0;
        let micros = whole(score);
        match member {
            b"used" => picture.used_until = micros.unsigned_abs(),
            b"seen" => picture.seen = micros.unsigned_abs(),
            b"begins" => picture.begins = micros.unsigned_abs(),
            start if start.len() < ID => {
                let start = std::str::from_utf8(start).ok()?.parse().ok()?;
                picture.free.push(start..micros.unsigned_abs());
            }
            id => {
                let until = (micros - KEPT_US).unsigned_abs();
                picture.takes.insert(RequestId::read(id)?, Part { until, was_given_back });
            }
        }
    }
    picture.free.sort_by_key(|free| free.start);
    Some(picture)
}

impl Rates {
    /// What is wrong with a call, by how its rates were before and are after it.
    pub(super) fn problems(
        &mut self,
        call: &Call<'_>,
        (before, after): (&Pictures, &Pictures),
        reply: &Reply,
        now_us: i64,
    ) -> Vec<String> {
        if now_us < self.now_us {
            // The clock was set.
            self.taken.clear();
        }
        self.now_us = now_us;
        let mut found = Vec::new();
        let now = Duration::from_micros(now_us.unsigned_abs());
        // A request may come twice in a call, and two may take of one rate.
        let mut shadows = BTreeMap::new();
        for (part, before) in call.parts.iter().zip(before) {
            let Some(before) = before else { return found };
            self.forget(part.key, before);
            shadows.entry(part.key).or_insert_with(|| ShadowRate::new(before.clone()));
        }
        let requests: Option<Vec<_>> = call.parts.iter().map(take).collect();
        let Some(requests) = requests else { return found };
        for (set, said) in answers(call, reply) {
            let is_set = call.script.verb == Verb::AcquireAll;
            let locks = set.requests.len();
            if is_set && matches!(*said, [0, nth] if nth <= number(locks)) {
                // A lock is not free, and no rate was looked at.
                continue;
            }
            let parts: Vec<_> = set.parts.map(|nth| (&call.parts[nth], &requests[nth])).collect();
            let expected = match call.script.verb {
                Verb::GiveBack => parts
                    .iter()
                    .map(|(part, request)| {
                        self.give_back(part);
                        i64::from(
                            shadows.get_mut(part.key).expect("it was made").give_back(request, now),
                        )
                    })
                    .collect(),
                _ => self.take(&parts, &mut shadows, (now, locks), &mut found),
            };
            let said = match &*said {
                [1, all @ ..] if call.script.verb != Verb::GiveBack => {
                    [&[1], all.get(locks..).unwrap_or_default()].concat()
                }
                _ => said,
            };
            if said != expected {
                found.push(format!("the rules answer {expected:?} of rates, the script {said:?}"));
            }
        }
        for (part, after) in call.parts.iter().zip(after) {
            let Some(after) = after else { continue };
            if let Some(taken) = self.taken.get_mut(part.key) {
                taken.seen = after.seen;
            }
            let (rules, script) =
                (shadows[part.key].picture(now), ShadowRate::new(after.clone()).picture(now));
            if rules != script {
                found.push(format!("the rules make a rate {rules:?}, the script {script:?}"));
            }
        }
        found
    }

    /// Takes by the rules of all rates of a request, or of none. Gives the answer, without those to its
    /// locks.
    fn take(
        &mut self,
        parts: &[(&RatePart<'_>, &Take)],
        shadows: &mut BTreeMap<&[u8], ShadowRate>,
        (now, locks): (Duration, usize),
        found: &mut Vec<String>,
    ) -> Vec<i64> {
        let now_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        let begins = |nth: usize, at| {
            let (part, request) = parts[nth];
            shadows.get_mut(part.key).expect("it was made").begins(request, at, now)
        };
        let (at, last) = match begins_together(now_us, parts.len(), begins) {
            Ok(together) => together,
            Err(nth) => return vec![0, number(locks + nth + 1)],
        };
        let after = at - now_us;
        let is_long = |(part, request): &(&RatePart<'_>, &Take)| {
            after > part.wait_us && !shadows[part.key].is_known(request.id, now)
        };
        if parts.iter().any(is_long) {
            return vec![0, number(locks + last + 1), number(after)];
        }
        let mut answer = vec![1];
        for (part, request) in parts {
            let shadow = shadows.get_mut(part.key).expect("it was made");
            let is_new = !shadow.is_known(request.id, now);
            answer.push(number(shadow.take(request, at, now)));
            if is_new {
                found.extend(self.note(part, at));
            }
        }
        if after > 0 { vec![2, number(locks + last + 1), number(after)] } else { answer }
    }

    /// Notes that a request may begin at a time, and looks at each time that has this one in it.
    fn note(&mut self, part: &RatePart<'_>, at_us: u64) -> Option<String> {
        let (weight_us, burst_us) = (part.weight_us, part.burst_us);
        let taken = &mut self.taken.entry(part.key.to_vec()).or_default().all;
        let kept = |it: &&Taken| number(self.now_us.unsigned_abs()) - number(it.at_us) < KEPT_US;
        if taken.iter().filter(kept).any(|it| it.id == part.id) {
            let id = String::from_utf8_lossy(part.id);
            return Some(format!("request {id} takes twice from a rate"));
        }
        let place = taken.partition_point(|it| it.at_us <= at_us);
        taken.insert(place, Taken { id: part.id.to_vec(), at_us, weight_us, burst_us });
        if taken.len() > MOST {
            taken.pop_front();
        }
        self.takes += 1;
        for last in place.min(taken.len() - 1)..taken.len() {
            // Versions disagree on the burst.
            let (mut sum, mut most) = (0, 0);
            for first in (0..=last).rev() {
                sum += taken[first].weight_us;
                most = most.max(taken[first].burst_us);
                let time = taken[last].at_us - taken[first].at_us;
                if sum > most.saturating_add(time) {
                    return Some(format!("{sum} us of a rate begin in {time} us, at most {most}"));
                }
            }
        }
        None
    }

    /// A server that does not know the last change any more has lost data, or the key has ended.
    fn forget(&mut self, key: &[u8], stored: &RatePicture) {
        self.taken.retain(|of, taken| of != key || stored.seen >= taken.seen);
    }

    /// What is given back was not used.
    fn give_back(&mut self, part: &RatePart<'_>) {
        let Some(TakenOf { all: taken, .. }) = self.taken.get_mut(part.key) else { return };
        let before = taken.len();
        taken.retain(|it| it.id != part.id);
        self.given_back += (before - taken.len()) as u64;
    }
}

fn number(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

fn take(part: &RatePart<'_>) -> Option<Take> {
    // A rate with these times.
    let rate = Rate::new(1, Duration::from_micros(1));
    let weight = u32::try_from(part.weight_us).ok()?;
    let rate = rate.burst(u32::try_from(part.burst_us).unwrap_or(u32::MAX));
    let (id, key) = (RequestId::read(part.id)?, LockKey::new("rate").ok()?);
    let settled = part.settled.chunks(ID).map(RequestId::read).collect::<Option<Vec<_>>>()?;
    Some(Take { key, id, rate, weight, settled, wait: Duration::from_micros(part.wait_us) })
}

/// The answer to each set, or to each part that is alone.
fn answers(call: &Call<'_>, reply: &Reply) -> Vec<(Set, Vec<i64>)> {
    let int = |reply: &Reply| if let Reply::Int(number) = reply { *number } else { -1 };
    let list = |reply: &Reply| match reply {
        Reply::Array(all) => all.iter().map(int).collect(),
        one => vec![int(one)],
    };
    let alone = |nth| Set { parts: nth..nth + 1, ..Set::default() };
    let sets = match call.script.verb {
        Verb::AcquireAll => call.sets.clone(),
        _ => (0..call.parts.len()).map(alone).collect(),
    };
    let said = match reply {
        Reply::Array(all) if sets.len() > 1 => all.iter().map(list).collect(),
        one => vec![list(one)],
    };
    sets.into_iter().zip(said).collect()
}
