//! Runs the rules on the state and the request of each call, and compares their answer, their state
//! and their hints with what the script did.
//!
//! What differs, and may:
//!
//! | what | why |
//! |---|---|
//! | the reply of `lock/keep_offer` | the rules have none, and the client ignores it |
//! | `2` from `lock/is_held_by` | the rules remove all ended holders at once, the script 64 |
//! | the held count of a forced lock without live holders | the rules say that nobody held it |
//! | when a record ends, and how long a refusal says that is | the rules count parts of a millisecond |
//! | a free record that nobody needs, where a call releases one mutex for several requests | the script deletes it for the first of them alone |
//! | holders that have ended, where a quorum asks a member for a lease | the rules may remove them first, the script looks at this one alone |
//! | when a record ends that was deleted by hand, and is there anew | a renewal in the rules lets it stay as long as the set of holders, the script as long as the lease |

mod answers;
mod decode;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::store::rules::shadow::{Picture, Recorded, Shadow, Standing};
use leasehold::store::{Detached, Force, Owner, RequestCommand, Success, TickTimes, Usage};
use sha1_smol::Sha1;

use super::call::{self, Call, Rule, Verb};
use super::change::Change;
use super::format::{CLIENT, ID};
use super::stored::{Place, Stored};
use crate::server::core::Delivery;

/// The length of an offer before its proof, and with it.
const OFFER: usize = 68;
const PROVEN: usize = 88;

/// What a call met besides its locks.
#[derive(Debug)]
pub(super) struct Around<'a> {
    pub(super) now_us: i64,
    /// The greatest token that the server has noted, before and after.
    pub(super) noted: [Option<u64>; 2],
    /// The clients that receive hints.
    pub(super) listening: BTreeSet<Vec<u8>>,
    /// The user may publish.
    pub(super) may_publish: bool,
    /// What was published and heard.
    pub(super) published: &'a [Delivery],
}

/// Runs the rules on a call. Returns how they differ from the script; `None` if they can't be run.
pub(super) fn problems(
    call: &Call<'_>,
    locks: (&BTreeMap<Place, Stored>, &BTreeMap<Place, Stored>),
    changes: &[Change<'_>],
    around: &Around<'_>,
) -> Option<Vec<String>> {
    let (before, after) = locks;
    let now = Duration::from_micros(around.now_us.unsigned_abs());
    let listening = match call.script.verb {
        // A member of a quorum gives no hints.
        Verb::Vote => Some(BTreeSet::new()),
        _ => around.may_publish.then(|| around.listening.clone()),
    };
    let noted = call.tokens_key().map(|_| around.noted[0].unwrap_or(0));
    let is_ahead = noted.is_some_and(|it| it >= around.now_us.unsigned_abs());
    let mut shadows = BTreeMap::new();
    for (place, stored) in before {
        let picture = decode::picture(stored)?;
        shadows.insert(place.clone(), Shadow::new(picture, now, noted, listening.clone()));
    }
    let mut run = Run { call, shadows, noted, is_ahead, refused_by_rate: Vec::new() };
    let said = |ask: &call::Request<'_>| {
        Some(changes.iter().find(|it| *it.place == call.places[ask.nth])?.answer(ask))
    };
    let mut said: Vec<_> = call.requests.iter().map(said).collect::<Option<_>>()?;
    // Others judge the rates behind the locks.
    for set in &call.sets {
        let locks = i64::try_from(set.requests.len()).unwrap_or(i64::MAX);
        let is_of_rate = |said: &Vec<i64>| matches!(**said, [0 | 2, nth, ..] if nth > locks);
        let of_set = &mut said[set.requests.clone()];
        let refused = of_set.first().filter(|said| is_of_rate(said)).cloned();
        if refused.is_none() {
            for said in of_set {
                said.truncate(1 + set.requests.len());
            }
        }
        run.refused_by_rate.push(refused);
    }
    let expected = run.answers(&order(call, &said, before))?;
    let mut found = Vec::new();
    for (expected, said) in expected.into_iter().zip(said) {
        if !are_alike(call, &expected, &said, around.may_publish) {
            found.push(format!("the rules answer {expected:?}, the script {said:?}"));
        }
    }
    for (place, shadow) in &run.shadows {
        let mut rules = decode::plain(shadow.picture(), now);
        let mut script = decode::plain(decode::picture(&after[place])?, now);
        // The set of holders may last for longer than the last of them. A record that was lost, and
        // is read from the set, does not; nor does it where it was written anew.
        let ends =
            |it: &Stored| Some((it.record.as_ref()?.expires_ms, it.holders.as_ref()?.expires_ms));
        let was_lost = after[place].record.is_none()
            || ends(&before[place]).is_some_and(|(record, set)| record < set);
        if was_lost && let (Some(one), Some(other)) = (&rules.record, &mut script.record) {
            other.until = one.until;
        }
        let is_place = |ask: &&call::Request<'_>| call.places[ask.nth] == *place;
        let is_free = |it: &mut Recorded| matches!(it.standing, Standing::Free);
        if rules.record.is_none()
            && call.script.verb == Verb::Release
            && call.requests.iter().filter(is_place).count() > 1
        {
            script.record.take_if(is_free);
        }
        if call.script.verb == Verb::Repair {
            for holders in [&mut rules.holders, &mut script.holders] {
                holders.retain(|it| it.deadline > now);
            }
        }
        if let Some(text) = difference(&rules, &script) {
            found.push(format!("{place}: {text}"));
        }
    }
    if run.noted != noted && run.noted != around.noted[1] {
        found.push(format!("the rules note {:?}, the script {:?}", run.noted, around.noted[1]));
    }
    if around.may_publish {
        found.extend(hints(call, before, &run.shadows, around));
    }
    Some(found)
}

/// The order in which the script has run its requests. That of mutexes first grants those that are
/// free and have no waiters, the first request for each; but a lock without a record only if no lock
/// without one has anything else. The others may be offered to a waiter, and use a token, too.
fn order(call: &Call<'_>, said: &[Vec<i64>], before: &BTreeMap<Place, Stored>) -> Vec<usize> {
    let mut order: Vec<_> = (0..said.len()).collect();
    if call.script.verb != Verb::Acquire || call.script.rule != Rule::Mutex {
        return order;
    }
    let place = |at: usize| &call.places[call.requests[at].nth];
    let has_nothing = |at: usize| {
        let stored = &before[place(at)];
        stored.record.is_some() || stored.holders.is_none() && stored.queue.is_none()
    };
    let are_bare = order.iter().all(|at| has_nothing(*at));
    order.sort_by_key(|at| {
        // A lock may be named twice.
        let is_first = (0..*at).all(|other| place(other) != place(*at));
        let is_free = match &before[place(*at)].record {
            Some(record) => {
                record.value.get(1) == Some(&b'F') && record.value.get(52) == Some(&b'0')
            }
            None => are_bare,
        };
        !(is_first && is_free && said[*at].first() == Some(&1))
    });
    order
}

fn are_alike(call: &Call<'_>, rules: &[i64], script: &[i64], may_publish: bool) -> bool {
    match call.script.verb {
        // Nobody hears of it.
        Verb::ForceRelease if !may_publish && script.len() == 4 => {
            script[3] == 0 && rules.get(..3) == script.get(..3)
        }
        Verb::KeepOffer => true,
        Verb::Looks if rules.is_empty() => true,
        Verb::ForceRelease if rules == [0] => script == [0] || script.starts_with(&[1, 0]),
        Verb::Looks if script == [2] => true,
        _ => rules == script || are_alike_but_for_a_millisecond(rules, script),
    }
}

/// Two refusals that end with a time.
fn are_alike_but_for_a_millisecond(rules: &[i64], script: &[i64]) -> bool {
    let (Some((one, first)), Some((other, second))) = (rules.split_last(), script.split_last())
    else {
        return false;
    };
    one.abs_diff(*other) <= 1 && first == second && first.first().is_some_and(|code| *code != 1)
}

/// How two states differ, part by part.
fn difference(rules: &Picture, script: &Picture) -> Option<String> {
    let mut script = script.clone();
    if let (Some(one), Some(other)) = (&rules.record, &mut script.record)
        && one.until.abs_diff(other.until) <= Duration::from_millis(1)
    {
        other.until = one.until;
    }
    if let (Some(one), Some(other)) = (&rules.record, &mut script.record)
        && Some(one.until) == rules.holders_until
        && rules.holders.iter().all(|it| it.deadline <= other.until)
    {
        other.until = one.until;
    }
    macro_rules! compare {
        ($($part:ident)*) => {
            $(if rules.$part != script.$part {
                let (rules, script) = (&rules.$part, &script.$part);
                return Some(format!(
                    "{}: the rules make it {rules:?}, the script {script:?}",
                    stringify!($part)
                ));
            })*
        };
    }
    compare!(record holders written_until marks queue queue_until forced intent done runs again);
    compare!(holders_until);
    None
}

/// The messages that differ.
fn hints(
    call: &Call<'_>,
    before: &BTreeMap<Place, Stored>,
    shadows: &BTreeMap<Place, Shadow>,
    around: &Around<'_>,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut heard = BTreeSet::new();
    for Delivery { message, .. } in around.published {
        if message.len() == PROVEN && message[ID..OFFER].iter().all(u8::is_ascii_digit) {
            let (offer, proof) = message.split_at(OFFER);
            let secret = |stored| decode::secret(call, stored, &offer[..ID]);
            let is_proven = before.values().filter_map(secret).any(|secret| {
                let digest = Sha1::from([secret, offer].concat()).digest().to_string();
                digest.as_bytes().starts_with(proof)
            });
            if !is_proven {
                found.push("an offer without its proof".to_owned());
            }
            heard.insert(offer.to_vec());
        } else if message.get(ID) == Some(&b'R') {
            heard.insert([&message[..CLIENT], b"R"].concat());
        } else {
            heard.insert(message.clone());
        }
    }
    let hints = shadows.values().flat_map(Shadow::hints);
    let expected: BTreeSet<_> =
        hints.map(|(client, hint)| answers::message(hint, client.as_bytes())).collect();
    if heard != expected {
        let shown = |all: &BTreeSet<Vec<u8>>| {
            all.iter().map(|it| String::from_utf8_lossy(it).into_owned()).collect::<Vec<_>>()
        };
        let (rules, script) = (shown(&expected), shown(&heard));
        found.push(format!("the rules publish {rules:?}, the script {script:?}"));
    }
    found
}

/// The rules on the locks of one call.
struct Run<'a> {
    call: &'a Call<'a>,
    shadows: BTreeMap<Place, Shadow>,
    noted: Option<u64>,
    is_ahead: bool,
    /// What each set was answered whose locks are free, if it was refused.
    refused_by_rate: Vec<Option<Vec<i64>>>,
}

impl Run<'_> {
    /// The answer to each request, in numbers. They are run in this order.
    fn answers(&mut self, order: &[usize]) -> Option<Vec<Vec<i64>>> {
        let call = self.call;
        if call.script.verb == Verb::AcquireAll {
            let sets = 0..call.sets.len();
            return sets
                .map(|set| self.acquire_all(set))
                .collect::<Option<Vec<_>>>()
                .map(|it| it.concat());
        }
        let mut answers = vec![Vec::new(); call.requests.len()];
        for at in order {
            answers[*at] = self.answer(&call.requests[*at])?;
        }
        Some(answers)
    }

    /// Runs a rule on a lock, with the tokens that all locks share.
    fn on<T>(&mut self, nth: usize, rule: impl FnOnce(&mut Shadow) -> T) -> Option<T> {
        let shadow = self.shadows.get_mut(&self.call.places[nth])?;
        shadow.set_noted(self.noted, self.is_ahead);
        let answer = rule(shadow);
        self.noted = shadow.noted();
        Some(answer)
    }

    /// Takes the locks of a set.
    fn acquire_all(&mut self, set: usize) -> Option<Vec<Vec<i64>>> {
        let (call, refused) = (self.call, self.refused_by_rate[set].clone());
        let asks = &call.requests[call.sets[set].requests.clone()];
        let requests = asks.iter().map(|ask| decode::request(call, ask));
        let requests = requests.collect::<Option<Vec<_>>>()?;
        let mut answer = vec![1];
        for (at, (ask, request)) in asks.iter().zip(&requests).enumerate() {
            if !self.on(ask.nth, |shadow| shadow.is_available(request))? {
                answer = vec![0, i64::try_from(at + 1).ok()?];
                return Some(vec![answer; requests.len()]);
            }
        }
        if let Some(refused) = refused {
            return Some(vec![refused; requests.len()]);
        }
        for (ask, request) in asks.iter().zip(&requests) {
            answer.push(i64::try_from(self.on(ask.nth, |shadow| shadow.take(request))?).ok()?);
        }
        Some(vec![answer; requests.len()])
    }

    fn answer(&mut self, ask: &call::Request<'_>) -> Option<Vec<i64>> {
        let (call, nth) = (self.call, ask.nth);
        let (verb, rule) = (call.script.verb, call.script.rule);
        let millis = |at: usize| ask.number(at).map(Duration::from_millis);
        match call.script.about.name {
            "lock/force_release" | "lock/force_some" => {
                let (by, why) = decode::said_in(ask.name)?;
                let only = if call.script.about.name == "lock/force_some" {
                    ask.only()
                } else {
                    Vec::new()
                };
                let force = Force { by, why, only };
                return self.on(nth, |shadow| answers::forced(shadow.force_release(&force)));
            }
            "lock/is_held_by" => {
                let owner = std::str::from_utf8(ask.name.strip_prefix(b"@")?).ok()?;
                let owner = Owner::new(owner).ok()?;
                return self.on(nth, |shadow| vec![i64::from(shadow.is_held_by(&owner))]);
            }
            "mutex/run_again" => {
                let (by, why) = decode::said_in(ask.name)?;
                let again = self.on(nth, |shadow| shadow.run_again(&by, why.as_ref()))?;
                return Some(answers::again(again));
            }
            // It changes nothing; its answer is no list of numbers.
            "lock/inspect" => return Some(Vec::new()),
            _ => {}
        }
        let request = decode::request(call, ask)?;
        let asks = matches!(verb, Verb::Acquire | Verb::AcquireOnce);
        let waiting = if asks { decode::waiting(call, ask) } else { None };
        let command = match verb {
            Verb::Acquire | Verb::AcquireOnce => RequestCommand::Acquire(waiting),
            Verb::Vote => RequestCommand::Vote(millis(1)?),
            Verb::Renew => RequestCommand::Renew,
            Verb::KeepOffer => RequestCommand::KeepOffer(ask.number(0)? * 1000),
            Verb::Adopt => RequestCommand::Adopt(from(ask, rule)?),
            Verb::Release if rule == Rule::Mutex => release(ask.name.get(ID..)?)?,
            Verb::Release => RequestCommand::Release(Duration::ZERO),
            Verb::Complete => {
                let tick = ask.number(1).filter(|began| *began > 0);
                let granted = ask.number(2)?;
                let tick = tick.map(|began| TickTimes { began, last: None, granted });
                let token = ask.number(4).filter(|token| *token > 0);
                RequestCommand::Complete(Success { tick, token })
            }
            Verb::Cancel => RequestCommand::Cancel,
            Verb::Linger => RequestCommand::Linger(match ask.number(1)? {
                0 => Usage::Ended,
                1 => Usage::InUse,
                code => Usage::Recalled { in_use: code == 3 },
            }),
            Verb::Repair => RequestCommand::Repair { token: ask.number(0)?, lasts: millis(1)? },
            Verb::Looks => RequestCommand::WasForced,
            Verb::AcquireAll
            | Verb::ForceRelease
            | Verb::RunAgain
            | Verb::Take
            | Verb::GiveBack
            | Verb::Other => {
                return None;
            }
        };
        let says_left = verb == Verb::Release && rule == Rule::Reentrant;
        let answer = self.on(nth, |shadow| shadow.run(&request, command))?;
        answers::of(&answer, waiting, says_left)
    }
}

/// The lease that is adopted. `None` if it is held otherwise than the request would.
fn from(ask: &call::Request<'_>, rule: Rule) -> Option<Detached> {
    let from = ask.rest.first()?;
    let most = if rule == Rule::Mutex { ask.number(2).unwrap_or(u64::MAX) } else { u64::MAX };
    let is_like = rule == Rule::Mutex || from.get(ID..) == ask.name.get(ID..);
    let id = decode::id(from.get(..ID)?)?;
    is_like.then_some(Detached { id, most })
}

/// What stays of the record stands behind the id.
fn release(stays: &[u8]) -> Option<RequestCommand> {
    if stays.is_empty() {
        return Some(RequestCommand::ReleaseAndForget);
    }
    let keep = super::format::number(stays.strip_prefix(b":")?)?;
    Some(RequestCommand::Release(Duration::from_millis(keep)))
}
