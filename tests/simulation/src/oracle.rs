//! Watches what the scripts do to the keys of a server.
//!
//! An [`Oracle`] looks at the locks of a call before and after its script runs, and keeps what is
//! against the promises of docs/keys.md. It looks at those locks alone, so it costs about as much
//! as the script. It is for a world's own thread, and changes nothing.

mod appointments;
mod awaited;
mod call;
mod change;
mod format;
mod grants;
mod heard;
mod known;
mod limits;
mod overview;
mod promises;
mod rates;
mod repeats;
mod requests;
mod shadow;
mod shape;
mod shown;
mod stored;
mod successes;
mod tokens;
mod unwritten;
mod waiters;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use leasehold_history::Judged;

use self::appointments::Appointments;
pub use self::appointments::Late;
pub use self::awaited::{Awaited, awaited};
use self::call::{Call, Script, Verb};
use self::change::Change;
pub(crate) use self::format::CLIENT;
pub(crate) use self::grants::{Grants, is_of, known_grants};
pub use self::heard::{Waiting, heard};
pub(crate) use self::known::{Known, known};
use self::limits::Limits;
pub use self::overview::overview;
use self::rates::{Pictures, Rates};
use self::repeats::Repeats;
pub use self::requests::requests;
pub(crate) use self::requests::{holders, wanted};
use self::shadow::Around;
use self::stored::{Place, Stored};
use self::successes::Successes;
use self::tokens::{Noted, Tokens};
use crate::server::cluster::Cluster;
use crate::server::core::{Channel, Core};
use crate::server::keyspace::Keyspace;
use crate::server::reply::Reply;

/// After so many violations, a world is known to be wrong.
const MOST: usize = 20;

/// Watches one server.
#[derive(Debug, Default)]
pub struct Oracle {
    tokens: Tokens,
    appointments: Appointments,
    grants: Grants,
    limits: Limits,
    rates: Rates,
    repeats: Repeats,
    successes: Successes,
    /// It compares no call with the rules of the library.
    is_alone: bool,
    /// The holders that are still in the set of their lock, and were seen there after their end.
    ended: BTreeMap<Place, BTreeSet<Vec<u8>>>,
    /// Where a call that was cut short may have left a half.
    torn: BTreeSet<Place>,
    /// What was wrong, as text. The first ones alone.
    pub violations: Vec<String>,
    /// The calls since they were last taken, in words; `None` if nobody reads them.
    told: Option<Vec<String>>,
    /// How often calls have made requests of a client hold a lock.
    granted: BTreeMap<(Vec<u8>, String), u64>,
    /// The clients that have made requests since they were last taken.
    callers: BTreeSet<Vec<u8>>,
    /// What was shown of locks to those who looked at them.
    shown: Vec<Vec<String>>,
    /// How often each of its rules has judged something.
    pub judged: Judged,
}

/// The locks of a call before its script runs.
#[derive(Debug)]
pub(crate) struct Before {
    script: Script,
    keys: Vec<Vec<u8>>,
    args: Vec<Vec<u8>>,
    locks: BTreeMap<Place, Stored>,
    rates: Pictures,
    noted: Option<Noted>,
    database: u8,
    now_us: i64,
    /// The messages that were published before.
    published: usize,
}

impl Oracle {
    /// One that also keeps the calls, in words.
    #[must_use]
    pub fn that_tells() -> Self {
        Self { told: Some(Vec::new()), ..Self::default() }
    }

    /// One that does not compare calls with the library's rules, as if those had the same mistakes.
    #[must_use]
    pub fn without_rules() -> Self {
        Self { is_alone: true, ..Self::default() }
    }

    /// The calls since they were last taken, if it keeps them.
    pub(crate) fn take_told(&mut self) -> Vec<String> {
        self.told.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The clients that have made requests since they were last taken.
    pub(crate) fn take_callers(&mut self) -> BTreeSet<Vec<u8>> {
        std::mem::take(&mut self.callers)
    }

    /// Looks at the locks of a call. `rest` is what stands behind the script's hash.
    pub(crate) fn before(
        &mut self,
        core: &Core,
        (database, hash): (u8, &str),
        rest: &[Vec<u8>],
    ) -> Option<Before> {
        let count: usize = std::str::from_utf8(rest.first()?).ok()?.parse().ok()?;
        let (keys, args) = rest[1..].split_at_checked(count)?;
        let Some(script) = call::script(hash) else {
            // The client asks with a script of no keys whether it may call scripts.
            if count > 0 {
                self.blame(&format!("the script {hash} is none of ours"));
            }
            return None;
        };
        if script.verb == Verb::Other {
            return None;
        }
        let Some(call) = Call::read(script, keys, args) else {
            self.blame(&format!("{} is called otherwise than its header says", script.about.name));
            return None;
        };
        self.callers.extend(call.client().map(<[u8]>::to_vec));
        let now_us = core.now_us;
        let keyspace = core.databases.get(&database);
        let (locks, noted) = look(keyspace, &call, now_us);
        let rates = rates::pictures(keyspace, &call, now_us);
        if let Some(keyspace) = keyspace {
            for problem in self.limits.problems(keyspace, &call, now_us, &mut self.judged) {
                self.blame(&format!("{} {problem}", short(&call, &Reply::Nil)));
            }
        }
        if call.tokens_key().is_some() {
            self.tokens.excuse(noted, &locks);
        }
        let (keys, args) = (keys.to_vec(), args.to_vec());
        let published = core.deliveries.len();
        Some(Before { script, keys, args, locks, rates, noted, database, now_us, published })
    }

    /// Judges a call by its answer and what it has changed.
    pub(crate) fn after(&mut self, core: &Core, before: &Before, reply: &Reply) {
        let Before { script, keys, args, .. } = before;
        let call = Call::read(*script, keys, args).expect("it was read before");
        let (mut after, noted) = look(core.databases.get(&before.database), &call, before.now_us);
        for (place, stored) in &mut after {
            self.note_ended(place, stored);
        }
        self.judged.note("call");
        if let Some(told) = &mut self.told {
            told.push(short(&call, reply));
        }
        if script.about.name == "lock/inspect" && !matches!(reply, Reply::Error(_)) {
            self.shown.extend(after.iter().map(|(place, stored)| shown::shown(place, stored)));
        }
        let mut problems = Vec::new();
        let is_failed = matches!(reply, Reply::Error(_));
        for (place, stored) in after.iter().filter(|(_, stored)| !stored.is_foreign) {
            self.judged.add("shape", u64::from(stored.record.is_some()));
            let mut found = shape::problems(stored);
            if core.cluster.is_some() {
                // A slot that moves takes the rest of its keys' times along, and the ends of leases by
                // the clock of the node before. That is no work of a script.
                let before = &before.locks[place];
                let known: Vec<_> = shape::problems(before).iter().map(|it| kind(it)).collect();
                found.retain(|problem| before.is_foreign || !known.contains(&kind(problem)));
            }
            problems.extend(found.into_iter().map(|problem| format!("{place}: {problem}")));
        }
        // After an error, a part of the script may have run.
        let has_run = !matches!(reply, Reply::Error(_)) && !is_cut_short(reply);
        if !call.parts.is_empty() && has_run {
            let keyspace = core.databases.get(&before.database);
            let after = rates::pictures(keyspace, &call, before.now_us);
            let rates = (&before.rates, &after);
            let is_known = before.rates.iter().chain(&after).all(Option::is_some);
            self.judged.add("rates of a server", u64::from(is_known));
            problems.extend(self.rates.problems(&call, rates, reply, before.now_us));
        }
        let has_moving_slot = core.cluster.as_ref().is_some_and(Cluster::has_moving_slot);
        problems.extend(failures(reply, has_moving_slot));
        if unwritten::is_confirmed(&call, reply) {
            self.judged.note("unwritten");
            problems.extend(unwritten::problem(core));
        }
        if has_run {
            let change = |(place, after)| Change {
                call: &call,
                place,
                before: &before.locks[place],
                after,
                reply,
            };
            let ours = after
                .iter()
                .filter(|(place, after)| !after.is_foreign && !before.locks[*place].is_foreign);
            let changes: Vec<_> = ours.map(change).collect();
            for change in &changes {
                for id in change.begins_to_hold() {
                    let client = id[..CLIENT].to_vec();
                    *self.granted.entry((client, change.place.name())).or_default() += 1;
                }
                self.appointments.note(change, before.now_us);
                self.grants.note(change, core.journal.offset());
                let verb = change.verb();
                self.judged.add("change", u64::from(verb.grants() || verb.ends()));
                let judged = &mut self.judged;
                let tokens = self.tokens.problems(change, judged);
                let successes = self.successes.problems(change, judged);
                let found = [change.problems(), tokens, successes].concat();
                let place = change.place;
                problems.extend(found.into_iter().map(|problem| format!("{place}: {problem}")));
            }
            if call.tokens_key().is_some() {
                problems.extend(Tokens::noted(before.noted, noted, &changes));
            }
            let publish = if core.cluster.is_some() { "SPUBLISH" } else { "PUBLISH" };
            let around = Around {
                now_us: before.now_us,
                noted: [before.noted, noted].map(|it| it.map(|it| it.token)),
                listening: listening(core, &call),
                may_publish: !core.condition.forbidden.contains(publish),
                published: &core.deliveries[before.published..],
            };
            // Without `MGET`, the scripts leave a record that they would else have deleted.
            let has_all = !core.condition.forbidden.contains("MGET");
            let is_compared = has_all && changes.len() == after.len() && !self.is_alone;
            let locks = (&before.locks, &after);
            let run =
                is_compared.then(|| shadow::problems(&call, locks, &changes, &around)).flatten();
            self.judged.add("shadow", u64::from(run.is_some()));
            problems.extend(run.unwrap_or_default());
        }
        self.tokens.remember(noted, &after);
        if self.is_torn(&after, reply) {
            problems.clear();
        }
        problems.extend(self.repeated(&call, is_failed, before.now_us));
        for problem in problems {
            let text = told(&problem, &call, (&before.locks, &after), reply);
            self.blame(&text);
        }
    }

    /// Judges a call that the server has refused before the script ran.
    pub(crate) fn refused(&mut self, now_us: i64, hash: &str, rest: &[Vec<u8>]) {
        let count = rest.first().and_then(|it| std::str::from_utf8(it).ok()?.parse().ok());
        let Some((keys, args)) = count.and_then(|count| rest[1..].split_at_checked(count)) else {
            return;
        };
        let call = call::script(hash).and_then(|script| Call::read(script, keys, args));
        let Some(call) = call else { return };
        if let Some(problem) = self.repeated(&call, true, now_us) {
            self.blame(&format!("{} {problem}", short(&call, &Reply::Nil)));
        }
    }

    /// What is wrong with how often a call is repeated.
    fn repeated(&mut self, call: &Call<'_>, is_failed: bool, now_us: i64) -> Option<String> {
        let (judged, problem) = self.repeats.problem(call, is_failed, now_us);
        self.judged.add("repeats", judged);
        self.judged.add("sent", call.requests.len() as u64);
        problem.or_else(|| self.repeats.too_often(call))
    }

    /// The waiters that were told to ask again by now, and have not.
    pub fn late(&mut self, core: &Core) -> Vec<Late> {
        self.appointments.late(core)
    }

    /// What was shown of locks to those who have looked at them, each time.
    pub(crate) fn shown(&self) -> &[Vec<String>] {
        &self.shown
    }

    /// How often something was taken from rates, and how often that was given back.
    pub(crate) fn of_rates(&self) -> (u64, u64) {
        (self.rates.takes, self.rates.given_back)
    }

    /// How often calls have made requests of a client hold a lock.
    pub(crate) fn granted(&self, client: &[u8], lock: &str) -> u64 {
        self.granted.get(&(client.to_vec(), lock.to_owned())).copied().unwrap_or_default()
    }

    /// How often work has succeeded that is to succeed once.
    #[must_use]
    pub fn successes(&self) -> u64 {
        self.successes.count
    }

    /// Nobody is to ask again, for all that it knows.
    pub(crate) fn forget_appointments(&mut self) {
        self.appointments = Appointments::default();
    }

    /// The grants that it has seen.
    pub(crate) fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Notes which leases have ended. Where the clock is set back, they count again for the server,
    /// which has let in others meanwhile; not for their clients.
    fn note_ended(&mut self, place: &Place, stored: &mut Stored) {
        let known = self.ended.remove(place).unwrap_or_default();
        let is_over =
            |it: &stored::Live<'_>| it.ends_ms <= stored.now_ms || known.contains(it.holder.id);
        let ended: BTreeSet<_> =
            stored.in_set().filter(is_over).map(|it| it.holder.id.to_vec()).collect();
        if !ended.is_empty() {
            stored.revived.clone_from(&ended);
            self.ended.insert(place.clone(), ended);
        }
    }

    /// True if the state before or after a call is nobody's work: the right to a command of a script was
    /// missing, and a half of it has run. Whoever finds the lock in order again has mended it.
    fn is_torn(&mut self, after: &Locks, reply: &Reply) -> bool {
        let is_cut_short = is_cut_short(reply);
        let was_torn = after.keys().any(|place| self.torn.contains(place));
        for (place, stored) in after {
            if is_cut_short {
                self.torn.insert(place.clone());
            } else if shape::problems(stored).is_empty() {
                self.torn.remove(place);
            }
        }
        is_cut_short || was_torn
    }

    fn blame(&mut self, text: &str) {
        if self.violations.len() < MOST {
            self.violations.push(text.to_owned());
        }
    }
}

/// A problem without its numbers.
fn kind(problem: &str) -> String {
    problem.chars().filter(|it| !it.is_ascii_digit()).collect()
}

/// The errors of a script itself. A server refuses with codes of its own, or for its rights; and a
/// node ends a script at a key that is gone while its slot moves, which clients know.
fn failures(reply: &Reply, has_moving_slot: bool) -> impl Iterator<Item = String> {
    let is_refusal = move |text: &str| {
        text.contains("ACL failure") || has_moving_slot && text.contains("non local key")
    };
    let all = if let Reply::Array(all) = reply { all } else { std::slice::from_ref(reply) };
    all.iter().filter_map(move |reply| match reply {
        Reply::Error(text) if text.starts_with("ERR") && !is_refusal(text) => {
            Some(format!("the script fails: {text}"))
        }
        _ => None,
    })
}

/// True if the user has lacked a right to a command of the script, of which a part has run then.
fn is_cut_short(reply: &Reply) -> bool {
    match reply {
        Reply::Error(text) => text.contains("ACL failure"),
        Reply::Array(all) => all.iter().any(is_cut_short),
        _ => false,
    }
}

type Locks = BTreeMap<Place, Stored>;

/// The clients that receive the hints of a call's locks.
fn listening(core: &Core, call: &Call<'_>) -> BTreeSet<Vec<u8>> {
    let of = |channel: &Channel| {
        call.places.iter().find_map(|place| place.listener(&channel.name)).map(<[u8]>::to_vec)
    };
    core.subscriptions.keys().filter_map(of).collect()
}

fn look(keyspace: Option<&Keyspace>, call: &Call<'_>, now_us: i64) -> (Locks, Option<Noted>) {
    let at_ms = now_us.div_euclid(1000);
    let nothing = Keyspace::default();
    let keyspace = keyspace.unwrap_or(&nothing);
    let locks =
        call.places.iter().map(|place| (place.clone(), Stored::look(keyspace, place, at_ms)));
    let noted = call.tokens_key().and_then(|key| Noted::look(keyspace, key, at_ms));
    (locks.collect(), noted)
}

/// A violation with all that is needed to understand it.
/// A call in a line: what it does, for whom, with which lock, and the answer.
fn short(call: &Call<'_>, reply: &Reply) -> String {
    let mut text = call.script.about.name.to_owned();
    for request in &call.requests {
        let _ =
            write!(text, " {} {}", call.places[request.nth], String::from_utf8_lossy(request.name));
        for word in request.rest {
            let _ = write!(text, " {:?}", String::from_utf8_lossy(word));
        }
    }
    let _ = write!(text, " = {reply:?}");
    text
}

fn told(
    problem: &str,
    call: &Call<'_>,
    (before, after): (&Locks, &Locks),
    reply: &Reply,
) -> String {
    let mut text = format!("{problem}\n  {}", call.script.about.name);
    for word in call.keys.iter().chain(call.args) {
        let _ = write!(text, " {:?}", String::from_utf8_lossy(word));
    }
    let _ = write!(text, "\n  answered {reply:?}\n");
    for (place, after) in after {
        let before = &before[place];
        let _ =
            write!(text, "  {place} at {} ms, before:\n{before}  after:\n{after}", after.now_ms);
    }
    text
}
