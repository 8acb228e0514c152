//! Reads a lock's keys, and the arguments of a script, as the rules take them.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::LockKey;
use leasehold::store::rules::shadow::{
    DoneWork, Holding, Picture, Recorded, Standing, Waits, Wish,
};
use leasehold::store::{
    AskedAgain, AskedNote, ClientId, JobRuns, Kind, LockKind, Note, Once, Owner, QueuePosition,
    Request, RequestId, Waiting,
};

use crate::oracle::call::{self, Call, Rule, Verb};
use crate::oracle::format::{Ask, CLIENT, Holder, MARKS, Member, Mode, NOBODY, Record, number};
use crate::oracle::stored::{Place, Stored, Timed};

/// Work that is to succeed once, where the keys do not say for how long.
const SOME_ONCE: Once = Once::For(Duration::ZERO);

/// A time of the server's clock.
pub(super) fn at(millis: i64) -> Duration {
    Duration::from_millis(millis.unsigned_abs())
}

/// When a key expires. The server leaves it for the whole of that millisecond.
fn expiry(millis: Option<i64>) -> Option<Duration> {
    millis.map(at)
}

pub(super) fn id(bytes: &[u8]) -> Option<RequestId> {
    RequestId::read(bytes)
}

/// A client's id, by that of any of its requests.
fn client(bytes: &[u8]) -> Option<ClientId> {
    Some(id(&[bytes, &[b'0'; 12]].concat())?.client())
}

fn kind(letter: u8) -> LockKind {
    match letter {
        b'M' => LockKind::Mutex,
        b'E' => LockKind::ReentrantMutex,
        b'S' => LockKind::Semaphore,
        _ => LockKind::RwLock,
    }
}

/// `None` for a name or a note that no client makes.
fn wish(holder: Holder<'_>, kind: Kind) -> Option<Wish> {
    let owner = match holder.owner {
        Some(name) => Some(Owner::new(std::str::from_utf8(name).ok()?).ok()?),
        None => None,
    };
    let note = match holder.note {
        Some(text) => {
            let text = std::str::from_utf8(text).ok()?;
            Some(Note::new(text).filter(|note| note.text() == text)?)
        }
        None => None,
    };
    Some(Wish { kind, owner, note })
}

fn lease(holder: Holder<'_>, limit: u32) -> Kind {
    match holder.mode {
        Mode::Alone => Kind::Mutex,
        Mode::Reentrant => Kind::Reentrant,
        Mode::Permit => Kind::Semaphore { limit, weight: holder.weight },
        Mode::Reader => Kind::Read,
        Mode::Writer => Kind::Write,
    }
}

/// Reads what is stored of a lock. `None` where no client of ours has written it.
pub(super) fn picture(stored: &Stored) -> Option<Picture> {
    let record = match &stored.record {
        Some(value) => Some(record(value)?),
        None => rebuilt(stored),
    };
    let mut picture = Picture { record, ..Picture::default() };
    let since: BTreeMap<_, _> = stored
        .members()
        .filter_map(|(member, score)| match member {
            Member::Since(id) => Some((id, -score)),
            _ => None,
        })
        .collect();
    for it in stored.in_set() {
        picture.holders.push(Holding {
            id: id(it.holder.id)?,
            wish: wish(it.holder, lease(it.holder, 0))?,
            since: at(since.get(it.holder.id).copied().unwrap_or(0)),
            deadline: at(it.ends_ms),
        });
    }
    for (member, score) in stored.members() {
        match member {
            Member::WriterEnds => picture.written_until = Some(at(-score)),
            Member::Mark { client: of, is_recalled } => {
                picture.marks.push((client(of)?, is_recalled, at(-score - MARKS)));
            }
            _ => {}
        }
    }
    let is_kept = !picture.holders.is_empty() || !picture.marks.is_empty();
    let set = stored.holders.as_ref().filter(|_| is_kept);
    picture.holders_until = set.and_then(|set| expiry(set.expires_ms));
    for (of, position, ask) in stored.waiting() {
        picture.queue.push(Waits {
            id: id(of)?,
            position: position.unsigned_abs(),
            wish: asked(&ask, of)?,
            until: at(ask.until_ms),
        });
    }
    // Somebody deleted one of two keys that belong together.
    if picture.queue.len() != stored.queue.as_ref().map_or(0, |queue| queue.value.len()) {
        return None;
    }
    picture.queue_until = stored.queue.as_ref().and_then(|queue| expiry(queue.expires_ms));
    // What has another score was no holder.
    let forced = stored.forced.iter().flat_map(|set| &set.value);
    for (name, until_ms) in forced.filter(|(_, until_ms)| *until_ms > 0) {
        picture.forced.push((id(name.get(..34)?)?, at(*until_ms)));
    }
    if let Some(intent) = &stored.intent {
        picture.intent = Some((client(&intent.value)?, expiry(intent.expires_ms)?));
    }
    if let Some(done) = &stored.done {
        let part = |start: usize| number(done.value.get(start..start + 13)?);
        picture.done = Some(DoneWork {
            until: part(0)?,
            completed: part(13)?,
            tick: part(26).filter(|tick| *tick > 0),
            granted: part(39)?,
            id: id(done.value.get(52..)?)?,
            stays: expiry(done.expires_ms)?,
        });
    }
    if let Some(runs) = &stored.runs {
        let part = |start: usize| number(runs.value.get(start..start + 13)?);
        let (id, count) = (id(runs.value.get(52..86)?)?, number(runs.value.get(86..)?)?);
        let [first, last, tick, ends] = [part(0)?, part(13)?, part(26)?, part(39)?];
        let runs_of = JobRuns { first, last, tick, ends, id, count };
        picture.runs = Some((runs_of, expiry(runs.expires_ms)?));
    }
    if let Some(again) = &stored.again {
        let (times, said) = again.value.split_at_checked(26)?;
        let ((by, why), [at, tick]) =
            (said_in(said)?, [number(&times[..13])?, number(&times[13..])?]);
        let asked = AskedNote { asked: AskedAgain::new(at, &by, why.as_ref()), at, tick };
        picture.again = Some((asked, expiry(again.expires_ms)?));
    }
    Some(picture)
}

/// Who asks for another run, and why.
pub(super) fn said_in(said: &[u8]) -> Option<(Note, Option<Note>)> {
    let (by, why) = std::str::from_utf8(said).ok()?.split_once('\n')?;
    Some((Note::new(by)?, Note::new(why)))
}

fn asked(ask: &Ask<'_>, id: &[u8]) -> Option<Wish> {
    let holder = Holder { id: &[], ..ask.holder(id)? };
    let kind =
        if ask.is_once { Kind::Once(SOME_ONCE) } else { lease(holder, ask.limit.unwrap_or(0)) };
    wish(holder, kind)
}

/// Where there are holders and no record, each script sees the record that it would write anew.
fn rebuilt(stored: &Stored) -> Option<Recorded> {
    let last = stored.in_set().last().filter(|it| it.ends_ms > stored.now_ms)?;
    Some(Recorded {
        kind: kind(last.holder.mode.kind()),
        standing: Standing::Many { limit: None },
        token: 0,
        may_have_waiters: true,
        ended: None,
        until: at(last.ends_ms),
    })
}

fn record(value: &Timed<Vec<u8>>) -> Option<Recorded> {
    let record = Record::read(&value.value)?;
    let standing = match (record.kind(), record.state()) {
        (_, b'F') => Standing::Free,
        (b'M', b'K') => Standing::Kept(id(record.id())?),
        (b'M', state) => Standing::One {
            id: id(record.id())?,
            wish: wish(Holder::of_mutex(record.id(), record.suffix())?, Kind::Mutex)?,
            is_offer: state == b'O',
            mark: record.mark().map(|mark| mark == b'!'),
        },
        _ => Standing::Many { limit: record.limit() },
    };
    let ended = if record.ended() == NOBODY { None } else { Some(id(record.ended())?) };
    Some(Recorded {
        kind: kind(record.kind()),
        standing,
        token: record.token(),
        may_have_waiters: record.may_have_waiters(),
        ended,
        until: expiry(value.expires_ms)?,
    })
}

/// The name of a lock.
pub(super) fn key(place: &Place) -> Option<LockKey> {
    let key = LockKey::new(place.name()).ok()?;
    (key.in_store("p", "lock") == format!("p:lock:{place}")).then_some(key)
}

/// A request of a call.
pub(super) fn request(call: &Call<'_>, ask: &call::Request<'_>) -> Option<Request> {
    let (script, verb) = (&call.script, call.script.verb);
    let number = |nth: usize| ask.number(nth);
    let suffix = match (verb, script.rule) {
        // A repair says the owner apart.
        (Verb::Repair, Rule::Mutex) => ask.rest.get(2)?.as_slice(),
        // A release says what stays of the record.
        (Verb::Release, Rule::Mutex) => b"",
        _ => ask.name.get(34..)?,
    };
    let is_any = matches!(verb, Verb::KeepOffer | Verb::Looks);
    let holder = match script.rule {
        Rule::Mutex => Holder::of_mutex(ask.id(), suffix)?,
        Rule::Any if is_any && ask.name.len() == 34 => Holder::of_mutex(ask.id(), b"")?,
        _ => ask.holder(script)?,
    };
    let limit = ask.limit(script).and_then(|limit| u32::try_from(limit).ok()).unwrap_or(0);
    let millis = |nth| Some(Duration::from_millis(number(nth)?));
    let kind = match verb {
        Verb::AcquireOnce => Kind::Once(match number(3) {
            Some(offset) => Once::Per { period: millis(2)?, offset: Duration::from_millis(offset) },
            None => Once::For(millis(2)?),
        }),
        Verb::Complete if number(3)? > 0 => {
            Kind::Once(Once::Per { period: millis(0)?, offset: Duration::ZERO })
        }
        Verb::Complete => Kind::Once(Once::For(millis(0)?)),
        _ => lease(holder, limit),
    };
    let Wish { kind, owner, note } = wish(holder, kind)?;
    let ttl = at(ask.ttl_ms(verb).unwrap_or(0));
    Some(Request { key: key(&call.places[ask.nth])?, id: id(ask.id())?, kind, owner, note, ttl })
}

/// How a request waits, if it does.
pub(super) fn waiting(call: &Call<'_>, ask: &call::Request<'_>) -> Option<Waiting> {
    let waits = ask.rest.get(if call.script.rule == Rule::Semaphore { 2 } else { 1 })?;
    let mut words = std::str::from_utf8(waits).ok()?.split(' ');
    let live = Duration::from_millis(words.next()?.parse().ok().filter(|live| *live > 0)?);
    let told: i64 = words.nth(1)?.parse().ok()?;
    let position = if told > 0 {
        QueuePosition::Assigned(told.unsigned_abs())
    } else {
        QueuePosition::New { age: Duration::from_micros(told.unsigned_abs()) }
    };
    Some(Waiting { live, position })
}

/// The secret that a waiter's client sends along.
pub(super) fn secret<'a>(call: &Call<'a>, before: &'a Stored, id: &[u8]) -> Option<&'a [u8]> {
    let asked = before.waiters.as_ref().and_then(|hash| hash.value.get(id));
    let sent = || {
        call.args.iter().find_map(|arg| {
            let mut words = arg.split(|byte| *byte == b' ').skip(1);
            words.next().filter(|word| word.len() == CLIENT)
        })
    };
    match asked {
        Some(said) => said.get(13..35),
        None => sent(),
    }
}

/// What is the same in the keys and in the rules.
pub(super) fn plain(mut picture: Picture, now: Duration) -> Picture {
    let whole =
        |time: &mut Duration| *time = at(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    if let Some(record) = &mut picture.record {
        whole(&mut record.until);
        if let Standing::One { wish, .. } = &mut record.standing {
            wish.kind = Kind::Mutex;
        }
    }
    for holding in &mut picture.holders {
        whole(&mut holding.since);
        whole(&mut holding.deadline);
        match &mut holding.wish.kind {
            Kind::Semaphore { limit, .. } => *limit = 0,
            // Their tokens say since when.
            Kind::Write | Kind::Reentrant => holding.since = Duration::ZERO,
            _ => {}
        }
    }
    // A key is there to the end of its last millisecond, and for the rules to the beginning of that.
    if picture.holders_until.is_some_and(|until| until <= now) {
        picture.holders.clear();
    }
    picture.holders.sort_by_key(|it| (it.deadline, it.id));
    if picture.holders.is_empty() {
        picture.holders_until = None;
    }
    picture.written_until = picture.written_until.filter(|until| *until > now);
    picture.marks.retain(|(.., until)| *until > now);
    for waits in &mut picture.queue {
        whole(&mut waits.until);
        if let Kind::Once(once) = &mut waits.wish.kind {
            *once = SOME_ONCE;
        }
    }
    if picture.queue.is_empty() {
        picture.queue_until = None;
    }
    picture.forced.retain(|(_, until)| *until > now);
    let expiries =
        [&mut picture.holders_until, &mut picture.queue_until, &mut picture.written_until];
    expiries.into_iter().flatten().for_each(whole);
    picture.marks.iter_mut().for_each(|(.., until)| whole(until));
    picture.forced.iter_mut().for_each(|(_, until)| whole(until));
    picture.intent.iter_mut().for_each(|(_, until)| whole(until));
    picture.done.iter_mut().for_each(|done| whole(&mut done.stays));
    picture.runs.iter_mut().for_each(|(_, stays)| whole(stays));
    picture.again.iter_mut().for_each(|(_, stays)| whole(stays));
    picture.marks.sort_by(|(one, ..), (other, ..)| one.as_bytes().cmp(other.as_bytes()));
    picture.forced.sort_unstable();
    picture
}
