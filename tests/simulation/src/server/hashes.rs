//! Commands on hashes.

use std::collections::BTreeMap;

use super::command::{Answer, Context};
use super::reply::Reply;

type Hash = BTreeMap<Vec<u8>, Vec<u8>>;

fn hash<'a>(context: &'a mut Context<'_>, key: &[u8]) -> Result<Option<&'a mut Hash>, Reply> {
    let now_ms = context.now_ms();
    context.keyspace.typed::<Hash>(key, now_ms)
}

pub(super) fn hget(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let value = hash(context, &args[1])?.and_then(|hash| hash.get(&args[2]));
    Ok(Reply::bulk(value.map(Vec::as_slice)))
}

pub(super) fn hmget(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let hash = hash(context, &args[1])?;
    let value = |field| Reply::bulk(hash.as_ref().and_then(|it| it.get(field)).map(Vec::as_slice));
    Ok(Reply::Array(args[2..].iter().map(value).collect()))
}

pub(super) fn hgetall(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let pairs = hash(context, &args[1])?.into_iter().flat_map(|hash| hash.iter());
    let pair = |(field, value): (&Vec<u8>, &Vec<u8>)| {
        (Reply::Bulk(field.clone()), Reply::Bulk(value.clone()))
    };
    Ok(Reply::Map(pairs.map(pair).collect()))
}

pub(super) fn hlen(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    Ok(Reply::count(hash(context, &args[1])?.map_or(0, |hash| hash.len())))
}

pub(super) fn hexists(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let is_there = hash(context, &args[1])?.is_some_and(|hash| hash.contains_key(&args[2]));
    Ok(Reply::Int(i64::from(is_there)))
}

pub(super) fn hset(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let (now_ms, (pairs, rest)) = (context.now_ms(), args[2..].as_chunks::<2>());
    if !rest.is_empty() {
        return Err(Reply::error("ERR wrong number of arguments for 'hset' command"));
    }
    let hash = context.keyspace.typed_or_new::<Hash>(&args[1], now_ms)?;
    let mut set = |[field, value]: &[Vec<u8>; 2]| hash.insert(field.clone(), value.clone());
    Ok(Reply::count(pairs.iter().filter(|pair| set(pair).is_none()).count()))
}

pub(super) fn hdel(context: &mut Context<'_>, args: &[Vec<u8>]) -> Answer {
    let Some(hash) = hash(context, &args[1])? else { return Ok(Reply::Int(0)) };
    let count = args[2..].iter().filter(|field| hash.remove(*field).is_some()).count();
    context.keyspace.tidy(&args[1]);
    Ok(Reply::count(count))
}
