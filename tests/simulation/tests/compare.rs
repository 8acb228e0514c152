//! Compares the simulated server with a real one: random commands, on a clock that stands still
//! between them. Values, types, errors and expiries must be the same.
//!
//! `COMPARED` says how many commands; `LEASEHOLD_REDIS_SERVER` says with which server.
#![cfg(all(feature = "servers", target_os = "linux"))]

use std::time::Duration;

use fastrand::Rng;
use leasehold_simulation::server::session::SessionId;
use leasehold_simulation::server::{Server as Simulated, Settings};
use leasehold_tests::server::Server;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

/// The commands between two steps of the clock.
const BATCH: usize = 500;

type Args = Vec<Vec<u8>>;

#[tokio::test]
async fn random_commands_are_answered_as_by_a_real_server() {
    let count = std::env::var("COMPARED").ok().and_then(|it| it.parse().ok()).unwrap_or(20_000);
    let seed = std::env::var("SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(1);
    let (mut pair, mut rng) = (Pair::start().await, Rng::with_seed(seed));
    let mut compared = 0;
    while compared < count {
        let commands: Vec<_> = (0..BATCH).map(|_| command(&mut rng)).collect();
        pair.compare(&commands).await;
        compared += commands.len();
        pair.pass(Duration::from_millis(rng.u64(0..400)));
    }
    println!("{compared} commands were answered alike");
}

/// A real and a simulated server, at the same time of their clocks.
struct Pair {
    real: Server,
    connection: MultiplexedConnection,
    simulated: Simulated,
    session: SessionId,
    now_us: i64,
}

impl Pair {
    async fn start() -> Self {
        let real = Server::start_skewed();
        real.stop_clock();
        let mut connection = real.redis().await;
        let (seconds, micros): (i64, i64) =
            redis::cmd("TIME").query_async(&mut connection).await.unwrap();
        let now_us = seconds * 1_000_000 + micros;
        let mut simulated = Simulated::new(Settings::default(), now_us);
        let session = simulated.connect("127.0.0.1:1".to_owned());
        Self { real, connection, simulated, session, now_us }
    }

    fn pass(&mut self, time: Duration) {
        self.real.jump(time);
        self.now_us += i64::try_from(time.as_micros()).unwrap();
        self.simulated.set_clock(self.now_us);
    }

    async fn compare(&mut self, commands: &[Args]) {
        let mut pipeline = redis::pipe();
        let mut expected = Vec::new();
        for args in commands {
            let mut command = Cmd::new();
            command.arg(args.as_slice());
            self.simulated.receive(self.session, &command.get_packed_command());
            let output = self.simulated.take_output(self.session).expect("it is open");
            expected.push(redis::parse_redis_value(&output).expect("an answer"));
            pipeline.add_command(command);
        }
        let count = commands.len();
        let answers = self.connection.send_packed_commands(&pipeline, 0, count).await.unwrap();
        for ((args, expected), answer) in commands.iter().zip(expected).zip(answers) {
            let (expected, answer) = (comparable(args, expected), comparable(args, answer));
            let shown: Vec<_> = args.iter().map(|it| String::from_utf8_lossy(it)).collect();
            assert_eq!(expected, answer, "left: simulated, right: real; {shown:?}");
        }
    }
}

/// An answer without what no server promises: the order of a hash and of a scan, and the words of
/// an error that differ from version to version.
fn comparable(args: &Args, answer: Value) -> Value {
    let name = args[0].to_ascii_uppercase();
    match answer {
        Value::ServerError(error) => {
            let code = error.code().to_owned();
            let detail = error.details().unwrap_or_default();
            let in_script = name.starts_with(b"EVAL");
            let words = if in_script { known_error(detail) } else { wording(detail) };
            let code = if in_script && detail.contains("WRONGTYPE") {
                "WRONGTYPE".to_owned()
            } else {
                code
            };
            Value::SimpleString(format!("error {code} {words}"))
        }
        Value::Array(mut items) if name == b"SCAN" => {
            items[1] = sorted(items[1].clone(), 1);
            Value::Array(items)
        }
        answer if name == b"KEYS" => sorted(answer, 1),
        answer if name == b"HGETALL" => sorted(answer, 2),
        answer => answer,
    }
}

/// What remains of a script's error: servers before 7.0 wrap it, and Valkey's names no product.
fn known_error(detail: &str) -> String {
    let kinds = [
        "not an integer",
        "not a valid float",
        "not a float",
        "syntax error",
        "wrong kind",
        "Wrong number of args",
        "Unknown command",
        "out of range",
        "invalid expire",
        "at least 1 input key",
        "not compatible",
        "not a number",
        "maximum allowed size",
        "must be strings",
        "no such key",
    ];
    let detail = detail.replace("Unknown Redis command", "Unknown command");
    let found = kinds.iter().find(|kind| detail.to_lowercase().contains(&kind.to_lowercase()));
    let text = detail.split(" script: ").next().unwrap_or_default();
    found.map_or_else(|| text.to_owned(), |kind| (*kind).to_owned())
}

fn wording(detail: &str) -> String {
    let mut text = detail.replace('`', "'").replace("', ", "' ").to_lowercase();
    for (of_one, of_all) in [
        ("invalid expire time in set", "invalid expire time in 'set' command"),
        ("invalid expire time in pexpire", "invalid expire time in 'pexpire' command"),
        ("size (512mb)", "size (proto-max-bulk-len)"),
    ] {
        if text == of_one || !text.contains(of_all) {
            text = text.replace(of_one, of_all);
        }
    }
    text
}

fn sorted(answer: Value, group: usize) -> Value {
    let Value::Array(items) = answer else { return answer };
    let mut groups: Vec<_> = items.chunks(group).map(<[Value]>::to_vec).collect();
    groups.sort_by_key(|it| format!("{it:?}"));
    Value::Array(groups.concat())
}

/// A random command: mostly one that does something.
fn command(rng: &mut Rng) -> Args {
    let plain = plain_command(rng);
    if rng.u8(0..4) > 0 {
        return plain;
    }
    // As a script sees it. The order of a hash and of a scan would show.
    if ["HGETALL", "SCAN", "KEYS", "TIME"]
        .iter()
        .any(|it| plain[0].eq_ignore_ascii_case(it.as_bytes()))
    {
        return plain;
    }
    let scripts = [
        "return redis.call(unpack(ARGV))",
        "local said = redis.pcall(unpack(ARGV)) \
         if type(said) == 'table' then return {'table', said.ok or '', said.err and 'error' or '', #said} end \
         return {type(said), said}",
        "local ok, said = pcall(redis.call, unpack(ARGV)) return {ok and 1 or 0, type(said)}",
    ];
    let script = scripts[rng.usize(0..scripts.len())];
    let mut args = vec![b"EVAL".to_vec(), script.into(), b"0".to_vec()];
    args.extend(plain);
    args
}

fn plain_command(rng: &mut Rng) -> Args {
    let kind = rng.u8(0..36);
    let to = Build { rng, args: Args::new() };
    any(kind, to).args
}

/// A command under construction.
struct Build<'a> {
    rng: &'a mut Rng,
    args: Args,
}

impl Build<'_> {
    fn one_of(mut self, words: &[&str]) -> Self {
        let word = words[self.rng.usize(0..words.len())];
        self.args.push(word.into());
        self
    }

    /// With a chance of one in `n`.
    fn perhaps(self, n: u8, add: impl FnOnce(Self) -> Self) -> Self {
        if self.rng.u8(0..n) == 0 { add(self) } else { self }
    }

    fn several(mut self, most: usize, add: impl Fn(Self) -> Self) -> Self {
        for _ in 0..self.rng.usize(1..=most) {
            self = add(self);
        }
        self
    }

    fn key(self) -> Self {
        self.one_of(&["a", "b", "c", "d", "e", "f", "g{h}"])
    }

    fn member(self) -> Self {
        self.one_of(&["m", "n", "o", "p", "", "a\r\nb", "\u{0}"])
    }

    fn value(self) -> Self {
        self.one_of(&["x", "", "value", "17", "3.5", "a longer value, with spaces"])
    }

    fn score(self) -> Self {
        self.one_of(&[
            "1",
            "2",
            "2",
            "-3",
            "0",
            "1.5",
            "inf",
            "-inf",
            "1764000000123456",
            "-1000001764000000",
            "x",
            "nan",
            "",
        ])
    }

    fn limit(self) -> Self {
        self.one_of(&[
            "-inf",
            "+inf",
            "inf",
            "1",
            "(1",
            "2",
            "(2",
            "-3",
            "1.5",
            "(1764000000123456",
            "(",
            "x",
        ])
    }

    fn index(self) -> Self {
        self.one_of(&[
            "0",
            "1",
            "2",
            "-1",
            "-2",
            "-100",
            "100",
            "9223372036854775807",
            "x",
            "01",
            "",
        ])
    }

    fn millis(self) -> Self {
        self.one_of(&["1", "50", "300", "1000", "60000", "0", "-1", "x", "9223372036854775807"])
    }
}

fn any(kind: u8, to: Build<'_>) -> Build<'_> {
    match kind {
        0 | 1 => to.one_of(&["GET", "get"]).key(),
        2..=4 => to
            .one_of(&["SET"])
            .key()
            .value()
            .perhaps(2, |to| to.one_of(&["PX", "px", "EX"]).millis())
            .perhaps(3, |to| to.one_of(&["NX", "XX", "KEEPTTL", "FOO"])),
        5 => to.one_of(&["MGET"]).several(3, Build::key),
        6 | 7 => {
            to.one_of(&["SETRANGE"]).key().one_of(&["0", "3", "52", "-1", "x", "536870912"]).value()
        }
        8 => to.one_of(&["DEL", "UNLINK", "EXISTS"]).several(3, Build::key),
        9 | 10 => to.one_of(&["PEXPIRE", "pexpire"]).key().millis(),
        11 | 12 => to.one_of(&["PTTL", "TTL", "PERSIST", "TYPE"]).key(),
        13 | 14 => to.one_of(&["HSET"]).key().several(3, |to| to.member().value()),
        15 => to.one_of(&["HGET"]).key().member(),
        16 => to.one_of(&["HMGET"]).key().several(3, Build::member),
        17 => to.one_of(&["HGETALL", "HLEN", "ZCARD", "STRLEN"]).key(),
        18 => to.one_of(&["HEXISTS", "ZSCORE", "ZMSCORE"]).key().member(),
        19 => to.one_of(&["HDEL"]).key().several(3, Build::member),
        20..=23 => to
            .one_of(&["ZADD", "zadd"])
            .key()
            .perhaps(3, |to| to.one_of(&["NX", "XX", "GT", "LT", "CH", "gt"]))
            .perhaps(6, |to| to.one_of(&["NX", "XX", "GT", "LT", "CH"]))
            .several(3, |to| to.score().member()),
        24 => to.one_of(&["ZREM"]).key().several(3, Build::member),
        25 => to.one_of(&["ZINCRBY"]).key().score().member(),
        26 => to.one_of(&["ZCOUNT", "ZREMRANGEBYSCORE"]).key().limit().limit(),
        27..=29 => {
            let to = to.one_of(&["ZRANGE"]).key();
            let to = if to.rng.bool() {
                to.index().index()
            } else {
                to.limit().limit().one_of(&["BYSCORE"])
            };
            to.perhaps(3, |to| to.one_of(&["REV", "rev"]))
                .perhaps(3, |to| to.one_of(&["LIMIT", "limit"]).index().index())
                .perhaps(2, |to| to.one_of(&["WITHSCORES", "withscores"]))
        }
        30 => to.one_of(&["RENAME"]).key().key(),
        31 => to
            .one_of(&["SCAN"])
            .one_of(&["0"])
            .one_of(&["COUNT"])
            .one_of(&["1000"])
            .perhaps(2, |to| to.one_of(&["MATCH"]).one_of(&["*", "[a-c]", "g{*", "?"])),
        32 => to.one_of(&["RPUSH"]).key().several(2, Build::value),
        33 => to.one_of(&["TIME"]),
        34 => to.one_of(&["KEYS"]).one_of(&["*", "[^a]", "a", "g\\{h}"]),
        // Too few or too many arguments, or no command at all.
        _ => to
            .one_of(&["GET", "SET", "ZADD", "HSET", "PEXPIRE", "NOSUCH", "ZRANGE", "TYPE"])
            .several(2, Build::value),
    }
}

#[tokio::test]
async fn errors_are_told_apart() {
    // The comparison must not call two errors alike because it reads neither.
    let args = vec![b"GET".to_vec()];
    let read = |line: &str| comparable(&args, redis::parse_redis_value(line.as_bytes()).unwrap());
    assert_ne!(read("-ERR syntax error\r\n"), read("-ERR value is not an integer\r\n"));
    assert_ne!(read("-ERR syntax error\r\n"), read("-WRONGTYPE syntax error\r\n"));
}
