//! The commands on data: which there are, how many arguments each takes, and what it may do.

use super::keyspace::{Keyspace, wrong_type};
use super::reply::Reply;
use super::{hashes, keys, sorted_sets, strings};

/// What a command works on.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) keyspace: &'a mut Keyspace,
    /// The server's clock. It stands still during a command, and during a script.
    pub(super) now_us: i64,
}

impl Context<'_> {
    pub(super) fn now_ms(&self) -> i64 {
        self.now_us.div_euclid(1000)
    }
}

/// An answer, or an error as the other case.
pub(super) type Answer = Result<Reply, Reply>;

type Run = fn(&mut Context<'_>, &[Vec<u8>]) -> Answer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Reads,
    Writes,
    /// It may take up memory, and is refused when that is full.
    Grows,
}

/// A command on data.
#[derive(Clone, Copy)]
pub(super) struct Command {
    pub(super) name: &'static str,
    /// The number of arguments with the name; negative: at least so many.
    arity: i32,
    pub(super) access: Access,
    run: Run,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const fn command(name: &'static str, arity: i32, access: Access, run: Run) -> Command {
    Command { name, arity, access, run }
}

const COMMANDS: &[Command] = &[
    command("DBSIZE", 1, Access::Reads, keys::dbsize),
    command("DEL", -2, Access::Writes, keys::del),
    command("EXISTS", -2, Access::Reads, keys::exists),
    command("FLUSHALL", -1, Access::Writes, keys::flush),
    command("GET", 2, Access::Reads, strings::get),
    command("HDEL", -3, Access::Writes, hashes::hdel),
    command("HEXISTS", 3, Access::Reads, hashes::hexists),
    command("HGET", 3, Access::Reads, hashes::hget),
    command("HGETALL", 2, Access::Reads, hashes::hgetall),
    command("HLEN", 2, Access::Reads, hashes::hlen),
    command("HMGET", -3, Access::Reads, hashes::hmget),
    command("HSET", -4, Access::Grows, hashes::hset),
    command("KEYS", 2, Access::Reads, keys::keys),
    command("MGET", -2, Access::Reads, strings::mget),
    command("PERSIST", 2, Access::Writes, keys::persist),
    command("PEXPIRE", 3, Access::Writes, keys::pexpire),
    command("PTTL", 2, Access::Reads, keys::pttl),
    command("RENAME", 3, Access::Writes, keys::rename),
    command("RPUSH", -3, Access::Grows, keys::rpush),
    command("SCAN", -2, Access::Reads, keys::scan),
    command("SET", -3, Access::Grows, strings::set),
    command("SETRANGE", 4, Access::Grows, strings::setrange),
    command("STRLEN", 2, Access::Reads, strings::strlen),
    command("TIME", 1, Access::Reads, keys::time),
    command("TTL", 2, Access::Reads, keys::ttl),
    command("TYPE", 2, Access::Reads, keys::type_of),
    command("UNLINK", -2, Access::Writes, keys::del),
    command("ZADD", -4, Access::Grows, sorted_sets::zadd),
    command("ZCARD", 2, Access::Reads, sorted_sets::zcard),
    command("ZCOUNT", 4, Access::Reads, sorted_sets::zcount),
    command("ZINCRBY", 4, Access::Grows, sorted_sets::zincrby),
    command("ZMSCORE", -3, Access::Reads, sorted_sets::zmscore),
    command("ZRANGE", -4, Access::Reads, sorted_sets::zrange),
    command("ZREM", -3, Access::Writes, sorted_sets::zrem),
    command("ZREMRANGEBYSCORE", 4, Access::Writes, sorted_sets::zremrangebyscore),
    command("ZSCORE", 3, Access::Reads, sorted_sets::zscore),
];

/// Finds a command on data by the name that a client sent.
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    let name = name.to_ascii_uppercase();
    let at = COMMANDS.binary_search_by(|it| it.name.as_bytes().cmp(&name)).ok()?;
    COMMANDS.get(at)
}

impl Command {
    /// Returns an error if the number of arguments is wrong.
    pub(super) fn check(&self, args: &[Vec<u8>]) -> Result<(), Reply> {
        check_arity(self.name, self.arity, args)
    }

    pub(super) fn run(&self, context: &mut Context<'_>, args: &[Vec<u8>]) -> Reply {
        (self.run)(context, args).unwrap_or_else(|error| error)
    }
}

pub(super) fn check_arity(name: &str, arity: i32, args: &[Vec<u8>]) -> Result<(), Reply> {
    let count = i32::try_from(args.len()).expect("not that many");
    if count == arity || arity < 0 && count >= -arity {
        return Ok(());
    }
    let name = name.to_ascii_lowercase();
    Err(Reply::error(format!("ERR wrong number of arguments for '{name}' command")))
}

/// The number in an argument, as the server reads it: without a `+` and leading zeros.
pub(super) fn integer(arg: &[u8]) -> Result<i64, Reply> {
    let error = || Reply::error("ERR value is not an integer or out of range");
    let text = std::str::from_utf8(arg).map_err(|_| error())?;
    let number: i64 = text.parse().map_err(|_| error())?;
    if number.to_string() == text { Ok(number) } else { Err(error()) }
}

/// The score in an argument.
pub(super) fn float(arg: &[u8], error: &'static str) -> Result<f64, Reply> {
    let number = std::str::from_utf8(arg).ok().and_then(|text| text.parse::<f64>().ok());
    number.filter(|number| !number.is_nan()).ok_or_else(|| Reply::error(error))
}

pub(super) fn syntax_error() -> Reply {
    Reply::error("ERR syntax error")
}

/// Returns true if an argument is this word, in capitals or not.
pub(super) fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// For a command that makes a new value in place of any other.
pub(super) fn must_be_absent_or<T: super::keyspace::Typed>(
    context: &mut Context<'_>,
    key: &[u8],
) -> Result<bool, Reply> {
    let now_ms = context.now_ms();
    match context.keyspace.get(key, now_ms) {
        None => Ok(false),
        Some(entry) => T::of(&mut entry.value).map(|_| true).ok_or_else(wrong_type),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_in_order() {
        assert!(COMMANDS.is_sorted_by(|one, other| one.name < other.name));
        assert!(COMMANDS.iter().all(|it| find(it.name.to_lowercase().as_bytes()).is_some()));
    }

    #[test]
    fn integers_are_read_strictly() {
        for text in ["", "+1", "01", "-0", "1.0", " 1", "9223372036854775808"] {
            assert!(integer(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(integer(b"-9223372036854775808"), Ok(i64::MIN));
    }
}
