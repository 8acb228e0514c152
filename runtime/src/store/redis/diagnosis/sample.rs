//! Looks at some of the stored keys.

use futures_util::future::join_all;
use redis::Value;

use super::super::encode::Encoder;
use super::asker::{Asker, words};
use super::material::{Records, Reply};
use crate::core::name_pattern::NamePattern;
use crate::store::ListOf;
use crate::system;

/// The most pages that are looked at; fewer if the server is slow.
const PAGES: usize = 4;

/// How many keys of the database a page goes through: as many as one of `lock/list`.
const KEYS: u64 = super::super::listing::KEYS;

/// Goes through some pages of keys.
pub(super) async fn run(asker: &Asker, encoder: &Encoder) -> Reply<Records> {
    let (mut cursor, mut records) = (0_u64, Records::default());
    let locks = format!("{}:lock:", encoder.prefix());
    let begun = system::now();
    for nth in 0..PAGES {
        if system::since(begun) > asker.limit {
            break;
        }
        let mut scan = words(&["SCAN"]);
        scan.arg(cursor).arg("MATCH").arg(encoder.all_keys()).arg("COUNT").arg(KEYS);
        let page = asker.ask(&scan).await.and_then(page);
        let (next, keys) = match page {
            Reply::Got(page) => page,
            Reply::Refused(refusal) if nth == 0 => return Reply::Refused(refusal),
            Reply::Missing if nth == 0 => return Reply::Missing,
            _ => break,
        };
        let of_locks: Vec<_> = keys.iter().filter(|key| key.starts_with(&locks)).collect();
        records.seen += keys.len() as u64;
        records.locks += of_locks.len() as u64;
        let list = encoder.list(&NamePattern::new("*"), ListOf::Locks, cursor);
        let expiries = of_locks.iter().map(async |key| {
            let expiry = asker.ask(&words(&["PTTL", key])).await;
            matches!(expiry, Reply::Got(Value::Int(-1)))
        });
        let (busy, lasting) = tokio::join!(asker.call(&list), join_all(expiries));
        if let Reply::Got(Value::Array(parts)) = busy
            && let [_, Value::Array(names)] = &parts[..]
        {
            records.in_use += names.len() as u64;
        }
        let lasting = of_locks.into_iter().zip(lasting).filter(|(_, lasts)| *lasts);
        records.lasting.extend(lasting.map(|(key, _)| key.clone()));
        cursor = next;
        records.is_all = next == 0;
        if records.is_all {
            break;
        }
    }
    Reply::Got(records)
}

fn page(answer: Value) -> Option<(u64, Vec<String>)> {
    let (next, keys): (u64, Vec<Vec<u8>>) = redis::from_redis_value(answer).ok()?;
    let text = |key: Vec<u8>| String::from_utf8_lossy(&key).into_owned();
    Some((next, keys.into_iter().map(text).collect()))
}
