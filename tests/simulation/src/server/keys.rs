//! Commands on keys of any type, and on the whole keyspace.

#![expect(clippy::unnecessary_wraps, reason = "all commands have the type of the table's entries")]

use super::command::{Answer, Context, integer, is, syntax_error};
use super::glob;
use super::reply::Reply;

pub(super) fn time(context: &mut Context<'_>, _: &[Vec<u8>]) -> Answer {
    let (seconds, micros) =
        (context.now_us.div_euclid(1_000_000), context.now_us.rem_euclid(1_000_000));
    Ok(Reply::Array([seconds, micros].map(|it| Reply::text(it.to_string())).to_vec()))
}

pub(super) fn exists(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let now_ms = context.now_ms();
    let is_there = |key: &&Vec<u8>| context.keyspace.get(key, now_ms).is_some();
    Ok(Reply::count(args[1..].iter().filter(is_there).count()))
}

pub(super) fn del(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let now_ms = context.now_ms();
    let remove = |key: &&Vec<u8>| context.keyspace.remove(key, now_ms);
    Ok(Reply::count(args[1..].iter().filter(remove).count()))
}

pub(super) fn rename(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let now_ms = context.now_ms();
    let Some(entry) = context.keyspace.get(&args[1], now_ms) else {
        return Err(Reply::error("ERR no such key"));
    };
    let (value, expires_ms) = (entry.value.clone(), entry.expires_ms);
    context.keyspace.delete(&args[1]);
    context.keyspace.set(&args[2], value, expires_ms);
    Ok(Reply::Ok)
}

pub(super) fn flush(context: &mut Context<'_>, _: &[Vec<u8>]) -> Answer {
    context.keyspace.clear();
    Ok(Reply::Ok)
}

pub(super) fn dbsize(context: &mut Context<'_>, _: &[Vec<u8>]) -> Answer {
    Ok(Reply::count(context.keyspace.live(context.now_ms()).count()))
}

pub(super) fn type_of(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let now_ms = context.now_ms();
    let entry = context.keyspace.get(&args[1], now_ms);
    Ok(Reply::simple(entry.map_or("none", |entry| entry.value.type_name())))
}

pub(super) fn pexpire(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let (now_ms, lasts_ms) = (context.now_ms(), integer(&args[2])?);
    let invalid = || Reply::error("ERR invalid expire time in 'pexpire' command");
    let at = now_ms.checked_add(lasts_ms).ok_or_else(invalid)?;
    let Some(entry) = context.keyspace.get(&args[1], now_ms) else { return Ok(Reply::Int(0)) };
    entry.expires_ms = Some(at);
    if lasts_ms <= 0 {
        context.keyspace.delete(&args[1]);
    }
    Ok(Reply::Int(1))
}

pub(super) fn persist(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let now_ms = context.now_ms();
    let entry = context.keyspace.get(&args[1], now_ms);
    let had_one = entry.is_some_and(|entry| entry.expires_ms.take().is_some());
    Ok(Reply::Int(i64::from(had_one)))
}

/// In milliseconds; -1 without an expiry, -2 without a key.
fn left_ms(context: &mut Context<'_>, key: &[u8]) -> i64 {
    let now_ms = context.now_ms();
    let entry = context.keyspace.get(key, now_ms);
    entry.map_or(-2, |entry| entry.expires_ms.map_or(-1, |at| at - now_ms))
}

pub(super) fn pttl(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    Ok(Reply::Int(left_ms(context, &args[1])))
}

pub(super) fn ttl(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let left_ms = left_ms(context, &args[1]);
    Ok(Reply::Int(if left_ms < 0 { left_ms } else { (left_ms + 500) / 1000 }))
}

pub(super) fn rpush(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let now_ms = context.now_ms();
    let items = context.keyspace.typed_or_new::<Vec<Vec<u8>>>(&args[1], now_ms)?;
    items.extend_from_slice(&args[2..]);
    Ok(Reply::count(items.len()))
}

pub(super) fn keys(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let live = context.keyspace.live(context.now_ms()).map(|(key, _)| key);
    let fits = live.filter(|key| glob::fits(&args[1], key));
    Ok(Reply::Array(fits.map(|key| Reply::Bulk(key.to_vec())).collect()))
}

/// Goes through the keys in the order of their hashes: a cursor is the hash of the last one. So a key
/// that is there all the time comes, whatever comes and goes meanwhile. A real server has another
/// order, and promises no more.
pub(super) fn scan(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let invalid = |_| Reply::error("ERR invalid cursor");
    let from = integer(&args[1]).map_err(invalid)?;
    let from = u64::try_from(from).map_err(|_| Reply::error("ERR invalid cursor"))?;
    let (mut pattern, mut count) = (None, 10);
    let (options, rest) = args[2..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(syntax_error());
    }
    for [option, value] in options {
        if is(option, "MATCH") {
            pattern = Some(value);
        } else if is(option, "COUNT") {
            count = usize::try_from(integer(value)?)
                .ok()
                .filter(|it| *it > 0)
                .ok_or_else(syntax_error)?;
        } else {
            return Err(syntax_error());
        }
    }
    let live = context.keyspace.live(context.now_ms()).map(|(key, _)| (place(key), key));
    let mut rest: Vec<_> = live.filter(|(place, _)| *place > from).collect();
    rest.sort_unstable();
    // Keys of one hash come together.
    let last = rest.get(count - 1).map_or(u64::MAX, |(place, _)| *place);
    let size = rest.partition_point(|(place, _)| *place <= last);
    let page = rest[..size].iter().map(|(_, key)| *key);
    let fits = page.filter(|key| pattern.is_none_or(|pattern| glob::fits(pattern, key)));
    let found = fits.map(|key| Reply::Bulk(key.to_vec())).collect();
    let next = if size < rest.len() { last } else { 0 };
    Ok(Reply::Array(vec![Reply::text(next.to_string()), Reply::Array(found)]))
}

/// Where a key comes in a scan: a hash after FNV, not 0, and small enough for a cursor.
fn place(key: &[u8]) -> u64 {
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    (key.iter().fold(0xcbf2_9ce4_8422_2325, add) >> 2).max(1)
}
