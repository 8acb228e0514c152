//! What holds for a lock's keys at any time.

use std::collections::{BTreeMap, BTreeSet};

use super::format::{Ask, Member, Mode, Record};
use super::stored::Stored;

/// The problems of a lock's state.
pub(super) fn problems(stored: &Stored) -> Vec<String> {
    let mut found = Vec::new();
    for check in [expiries, record, members, holders, counters, queue, done] {
        check(stored, &mut found);
    }
    found
}

type Found = Vec<String>;

fn expiries(stored: &Stored, found: &mut Found) {
    let Stored {
        record, holders, queue, waiters, forced, intent, done, runs, again, freed, ..
    } = stored;
    let has_expiry = [
        ("lock", record.as_ref().is_none_or(|it| it.expires_ms.is_some())),
        ("holders", holders.as_ref().is_none_or(|it| it.expires_ms.is_some())),
        ("queue", queue.as_ref().is_none_or(|it| it.expires_ms.is_some())),
        ("waiters", waiters.as_ref().is_none_or(|it| it.expires_ms.is_some())),
        ("forced", forced.as_ref().is_none_or(|it| it.expires_ms.is_some())),
        ("intent", intent.as_ref().is_none_or(|it| it.expires_ms.is_some())),
        ("done", done.as_ref().is_none_or(|it| it.expires_ms.is_some())),
        ("runs", runs.as_ref().is_none_or(|it| it.expires_ms.is_some())),
        ("again", again.as_ref().is_none_or(|it| it.expires_ms.is_some())),
        ("freed", freed.as_ref().is_none_or(|it| it.expires_ms.is_some())),
    ];
    let without = has_expiry.iter().filter(|(_, has)| !has);
    found.extend(without.map(|(role, _)| format!("the key {role} has no expiry")));
}

fn record(stored: &Stored, found: &mut Found) {
    let Some(value) = &stored.record else { return };
    let Some(record) = Record::read(&value.value) else { return };
    found.extend(record.problem().map(|problem| format!("the record: {problem}")));
    if !record.may_have_waiters() && stored.queue.is_some() {
        found.push("there is a queue, and the record's flag is 0".to_owned());
    }
    let last = stored.in_set().map(|it| it.ends_ms).filter(|at| *at > stored.now_ms).max();
    if let (Some(last), Some(expires_ms)) = (last, value.expires_ms)
        && expires_ms < last
    {
        found.push(format!("the record ends {} ms before the last lease", last - expires_ms));
    }
}

fn members(stored: &Stored, found: &mut Found) {
    let all = stored.holders.iter().flat_map(|set| &set.value);
    let unknown = all.filter(|(name, score)| Member::read(name, *score).is_none());
    found.extend(unknown.map(|(name, score)| {
        format!("an unknown member among the holders: {:?} {score}", String::from_utf8_lossy(name))
    }));
    let mut seen = BTreeSet::new();
    for it in stored.in_set() {
        if !seen.insert(it.holder.id) {
            found.push("a request is among the holders twice".to_owned());
        }
    }
}

/// Two that hold a lock at once, and must not.
fn holders(stored: &Stored, found: &mut Found) {
    let live: Vec<_> = stored.live_at_first().map(|it| it.holder).collect();
    if let (Some(set), Some(last)) = (
        &stored.holders,
        stored.in_set().map(|it| it.ends_ms).max().filter(|at| *at > stored.now_ms),
    ) && set.expires_ms.is_some_and(|at| at < last)
    {
        found.push("the set of holders ends before the last lease".to_owned());
    }
    let Some(first) = live.first() else { return };
    if let Some(record) = stored.record() {
        if b"FK".contains(&record.state()) {
            found.push("the lock is free or kept, and has a holder".to_owned());
        } else if live.iter().any(|it| it.mode.kind() != record.kind()) {
            found.push("a holder of another kind of lock".to_owned());
        }
    }
    let others = |mode| live.iter().filter(move |it| it.mode == mode);
    let is_alone = others(Mode::Alone).next().is_none() || live.len() == 1;
    let is_one_owner = others(Mode::Reentrant).next().is_none()
        || first.owner.is_some() && live.iter().all(|it| it.owner == first.owner);
    let is_one_writer = others(Mode::Writer).count() <= 1;
    let fits_writer = others(Mode::Writer).next().is_none_or(|writer| {
        others(Mode::Reader).all(|it| it.owner.is_some() && it.owner == writer.owner)
    });
    for (is_right, what) in [
        (is_alone, "a mutex has another holder"),
        (is_one_owner, "a reentrant mutex has holds of two owners"),
        (is_one_writer, "two writers"),
        (fits_writer, "a writer beside readers of another owner"),
    ] {
        if !is_right {
            found.push(what.to_owned());
        }
    }
}

/// The members that count the holders.
fn counters(stored: &Stored, found: &mut Found) {
    let (mut excess, mut owners, mut since) = (0, BTreeMap::new(), BTreeSet::new());
    let mut writer_ends = None;
    for it in stored.in_set() {
        excess += i64::from(it.holder.weight) - 1;
        if let Some(owner) = it.holder.owner {
            *owners.entry(owner).or_insert(0_i64) += 1;
        }
        if matches!(it.holder.mode, Mode::Permit | Mode::Reader) {
            since.insert(it.holder.id);
        }
        if it.holder.mode == Mode::Writer && it.ends_ms > stored.now_ms {
            writer_ends = Some(it.ends_ms);
        }
    }
    let (mut said_excess, mut said_writer, mut marks) = (0, None, BTreeSet::new());
    for (member, score) in stored.members() {
        match member {
            Member::Holder(_) => {}
            Member::Excess => said_excess = -score,
            Member::Owner(owner) => {
                if owners.remove(owner) != Some(-score) {
                    let owner = String::from_utf8_lossy(owner).into_owned();
                    found.push(format!("owner {owner:?} has not {} holders", -score));
                }
            }
            Member::WriterEnds => said_writer = Some(-score).filter(|at| *at > stored.now_ms),
            Member::Since(id) => {
                if !since.remove(id) {
                    found.push("a `^` without its holder".to_owned());
                }
            }
            Member::Mark { client, .. } => {
                if !marks.insert(client) {
                    found.push("a client with two marks".to_owned());
                }
            }
        }
    }
    if said_excess != excess {
        found.push(format!("`+` is {said_excess}, and not {excess}"));
    }
    if said_writer != writer_ends {
        found.push(format!("`!` is {said_writer:?}, and not {writer_ends:?}"));
    }
    if !owners.is_empty() {
        found.push("an owner whose holders are not counted".to_owned());
    }
    if !since.is_empty() {
        found.push("a holder without its `^`".to_owned());
    }
}

fn queue(stored: &Stored, found: &mut Found) {
    let (queue, waiters) = (&stored.queue, &stored.waiters);
    let in_queue = queue.iter().flat_map(|set| &set.value).map(|(id, _)| id).collect::<Vec<_>>();
    let said = waiters.iter().flat_map(|hash| &hash.value).collect::<Vec<_>>();
    if stored.live_at_first().any(|it| in_queue.iter().any(|id| *id == it.holder.id)) {
        found.push("a holder waits".to_owned());
    }
    for (id, said) in said {
        if Ask::read(said).is_none_or(|ask| ask.holder(id).is_none()) {
            found.push(format!("an unknown ask: {:?}", String::from_utf8_lossy(said)));
        }
    }
    if let (Some(queue), Some(waiters)) = (queue, waiters)
        && queue.expires_ms != waiters.expires_ms
    {
        found.push("the queue and the waiters end at different times".to_owned());
    }
}

/// The mark of work that is done.
fn done(stored: &Stored, found: &mut Found) {
    let Some(done) = &stored.done else { return };
    let number = |at: usize| super::format::number(done.value.get(at..at + 13)?);
    let numbers = [0, 13, 26, 39].map(number);
    let is_right = done.value.len() == 86
        && numbers.iter().all(Option::is_some)
        && super::format::is_id(&done.value[52..]);
    if !is_right {
        found.push("the mark of done work has a wrong shape".to_owned());
    } else if let (Some(until), Some(expires_ms)) = (numbers[0], done.expires_ms)
        && i64::try_from(until).is_ok_and(|until| until > stored.now_ms && until > expires_ms)
    {
        found.push("the mark of done work ends while it counts".to_owned());
    }
}
