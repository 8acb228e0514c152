//! The keys, and the sharded channels, that a command names.

use super::command::integer;

/// Those of a command with a right number of arguments.
pub(super) fn keys<'a>(name: &str, args: &'a [Vec<u8>]) -> Vec<&'a [u8]> {
    let all = |from: usize, count: usize| {
        args.iter().skip(from).take(count).map(Vec::as_slice).collect::<Vec<_>>()
    };
    let counted = |at: usize| {
        let count = args.get(at).and_then(|it| integer(it).ok());
        let count = count.and_then(|it| usize::try_from(it).ok());
        count.filter(|it| *it < args.len() - at).unwrap_or(0)
    };
    match name {
        "DBSIZE" | "FLUSHALL" | "KEYS" | "SCAN" | "TIME" | "PUBLISH" => Vec::new(),
        "DEL" | "EXISTS" | "MGET" | "SSUBSCRIBE" | "SUNSUBSCRIBE" | "UNLINK" => all(1, args.len()),
        "EVAL" | "EVALSHA" => all(3, counted(2)),
        "RENAME" => all(1, 2),
        "SPUBLISH" => all(1, 1),
        name if super::command::find(name.as_bytes()).is_some() => all(1, 1),
        _ => Vec::new(),
    }
}
