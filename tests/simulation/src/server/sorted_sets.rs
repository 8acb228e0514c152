//! Commands on sorted sets.

use super::command::{Answer, Context, float, integer, is, must_be_absent_or, syntax_error};
use super::reply::Reply;
use super::sorted_set::{Limit, SortedSet};

const NO_FLOAT: &str = "ERR value is not a valid float";

fn set<'a>(context: &'a mut Context<'_>, key: &[u8]) -> Result<Option<&'a mut SortedSet>, Reply> {
    let now_ms = context.now_ms();
    context.keyspace.typed::<SortedSet>(key, now_ms)
}

pub(super) fn zcard(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    Ok(Reply::count(set(context, &args[1])?.map_or(0, |set| set.len())))
}

pub(super) fn zscore(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let score = set(context, &args[1])?.and_then(|set| set.score(&args[2]));
    Ok(score.map_or(Reply::Nil, Reply::Double))
}

pub(super) fn zmscore(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let set = set(context, &args[1])?;
    let score = |member| set.as_ref().and_then(|set| set.score(member));
    Ok(Reply::Array(
        args[2..].iter().map(|it| score(it).map_or(Reply::Nil, Reply::Double)).collect(),
    ))
}

/// The conditions of `ZADD`: the words that it may begin with.
#[derive(Default)]
struct Conditions(Vec<&'static str>);

impl Conditions {
    /// Reads a word; false if it is none.
    fn read(&mut self, arg: &[u8]) -> bool {
        let word = ["NX", "XX", "GT", "LT", "CH"].into_iter().find(|word| is(arg, word));
        self.0.extend(word);
        word.is_some()
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    fn check(&self) -> Result<(), Reply> {
        if self.has("NX") && self.has("XX") {
            let text = "ERR XX and NX options at the same time are not compatible";
            return Err(Reply::error(text));
        }
        if ["NX", "GT", "LT"].iter().filter(|word| self.has(word)).count() > 1 {
            let text = "ERR GT, LT, and/or NX options at the same time are not compatible";
            return Err(Reply::error(text));
        }
        Ok(())
    }

    fn allow(&self, before: Option<f64>, score: f64) -> bool {
        match before {
            None => !self.has("XX"),
            Some(before) => {
                let is_other_way =
                    self.has("GT") && score <= before || self.has("LT") && score >= before;
                !self.has("NX") && !is_other_way
            }
        }
    }
}

pub(super) fn zadd(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let (key, now_ms, mut conditions) = (&args[1], context.now_ms(), Conditions::default());
    let words = args[2..].iter().take_while(|arg| conditions.read(arg)).count();
    let (pairs, rest) = args[2 + words..].as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return Err(syntax_error());
    }
    conditions.check()?;
    // All scores are read before the first change.
    let scores = pairs.iter().map(|[score, _]| float(score, NO_FLOAT));
    let scores = scores.collect::<Result<Vec<_>, _>>()?;
    if conditions.has("XX") && !must_be_absent_or::<SortedSet>(context, key)? {
        return Ok(Reply::Int(0));
    }
    let (mut added, mut changed) = (0, 0);
    let set = context.keyspace.typed_or_new::<SortedSet>(key, now_ms)?;
    for ([_, member], score) in pairs.iter().zip(scores) {
        let before = set.score(member);
        if conditions.allow(before, score) && before != Some(score) {
            set.insert(member, score);
            added += usize::from(before.is_none());
            changed += 1;
        }
    }
    context.keyspace.tidy(key);
    Ok(Reply::count(if conditions.has("CH") { changed } else { added }))
}

pub(super) fn zincrby(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let (by, now_ms) = (float(&args[2], NO_FLOAT)?, context.now_ms());
    let set = context.keyspace.typed_or_new::<SortedSet>(&args[1], now_ms)?;
    let score = set.score(&args[3]).unwrap_or(0.0) + by;
    if score.is_nan() {
        return Err(Reply::error("ERR resulting score is not a number (NaN)"));
    }
    set.insert(&args[3], score);
    Ok(Reply::Double(score))
}

pub(super) fn zrem(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let Some(set) = set(context, &args[1])? else { return Ok(Reply::Int(0)) };
    let count = args[2..].iter().filter(|member| set.remove(member)).count();
    context.keyspace.tidy(&args[1]);
    Ok(Reply::count(count))
}

fn limits(least: &[u8], most: &[u8]) -> Result<(Limit, Limit), Reply> {
    // C reads an empty number as 0.
    let number = |arg: &[u8]| {
        if arg.is_empty() { Ok(0.0) } else { float(arg, "ERR min or max is not a float") }
    };
    let limit = |arg: &[u8]| match arg.strip_prefix(b"(") {
        Some(arg) => number(arg).map(Limit::Excluded),
        None => number(arg).map(Limit::Included),
    };
    Ok((limit(least)?, limit(most)?))
}

pub(super) fn zcount(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let (least, most) = limits(&args[2], &args[3])?;
    let set = set(context, &args[1])?;
    Ok(Reply::count(set.map_or(0, |set| set.between(least, most).count())))
}

pub(super) fn zremrangebyscore(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let (least, most) = limits(&args[2], &args[3])?;
    let Some(set) = set(context, &args[1])? else { return Ok(Reply::Int(0)) };
    let members: Vec<_> = set.between(least, most).map(|(member, _)| member.to_vec()).collect();
    for member in &members {
        set.remove(member);
    }
    context.keyspace.tidy(&args[1]);
    Ok(Reply::count(members.len()))
}

pub(super) fn zrange(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let (mut by_score, mut with_scores, mut is_reversed, mut part) = (false, false, false, None);
    let mut rest = args[4..].iter();
    while let Some(arg) = rest.next() {
        if is(arg, "BYSCORE") {
            by_score = true;
        } else if is(arg, "WITHSCORES") {
            with_scores = true;
        } else if is(arg, "REV") {
            is_reversed = true;
        } else if is(arg, "LIMIT") && rest.len() >= 2 {
            let mut number = || integer(rest.next().expect("it was counted"));
            part = Some((number()?, number()?));
        } else {
            return Err(syntax_error());
        }
    }
    // A count of -1 is what stands for none.
    if part.is_some_and(|(_, count)| count != -1) && !by_score {
        let text =
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
        return Err(Reply::error(text));
    }
    let found: Vec<(Vec<u8>, f64)> = if by_score {
        let (least, most) = if is_reversed { (3, 2) } else { (2, 3) };
        let (least, most) = limits(&args[least], &args[most])?;
        let (skipped, most_found) = part.unwrap_or((0, -1));
        let set = set(context, &args[1])?;
        let mut all: Vec<_> = set.iter().flat_map(|set| set.between(least, most)).collect();
        if is_reversed {
            all.reverse();
        }
        // A negative offset finds nothing, a negative count everything.
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        let all =
            all.into_iter().skip(skipped).take(usize::try_from(most_found).unwrap_or(usize::MAX));
        all.map(|(member, score)| (member.to_vec(), score)).collect()
    } else {
        let (from, to) = (integer(&args[2])?, integer(&args[3])?);
        let set = set(context, &args[1])?;
        let count = i64::try_from(set.as_ref().map_or(0, |set| set.len())).expect("it fits");
        let at = |index: i64| if index < 0 { (index + count).max(-1) } else { index };
        let (from, to) = (at(from).max(0), at(to));
        let length = usize::try_from((to - from).saturating_add(1)).unwrap_or(0);
        let mut all: Vec<_> = set.iter().flat_map(|set| set.iter()).collect();
        if is_reversed {
            all.reverse();
        }
        let all = all.into_iter().skip(usize::try_from(from).expect("not negative")).take(length);
        all.map(|(member, score)| (member.to_vec(), score)).collect()
    };
    let mut answer = Vec::new();
    for (member, score) in found {
        answer.push(Reply::Bulk(member));
        if with_scores {
            answer.push(Reply::Double(score));
        }
    }
    Ok(Reply::Array(answer))
}
