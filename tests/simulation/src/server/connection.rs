//! The commands about connections, and about the server itself.

use super::command::{check_arity, integer, is, syntax_error};
use super::replication::Role;
use super::reply::{Protocol, Reply};
use super::sentinel::Kind;
use super::session::{Activity, Session, SessionId};
use super::{Server, glob, info, pubsub, replication};

/// Returns true if a connection of RESP2 with subscriptions may send this command.
pub(super) fn is_allowed_with_subscriptions(name: &str) -> bool {
    matches!(
        name,
        "SUBSCRIBE" | "UNSUBSCRIBE" | "SSUBSCRIBE" | "SUNSUBSCRIBE" | "PING" | "QUIT" | "RESET"
    )
}

/// The number of arguments of each command, as in [`super::command`].
const ARITIES: &[(&str, i32)] = &[
    ("AUTH", -2),
    ("CLIENT", -2),
    ("CONFIG", -2),
    ("DISCARD", 1),
    ("ECHO", 2),
    ("EXEC", 1),
    ("HELLO", -1),
    ("INFO", -1),
    ("MULTI", 1),
    ("PING", -1),
    ("PUBSUB", -2),
    ("QUIT", -1),
    ("ROLE", 1),
    ("SELECT", 2),
    ("SSUBSCRIBE", -2),
    ("SUBSCRIBE", -2),
    ("SUNSUBSCRIBE", -1),
    ("UNSUBSCRIBE", -1),
    ("WAIT", 3),
];

/// Refuses a subcommand that the user may not call, and commands that look nowhere else.
pub(super) fn lacks_right(server: &Server, name: &str, args: &[Vec<u8>]) -> Option<Reply> {
    let core = server.core.borrow();
    if core.condition.forbidden.is_empty() {
        return None;
    }
    let subcommand = args.get(1).map(|it| String::from_utf8_lossy(it).to_uppercase());
    let whole = subcommand.map(|it| format!("{name}|{it}")).unwrap_or_default();
    let is_elsewhere = !matches!(name, "ASKING" | "CLUSTER" | "SENTINEL");
    let name = if is_elsewhere { "" } else { name };
    core.allow_name(&whole, false).and(core.allow_name(name, false)).err()
}

/// The answer to a command about connections.
pub(super) enum Answered {
    Reply(Reply),
    /// By messages alone, or later.
    Messages,
}

/// Runs a command of this file; `None` if it is not one.
pub(super) fn run(
    server: &mut Server,
    id: SessionId,
    name: &str,
    args: &[Vec<u8>],
) -> Option<Answered> {
    let (_, arity) = *ARITIES.iter().find(|(known, _)| *known == name)?;
    if let Err(error) = check_arity(name, arity, args) {
        return Some(Answered::Reply(error));
    }
    if let Err(refusal) = server.core.borrow().allow_name(name, false) {
        return Some(Answered::Reply(refusal));
    }
    let reply = match name {
        "SUBSCRIBE" | "SSUBSCRIBE" => {
            pubsub::subscribe(server, id, name, &args[1..]);
            return Some(Answered::Messages);
        }
        "UNSUBSCRIBE" | "SUNSUBSCRIBE" => {
            pubsub::unsubscribe(server, id, name, &args[1..]);
            return Some(Answered::Messages);
        }
        "AUTH" => authenticate(server, id, &args[1..]),
        "CLIENT" => client(server, id, args),
        "CONFIG" => config(server, args),
        "DISCARD" | "EXEC" | "MULTI" => transaction(server, id, name),
        "ECHO" => Ok(Reply::Bulk(args[1].clone())),
        "HELLO" => hello(server, id, &args[1..]),
        "INFO" => Ok(Reply::text(info::info(server, &args[1..]))),
        "PING" => Ok(ping(server.session(id), args.get(1))),
        "PUBSUB" => pubsub::pubsub(server, args),
        "QUIT" => {
            server.session(id).is_closed = true;
            Ok(Reply::Ok)
        }
        "ROLE" => Ok(replication::describe_role(server)),
        "SELECT" if args[1] != b"0" && server.core.borrow().cluster.is_some() => {
            Err(Reply::error("ERR SELECT is not allowed in cluster mode"))
        }
        "SELECT" => select(server.session(id), &args[1]),
        _ => match replication::wait(server, id, args) {
            Some(answer) => answer,
            None => return Some(Answered::Messages),
        },
    };
    Some(Answered::Reply(reply.unwrap_or_else(|error| error)))
}

fn ping(session: &Session, message: Option<&Vec<u8>>) -> Reply {
    if session.is_for_messages_only() {
        let message = message.cloned().unwrap_or_default();
        return Reply::Array(vec![Reply::text("pong"), Reply::Bulk(message)]);
    }
    message.map_or(Reply::simple("PONG"), |message| Reply::Bulk(message.clone()))
}

fn select(session: &mut Session, database: &[u8]) -> Result<Reply, Reply> {
    let invalid = |_| Reply::error("ERR value is not an integer or out of range");
    let number = integer(database).map_err(invalid)?;
    let out_of_range = || Reply::error("ERR DB index is out of range");
    session.database = u8::try_from(number).ok().filter(|it| *it < 16).ok_or_else(out_of_range)?;
    Ok(Reply::Ok)
}

fn authenticate(server: &mut Server, id: SessionId, args: &[Vec<u8>]) -> Result<Reply, Reply> {
    let wrong = || Reply::error("WRONGPASS invalid username-password pair or user is disabled.");
    let (user, password) = match args {
        [password] => (&b"default"[..], password),
        [user, password] => (user.as_slice(), password),
        _ => return Err(syntax_error()),
    };
    match &server.settings.password {
        None if args.len() == 1 => {
            let text = "ERR AUTH <password> called without any password configured for the \
                        default user. Are you sure your configuration is correct?";
            return Err(Reply::error(text));
        }
        None if user != b"default" => return Err(wrong()),
        Some(right) if user != b"default" || right.as_bytes() != password.as_slice() => {
            return Err(wrong());
        }
        _ => {}
    }
    server.session(id).is_authenticated = true;
    Ok(Reply::Ok)
}

fn hello(server: &mut Server, id: SessionId, args: &[Vec<u8>]) -> Result<Reply, Reply> {
    let mut protocol = None;
    let mut rest = args.iter();
    if let Some(version) = rest.next() {
        protocol = Some(match version.as_slice() {
            b"2" => Protocol::Resp2,
            b"3" => Protocol::Resp3,
            _ => return Err(Reply::error("NOPROTO unsupported protocol version")),
        });
    }
    let mut name = None;
    while let Some(option) = rest.next() {
        if is(option, "AUTH") && rest.len() >= 2 {
            let pair = [rest.next(), rest.next()].map(|it| it.cloned().unwrap_or_default());
            authenticate(server, id, &pair)?;
        } else if is(option, "SETNAME") && rest.len() >= 1 {
            name = rest.next();
        } else {
            return Err(syntax_error());
        }
    }
    if !server.session(id).is_authenticated {
        let text = "NOAUTH HELLO must be called with the client already authenticated, otherwise \
                    the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the \
                    client and select the RESP protocol version at the same time";
        return Err(Reply::error(text));
    }
    let version = server.settings.version.clone();
    let role = if server.role() == Role::Master { "master" } else { "replica" };
    let (mode, is_sentinel) = (server.mode(), matches!(server.kind, Kind::Sentinel(_)));
    let session = server.session(id);
    session.protocol = protocol.unwrap_or(session.protocol);
    if let Some(name) = name {
        session.name = String::from_utf8_lossy(name).into_owned();
    }
    let protocol = if session.protocol == Protocol::Resp3 { 3 } else { 2 };
    let pairs = [
        ("server", Reply::text("redis")),
        ("version", Reply::text(version)),
        ("proto", Reply::Int(protocol)),
        ("id", Reply::Int(i64::try_from(id).expect("not that many"))),
        ("mode", Reply::text(mode)),
        ("role", Reply::text(role)),
        ("modules", Reply::Array(Vec::new())),
    ];
    let said = pairs.into_iter().filter(|(name, _)| !is_sentinel || *name != "role");
    Ok(Reply::Map(said.map(|(name, value)| (Reply::text(name), value)).collect()))
}

fn client(server: &mut Server, id: SessionId, args: &[Vec<u8>]) -> Result<Reply, Reply> {
    let (now_us, port) = (server.now_us(), server.settings.port);
    let subcommand = String::from_utf8_lossy(&args[1]).to_uppercase();
    Ok(match (subcommand.as_str(), &args[2..]) {
        ("ID", []) => Reply::Int(i64::try_from(id).expect("not that many")),
        ("INFO", []) => Reply::text(server.session(id).describe(now_us, port) + "\n"),
        ("LIST", _) => {
            let lines = server.sessions.values().map(|it| it.describe(now_us, port) + "\n");
            Reply::text(lines.collect::<String>())
        }
        ("GETNAME", []) => Reply::text(server.session(id).name.clone()),
        ("SETNAME", [name]) => {
            server.session(id).name = String::from_utf8_lossy(name).into_owned();
            Reply::Ok
        }
        ("SETINFO", [_, _]) => Reply::Ok,
        ("KILL", _) if !server.settings.may_kill => {
            let text = "NOPERM User default has no permissions to run the 'client|kill' command";
            return Err(Reply::error(text));
        }
        ("KILL", filters) => kill(server, id, filters)?,
        _ => {
            let text = format!(
                "ERR unknown subcommand '{}'. Try CLIENT HELP.",
                String::from_utf8_lossy(&args[1])
            );
            return Err(Reply::Error(text));
        }
    })
}

/// Closes the connections that fit all filters; not its own, unless it is asked to.
fn kill(server: &mut Server, own: SessionId, filters: &[Vec<u8>]) -> Result<Reply, Reply> {
    let (pairs, rest) = filters.as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return Err(syntax_error());
    }
    let (mut wanted_id, mut wanted_address, mut skips_own) = (None, None, true);
    for [filter, value] in pairs {
        if is(filter, "ID") {
            let invalid = || Reply::error("ERR client-id should be greater than 0");
            let id = integer(value).ok().and_then(|it| u64::try_from(it).ok());
            wanted_id = Some(id.filter(|it| *it > 0).ok_or_else(invalid)?);
        } else if is(filter, "ADDR") {
            wanted_address = Some(String::from_utf8_lossy(value).into_owned());
        } else if is(filter, "SKIPME") {
            skips_own = is(value, "YES");
        } else {
            return Err(syntax_error());
        }
    }
    let fits = |session: &&mut Session| {
        wanted_id.is_none_or(|id| session.id == id)
            && wanted_address.as_ref().is_none_or(|address| session.address == *address)
            && !(skips_own && session.id == own)
            && !session.is_closed
    };
    let mut count = 0;
    for session in server.sessions.values_mut().filter(fits) {
        // What it has sent is not read any more, and what it was to get is not written.
        session.output.clear();
        session.is_closed = true;
        count += 1;
    }
    Ok(Reply::Int(count))
}

fn config(server: &mut Server, args: &[Vec<u8>]) -> Result<Reply, Reply> {
    let text = |arg: &Vec<u8>| String::from_utf8_lossy(arg).to_lowercase();
    if is(&args[1], "GET") && args.len() > 2 {
        let settings = server.settings.config.iter();
        let fits = |name: &str| {
            args[2..].iter().any(|it| glob::fits(text(it).as_bytes(), name.as_bytes()))
        };
        let found = settings.filter(|(name, _)| fits(name));
        return Ok(Reply::Map(
            found.map(|(name, value)| (Reply::text(name), Reply::text(value))).collect(),
        ));
    }
    let (pairs, rest) = args[2..].as_chunks::<2>();
    if is(&args[1], "SET") && !pairs.is_empty() && rest.is_empty() {
        for [name, value] in pairs {
            let (name, value) = (text(name), String::from_utf8_lossy(value).into_owned());
            match name.as_str() {
                // A simulated server has no memory to measure: any limit is reached at once.
                "maxmemory" => server.core.borrow_mut().condition.is_full = value != "0",
                "requirepass" => {
                    server.settings.password = Some(value.clone()).filter(|it| !it.is_empty());
                }
                _ => {}
            }
            server.settings.config.insert(name, value);
        }
        return Ok(Reply::Ok);
    }
    if is(&args[1], "RESETSTAT") {
        return Ok(Reply::Ok);
    }
    Err(Reply::Error(format!("ERR unknown subcommand '{}'. Try CONFIG HELP.", text(&args[1]))))
}

fn transaction(server: &mut Server, id: SessionId, name: &str) -> Result<Reply, Reply> {
    let session = server.session(id);
    match (name, session.transaction.take()) {
        ("MULTI", None) => {
            session.transaction = Some(Vec::new());
            Ok(Reply::Ok)
        }
        ("MULTI", open) => {
            session.transaction = open;
            Err(Reply::error("ERR MULTI calls can not be nested"))
        }
        ("DISCARD", Some(_)) => Ok(Reply::Ok),
        ("EXEC", Some(commands)) => {
            session.activity = Activity::InTransaction;
            let answers = commands.iter().filter_map(|args| {
                let name = String::from_utf8_lossy(&args[0]).to_uppercase();
                server.run(id, &name, args)
            });
            let answers = answers.collect();
            server.session(id).activity = Activity::Ready;
            Ok(Reply::Array(answers))
        }
        (name, _) => Err(Reply::Error(format!("ERR {name} without MULTI"))),
    }
}
