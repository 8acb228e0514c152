//! Commands on strings.

use super::command::{Answer, Context, integer, is, syntax_error};
use super::keyspace::Value;
use super::reply::Reply;

/// The longest string of a server.
const LONGEST: usize = 512 << 20;

pub(super) fn get(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let now_ms = context.now_ms();
    let value = context.keyspace.typed::<Vec<u8>>(&args[1], now_ms)?;
    Ok(Reply::bulk(value.map(|value| value.as_slice())))
}

/// A key of another type counts as absent.
#[expect(clippy::unnecessary_wraps, reason = "all commands have the type of the table's entries")]
pub(super) fn mget(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let now_ms = context.now_ms();
    let mut value = |key: &Vec<u8>| {
        let value = context.keyspace.typed::<Vec<u8>>(key, now_ms).ok().flatten();
        Reply::bulk(value.map(|value| value.as_slice()))
    };
    Ok(Reply::Array(args[1..].iter().map(&mut value).collect()))
}

pub(super) fn strlen(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let now_ms = context.now_ms();
    let value = context.keyspace.typed::<Vec<u8>>(&args[1], now_ms)?;
    Ok(Reply::count(value.map_or(0, |value| value.len())))
}

/// Which keys a `SET` may set.
#[derive(PartialEq)]
enum Only {
    Any,
    New,
    Known,
}

pub(super) fn set(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let (key, now_ms) = (&args[1], context.now_ms());
    let (mut only, mut lasts, mut keeps_expiry) = (Only::Any, None, false);
    let mut rest = args[3..].iter();
    while let Some(arg) = rest.next() {
        if is(arg, "NX") && only != Only::Known {
            only = Only::New;
        } else if is(arg, "XX") && only != Only::New {
            only = Only::Known;
        } else if is(arg, "KEEPTTL") && lasts.is_none() {
            keeps_expiry = true;
        } else if (is(arg, "PX") || is(arg, "EX")) && lasts.is_none() && !keeps_expiry {
            let unit_ms = if is(arg, "PX") { 1 } else { 1000 };
            lasts = Some((rest.next().ok_or_else(syntax_error)?, unit_ms));
        } else {
            return Err(syntax_error());
        }
    }
    let mut expires_ms = None;
    if let Some((lasts, unit_ms)) = lasts {
        let invalid = || Reply::error("ERR invalid expire time in 'set' command");
        let lasts = Some(integer(lasts)?).filter(|it| *it > 0).ok_or_else(invalid)?;
        let lasts_ms = lasts.checked_mul(unit_ms).ok_or_else(invalid)?;
        expires_ms = Some(lasts_ms.checked_add(now_ms).ok_or_else(invalid)?);
    }
    let known = context.keyspace.get(key, now_ms);
    if only == Only::New && known.is_some() || only == Only::Known && known.is_none() {
        return Ok(Reply::Nil);
    }
    if keeps_expiry {
        expires_ms = known.and_then(|entry| entry.expires_ms);
    }
    context.keyspace.set(key, Value::String(args[2].clone()), expires_ms);
    Ok(Reply::Ok)
}

pub(super) fn setrange(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let (offset, value, now_ms) = (integer(&args[2])?, &args[3], context.now_ms());
    let offset = usize::try_from(offset).map_err(|_| Reply::error("ERR offset is out of range"))?;
    let known = context.keyspace.typed::<Vec<u8>>(&args[1], now_ms)?;
    if value.is_empty() {
        return Ok(Reply::count(known.map_or(0, |known| known.len())));
    }
    let end = offset.checked_add(value.len()).filter(|end| *end <= LONGEST);
    let end = end.ok_or_else(|| {
        Reply::error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
    })?;
    let known = context.keyspace.typed_or_new::<Vec<u8>>(&args[1], now_ms)?;
    if known.len() < end {
        known.resize(end, 0);
    }
    known[offset..end].copy_from_slice(value);
    Ok(Reply::count(known.len()))
}
