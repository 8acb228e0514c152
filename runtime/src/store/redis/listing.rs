//! Reads the pages of the script that lists locks.

use redis::Value;

use super::answer::unreadable;
use crate::core::key::LockKey;
use crate::core::name_pattern::NamePattern;
use crate::store::{ListCursor, ListPage, StoreError};

/// How many keys a page goes through. The server does nothing else meanwhile.
pub(super) const KEYS: u64 = 250;

/// Reads a page, and where the next begins: on the same server, or on the next one.
pub(super) fn page(
    answer: &Value,
    names: &NamePattern,
    from: ListCursor,
    servers: usize,
) -> Result<ListPage, StoreError> {
    let Value::Array(parts) = answer else { return Err(unreadable(answer)) };
    let [cursor, Value::Array(found)] = &parts[..] else { return Err(unreadable(answer)) };
    let at = text(cursor).and_then(|at| at.parse().ok()).ok_or_else(|| unreadable(answer))?;
    let keys = found.iter().filter_map(|name| LockKey::of_stored(text(name)?));
    let keys = keys.filter(|key| names.matches(key.name())).collect();
    let next = if at > 0 { Some(ListCursor { at, ..from }) } else { on_next_server(from, servers) };
    Ok(ListPage { keys, next, failed: None })
}

/// The page of one of several servers that has not answered: the list goes on with the others.
pub(super) fn left_out(
    error: StoreError,
    from: ListCursor,
    servers: usize,
) -> Result<ListPage, StoreError> {
    if servers < 2 {
        return Err(error);
    }
    let next = on_next_server(from, servers);
    Ok(ListPage { next, failed: Some(error), ..ListPage::default() })
}

fn on_next_server(from: ListCursor, servers: usize) -> Option<ListCursor> {
    let server = from.server + 1;
    (server < servers).then_some(ListCursor { server, at: 0 })
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn answer(cursor: &str, names: &[&str]) -> Value {
        Value::Array(vec![bulk(cursor), Value::Array(names.iter().map(|it| bulk(it)).collect())])
    }

    #[test]
    fn a_page_leads_to_the_next_one_or_to_the_next_server() {
        let all = NamePattern::new("*");
        let read = |cursor, server| {
            let from = ListCursor { server, at: 7 };
            page(&answer(cursor, &["{a}"]), &all, from, 2).unwrap().next
        };
        assert_eq!(read("12", 0), Some(ListCursor { server: 0, at: 12 }));
        assert_eq!(read("0", 0), Some(ListCursor { server: 1, at: 0 }));
        assert_eq!(read("12", 1), Some(ListCursor { server: 1, at: 12 }));
        assert_eq!(read("0", 1), None);
    }

    #[test]
    fn only_names_that_match_are_read() {
        let stored = ["{order:1}", "{order:2", "order:{3}:pdf", "{invoice:4}", "", "{%7Bx%7D}"];
        let read = |pattern| {
            let names = NamePattern::new(pattern);
            let page = page(&answer("0", &stored), &names, ListCursor::default(), 1).unwrap();
            page.keys.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(read("order:*"), ["order:1", "order:{3}:pdf"]);
        assert_eq!(read("?????:?"), ["order:1"]);
        assert_eq!(read("{x}"), ["{x}"]);
        assert_eq!(read("*"), ["order:1", "order:{3}:pdf", "invoice:4", "{x}"]);
    }

    #[test]
    fn other_answers_are_errors() {
        let all = NamePattern::new("*");
        for bad in [Value::Nil, Value::Array(vec![]), answer("x", &[]), answer("-1", &[])] {
            assert!(page(&bad, &all, ListCursor::default(), 1).is_err(), "{bad:?}");
        }
    }
}
