//! Servers that answer oddly for a while, or what stands before them: providers, proxies, and nodes that
//! send clients to the wrong place.

use std::net::SocketAddr;

use fastrand::Rng;

use super::director::Director;
use super::faults::Fault;
use crate::network::Micros;
use crate::server::odd::{Ending, Oddity, Redirect};
use crate::server::reply::Reply;

/// What a user needs in each deployment. These are refused more often than others: much depends on them.
const FIRST_RIGHTS: [&str; 4] = ["PUBLISH", "SUBSCRIBE", "EVALSHA", "CLIENT"];

/// What a client asks when it connects, and now and then.
const SELDOM: [&str; 6] = ["CLIENT|INFO", "CLIENT|KILL", "CLIENT|SETINFO", "INFO", "EVAL", "SCAN"];
const SELDOM_ON_QUORUM: [&str; 2] = ["ROLE", "CONFIG"];
const SELDOM_BY_SENTINEL: [&str; 3] = ["ROLE", "WAIT", "SENTINEL"];
const SELDOM_ON_CLUSTER: [&str; 4] = ["CLUSTER|SLOTS", "ASKING", "PING", "SUNSUBSCRIBE"];

/// What the scripts call.
const IN_SCRIPTS: [&str; 26] = [
    "EXISTS",
    "GET",
    "HDEL",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HSET",
    "MGET",
    "PEXPIRE",
    "PTTL",
    "RENAME",
    "SCAN",
    "SET",
    "SETRANGE",
    "TIME",
    "UNLINK",
    "ZADD",
    "ZCARD",
    "ZCOUNT",
    "ZINCRBY",
    "ZMSCORE",
    "ZRANGE",
    "ZREM",
    "ZREMRANGEBYSCORE",
    "ZSCORE",
    "PUBLISH",
];

/// What providers say of a quota that is used up, and proxies of servers that they can't reach.
const QUOTAS: [&str; 5] = [
    "ERR max daily request limit exceeded. Limit: 10000, Usage: 10001.",
    "ERR max requests limit exceeded. Limit: 500000, Usage: 500000. See \
     https://upstash.com/docs/redis/troubleshooting/max_requests_limit for details",
    "ERR max request size exceeded. Limit: 1048576 bytes, Actual: 1048577 bytes.",
    "no upstream host",
    "upstream failure",
];

/// What is said before a new connection is closed.
const TURNS_AWAY: [&str; 2] = [
    "ERR max number of clients reached",
    "ERR max number of clients + cluster connections reached",
];

const PROTECTED: &str = "DENIED Redis is running in protected mode because protected mode is enabled \
                         and no password is set for the default user. In this mode connections are only \
                         accepted from the loopback interface.";

/// How servers that are old, or proxies, refuse `HELLO`.
const NO_HELLO: [&str; 4] = [
    "ERR unknown command 'HELLO'",
    "ERR unknown command `HELLO`, with args beginning with: `3`, ",
    "NOPROTO sorry, this protocol version is not supported.",
    "ERR unsupported command 'hello'",
];

const NO_CLIENT: [(&str, &str); 4] = [
    ("", "ERR unknown command 'CLIENT', with args beginning with: 'SETINFO' "),
    ("SETINFO", "ERR unknown subcommand 'SETINFO'. Try CLIENT HELP."),
    ("INFO", "ERR Unknown subcommand or wrong number of arguments for 'INFO'. Try CLIENT HELP."),
    ("KILL", "ERR unknown subcommand 'KILL'. Try CLIENT HELP."),
];

const NOT_YET: [&str; 3] = [
    "LOADING Redis is loading the dataset in memory",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
];

const REFUSED_ON_CLUSTER: [&str; 3] = [
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "CLUSTERDOWN Hash slot not served",
    "CLUSTERDOWN The cluster is down",
];

/// Where nobody is.
const NOBODY: &str = "10.0.0.99:6379";

/// A client asks a server of a quorum for its uptime again after so long, where that was not said.
const ASKS_UPTIME: Micros = 10_500_000;

fn one_of<T: Clone>(all: &[T], rng: &mut Rng) -> T {
    all[rng.usize(..all.len())].clone()
}

/// A server answers oddly for a while, or its user lacks a right. Returns when that is over.
pub(super) fn happen(fault: Fault, director: &mut Director, time: Micros, rng: &mut Rng) -> Micros {
    let (now, any) = (director.now(), director.any_host(rng));
    let (host, oddity) = match fault {
        Fault::Quotas => (any, quota(rng)),
        Fault::FirstWords => (any, first_words(rng)),
        Fault::Proxies => (any, proxy(rng)),
        Fault::NoScripts => {
            (director.any_with_data(rng), Oddity::ForgetsScripts(one_of(&[3, 10], rng)))
        }
        Fault::Redirects if !director.servers.is_cluster() => return now,
        Fault::Redirects => (director.any_with_data(rng), redirect(director, rng)),
        _ => {
            lack_a_right(director, time, rng);
            return now + time;
        }
    };
    let ends = match fault {
        Fault::FirstWords => true,
        Fault::Quotas => rng.bool() || matches!(oddity, Oddity::TurnsAway(_)),
        _ => false,
    };
    begin(director, host, oddity, time, rng);
    if ends {
        // It is seen on new connections.
        director.network().host(host).server.end_connections();
    }
    let asks = if director.is_quorum() && fault != Fault::Proxies { ASKS_UPTIME } else { 0 };
    director.took(fault, now + time + asks);
    now + time
}

fn begin(director: &mut Director, host: SocketAddr, oddity: Oddity, time: Micros, rng: &mut Rng) {
    director.say(&format!("{host} is odd: {oddity:?}"));
    director.network().host(host).server.begin_oddity(oddity.clone(), rng.fork());
    director.later(director.now() + time, move |network| {
        let count = network.host(host).server.end_oddity(&oddity);
        network.say(&format!("{host} was odd {count} times: {oddity:?}"));
    });
}

fn quota(rng: &mut Rng) -> Oddity {
    match rng.u8(..4) {
        0 => Oddity::TurnsAway(one_of(&TURNS_AWAY, rng).to_owned()),
        _ => Oddity::Refuses(one_of(&QUOTAS, rng).to_owned()),
    }
}

fn first_words(rng: &mut Rng) -> Oddity {
    match rng.u8(..5) {
        0 => Oddity::TurnsAway(PROTECTED.to_owned()),
        1 => {
            let text = one_of(&NO_HELLO, rng).to_owned();
            Oddity::Lacks { command: "HELLO", subcommand: "", text }
        }
        2 => {
            let (subcommand, text) = one_of(&NO_CLIENT, rng);
            Oddity::Lacks { command: "CLIENT", subcommand, text: text.to_owned() }
        }
        3 => Oddity::RefusesFirst { count: rng.u32(1..10), text: one_of(&NOT_YET, rng).to_owned() },
        _ => {
            let (nothing, empty) = (Reply::Array(vec![]), Reply::text(""));
            Oddity::WrongType(one_of(&[Reply::Nil, Reply::Int(1), Reply::Ok, nothing, empty], rng))
        }
    }
}

fn proxy(rng: &mut Rng) -> Oddity {
    if rng.u8(..3) == 0 {
        return Oddity::EndsIdle(rng.i64(20_000..1_500_000));
    }
    let ending = one_of(&[Ending::Answered, Ending::NotRun, Ending::Unanswered], rng);
    Oddity::EndsAfter { count: rng.u32(5..40), ending }
}

/// A node sends clients elsewhere: to any other, to itself, or to where nobody is.
fn redirect(director: &Director, rng: &mut Rng) -> Oddity {
    let often = one_of(&[3, 10], rng);
    let node = director.any_with_data(rng).to_string();
    let place = match rng.u8(..8) {
        0 => NOBODY.to_owned(),
        // The host that the client knows.
        1 => ":6379".to_owned(),
        2 => "?:6379".to_owned(),
        _ => node.clone(),
    };
    let to = match rng.u8(..10) {
        0..=3 => Redirect::Moved(place),
        4 | 5 => Redirect::Ask(place),
        6 => Redirect::OtherSlot(node),
        7 | 8 => Redirect::Refused(one_of(&REFUSED_ON_CLUSTER, rng)),
        _ => {
            let disabled = Reply::error("ERR This instance has cluster support disabled");
            return Oddity::Slots(one_of(&[Reply::Array(vec![]), Reply::Nil, disabled], rng));
        }
    };
    Oddity::Redirects { often, to }
}

/// The user may not call some command.
fn lack_a_right(director: &mut Director, time: Micros, rng: &mut Rng) {
    let (now, is_cluster) = (director.now(), director.servers.is_cluster());
    let word = match rng.u8(..4) {
        0 | 1 => one_of(&FIRST_RIGHTS, rng),
        2 => {
            let others = if director.is_quorum() {
                &SELDOM_ON_QUORUM[..]
            } else if is_cluster {
                &SELDOM_ON_CLUSTER[..]
            } else if director.is_group() {
                &SELDOM_BY_SENTINEL[..]
            } else {
                &[][..]
            };
            one_of(&[&SELDOM, others].concat(), rng)
        }
        _ => one_of(&IN_SCRIPTS, rng),
    };
    // A cluster has commands of its own for messages.
    let word = match word {
        "PUBLISH" if is_cluster => "SPUBLISH",
        "SUBSCRIBE" if is_cluster => "SSUBSCRIBE",
        word => word,
    };
    let data = director.servers.data().to_vec();
    let host = if word == "SENTINEL" {
        let all = director.network().addresses();
        one_of(&all.into_iter().filter(|it| !data.contains(it)).collect::<Vec<_>>(), rng)
    } else {
        director.any_with_data(rng)
    };
    director.say(&format!("{host}: the user lacks the right to {word}"));
    let before = {
        let mut network = director.network();
        let server = &mut network.host(host).server;
        if word == "EVAL" {
            // Who knows all scripts does not need it.
            server.forget_scripts();
        }
        // Some rights are needed on new connections alone.
        if !IN_SCRIPTS.contains(&word) && rng.bool() {
            server.end_connections();
        }
        server.core().borrow().condition.refusals.get()
    };
    director.network().host(host).forbid(word, true);
    director.later(now + time, move |network| {
        let host_now = network.host(host);
        host_now.forbid(word, false);
        let after = host_now.server.core().borrow().condition.refusals.get();
        let count = after.saturating_sub(before);
        network.say(&format!("{host}: {word} was refused {count} times"));
    });
    director.took(Fault::Rights, director.now() + time);
}
