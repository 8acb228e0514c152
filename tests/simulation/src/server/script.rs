//! Scripts: they are run by the same Lua as in a real server, as they are sent.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, Variadic, VmState};

use super::core::{Core, Script, Slots};
use super::reply::{Reply, format_double};

/// The scripts that the server knows.
pub(super) struct Scripts {
    lua: Lua,
    core: Rc<RefCell<Core>>,
    /// Calls a script with its keys and arguments, and catches its error.
    run: Function,
    known: BTreeMap<String, Known>,
    /// Planted mistakes: texts in the scripts, and what is run in their place.
    altered: Vec<(String, String)>,
    running: Rc<Cell<Running>>,
    /// How many millions of instructions the running script has taken, if scripts are altered.
    millions: Rc<Cell<u32>>,
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scripts").field(&self.known.keys()).finish()
    }
}

#[derive(Clone)]
struct Known {
    function: Function,
    flags: Flags,
}

/// What a script's first line says about it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flags {
    /// It has no such line: each of its writes is checked.
    None,
    Some {
        may_write: bool,
        allows_full: bool,
        slots: Slots,
    },
}

/// No script takes as many millions of instructions.
const MOST_MILLIONS: u32 = 3;

/// The call that is running.
#[derive(Clone, Copy, Default)]
struct Running {
    database: u8,
    script: Script,
}

/// Defines `redis`, forbids new globals, and returns the function that runs a script.
const PRELUDE: &str = r"
local ask, sha1hex = ...
local redis = {sha1hex = sha1hex, LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3}
function redis.log() end
function redis.pcall(...) return ask(...) end
function redis.call(...)
  local said = ask(...)
  if type(said) == 'table' and said.err then error(said, 0) end
  return said
end
function redis.error_reply(text)
  if string.sub(text, 1, 1) == '-' then text = string.sub(text, 2) end
  return {err = string.find(text, ' ', 1, true) and text or 'ERR ' .. text}
end
function redis.status_reply(text) return {ok = text} end
rawset(_G, 'redis', redis)
local pcall, rawset = pcall, rawset
-- A caught error is a string, as it was before Redis 7.0.
local function caught(ok, said, ...)
  if not ok and type(said) == 'table' then said = said.err end
  return ok, said, ...
end
rawset(_G, 'pcall', function(...) return caught(pcall(...)) end)
local function unknown(_, name) error('Script attempted to access nonexistent global variable ' .. tostring(name), 2) end
local function forbidden() error('Attempt to modify a readonly table', 2) end
setmetatable(_G, {__index = unknown, __newindex = forbidden})
return function(script, keys, args)
  rawset(_G, 'KEYS', keys)
  rawset(_G, 'ARGV', args)
  return pcall(script)
end
";

impl Scripts {
    pub(super) fn new(core: Rc<RefCell<Core>>) -> Self {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default()).expect("Lua starts");
        let running = Rc::new(Cell::new(Running::default()));
        let run = prepare(&lua, core.clone(), running.clone()).expect("the prelude runs");
        Self {
            lua,
            core,
            run,
            known: BTreeMap::new(),
            altered: Vec::new(),
            running,
            millions: Rc::default(),
        }
    }

    pub(super) fn knows(&self, hash: &str) -> bool {
        self.known.contains_key(&hash.to_lowercase())
    }

    pub(super) fn forget_all(&mut self) {
        self.known.clear();
    }

    /// From now on, scripts are compiled with one text in the place of another. Their hashes stay.
    pub(super) fn alter(&mut self, from: &str, to: &str) {
        self.altered.push((from.to_owned(), to.to_owned()));
        // One without a mistake comes to an end.
        let millions = self.millions.clone();
        let limit = move |_: &Lua, _: &mlua::debug::Debug<'_>| {
            millions.set(millions.get() + 1);
            if millions.get() > MOST_MILLIONS {
                return Err(mlua::Error::runtime("the script does not end"));
            }
            Ok(VmState::Continue)
        };
        let each = HookTriggers::new().every_nth_instruction(1_000_000);
        self.lua.set_hook(each, limit).expect("Lua takes a hook");
    }

    /// Compiles a script, and returns its hash.
    pub(super) fn load(&mut self, body: &[u8]) -> Result<String, Reply> {
        let hash = sha1_smol::Sha1::from(body).digest().to_string();
        if self.known.contains_key(&hash) {
            return Ok(hash);
        }
        let (flags, mut code) = first_line(body)?;
        for (from, to) in &self.altered {
            code = String::from_utf8_lossy(&code).replace(from, to).into_bytes();
        }
        let compiled = self.lua.load(code).set_name("@user_script").into_function();
        let function = compiled.map_err(|error| {
            let text = one_line(&error.to_string());
            Reply::Error(format!("ERR Error compiling script (new function): {text}"))
        })?;
        self.known.insert(hash.clone(), Known { function, flags });
        Ok(hash)
    }

    /// Runs a known script. `rest` are the number of keys, the keys and the arguments.
    pub(super) fn call(&mut self, database: u8, hash: &str, rest: &[Vec<u8>]) -> Reply {
        let hash = hash.to_lowercase();
        let Some(Known { function, flags }) = self.known.get(&hash).cloned() else {
            return Reply::error("NOSCRIPT No matching script. Please use EVAL.");
        };
        let (keys, args) = match divide(rest) {
            Ok(parts) => parts,
            Err(error) => return error,
        };
        let script = match self.admit(flags) {
            Ok(script) => script,
            Err(refusal) => return refusal,
        };
        self.running.set(Running { database, script });
        self.millions.set(0);
        let (keys, args) = (self.table(keys), self.table(args));
        match self.run.call::<(bool, Value)>((function, keys, args)) {
            Ok((true, value)) => from_lua(&value),
            Ok((false, error)) => thrown(&error, &hash),
            Err(error) => Reply::Error(format!("ERR {}", one_line(&error.to_string()))),
        }
    }

    /// Checks a script's flags against the server's condition.
    fn admit(&self, flags: Flags) -> Result<Script, Reply> {
        let core = self.core.borrow();
        let Flags::Some { may_write, allows_full, slots } = flags else {
            return Ok(Script { may_write: true, slots: Slots::Any, ..Script::default() });
        };
        if core.is_replica() && may_write {
            return Err(super::core::read_only());
        }
        if core.condition.is_full && may_write && !allows_full {
            return Err(super::core::full());
        }
        Ok(Script { may_write, allows_full, slots, has_written: false })
    }

    fn table(&self, values: &[Vec<u8>]) -> Table {
        let strings = values.iter().map(|value| self.lua.create_string(value));
        let strings = strings.collect::<Result<Vec<_>, _>>().expect("there is memory");
        self.lua.create_sequence_from(strings).expect("there is memory")
    }
}

fn prepare(
    lua: &Lua,
    core: Rc<RefCell<Core>>,
    running: Rc<Cell<Running>>,
) -> mlua::Result<Function> {
    let ask = lua.create_function(move |lua, args: Variadic<Value>| {
        let args = args.iter().map(argument).collect::<Option<Vec<_>>>();
        let reply = match args {
            None => {
                let text = "ERR Lua redis lib command arguments must be strings or integers";
                Reply::error(text)
            }
            Some(args) if args.is_empty() => {
                Reply::error("ERR Please specify at least one argument for this redis.call() call")
            }
            Some(args) => {
                let Running { database, mut script } = running.get();
                let reply = core.borrow_mut().execute(database, &args, Some(&mut script));
                running.set(Running { database, script });
                reply
                    .unwrap_or_else(|| Reply::error("ERR Unknown Redis command called from script"))
            }
        };
        to_lua(lua, &reply)
    })?;
    let sha1hex = lua.create_function(|_, text: mlua::LuaString| {
        Ok(sha1_smol::Sha1::from(&*text.as_bytes()).digest().to_string())
    })?;
    lua.load(PRELUDE).set_name("@prelude").call((ask, sha1hex))
}

/// Reads a first line such as `#!lua flags=allow-oom`, and returns the code without it.
fn first_line(body: &[u8]) -> Result<(Flags, Vec<u8>), Reply> {
    if !body.starts_with(b"#!") {
        return Ok((Flags::None, body.to_vec()));
    }
    let end = body.iter().position(|byte| *byte == b'\n').unwrap_or(body.len());
    let line = String::from_utf8_lossy(&body[2..end]).into_owned();
    let mut words = line.split_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine != "lua" {
        return Err(Reply::Error(format!("ERR Unexpected engine in script shebang: {engine}")));
    }
    let (mut may_write, mut allows_full, mut slots) = (true, false, Slots::One);
    for word in words {
        let Some(flags) = word.strip_prefix("flags=") else {
            return Err(Reply::Error(format!("ERR Unknown lua shebang option: {word}")));
        };
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            match flag {
                "no-writes" => may_write = false,
                "allow-oom" => allows_full = true,
                "allow-cross-slot-keys" => slots = Slots::Any,
                "allow-stale" | "no-cluster" => {}
                _ => {
                    let text = format!("ERR Unexpected flag in script shebang: {flag}");
                    return Err(Reply::Error(text));
                }
            }
        }
    }
    // The line stays, empty: the numbers of the others do not change.
    Ok((Flags::Some { may_write, allows_full, slots }, body[end..].to_vec()))
}

type Words = [Vec<u8>];

/// Takes the keys and the arguments apart.
fn divide(rest: &Words) -> Result<(&Words, &Words), Reply> {
    let count = super::command::integer(&rest[0])?;
    let count =
        usize::try_from(count).map_err(|_| Reply::error("ERR Number of keys can't be negative"))?;
    if count > rest.len() - 1 {
        return Err(Reply::error("ERR Number of keys can't be greater than number of args"));
    }
    Ok(rest[1..].split_at(count))
}

/// An argument of `redis.call`; nothing if it is neither a string nor a number.
fn argument(value: &Value) -> Option<Vec<u8>> {
    Some(match value {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Integer(number) => number.to_string().into_bytes(),
        Value::Number(number) => format_double(*number).into_bytes(),
        _ => return None,
    })
}

fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    let field = |name: &str, text: &str| -> mlua::Result<Value> {
        let table = lua.create_table()?;
        table.raw_set(name, text)?;
        Ok(Value::Table(table))
    };
    let list = |items: Vec<Value>| Ok(Value::Table(lua.create_sequence_from(items)?));
    match reply {
        Reply::Nil | Reply::NilArray => Ok(Value::Boolean(false)),
        Reply::Ok => field("ok", "OK"),
        Reply::Simple(text) => field("ok", text),
        Reply::Error(text) => field("err", text),
        #[expect(clippy::cast_precision_loss, reason = "Lua has no other numbers")]
        Reply::Int(number) => Ok(Value::Number(*number as f64)),
        Reply::Double(number) => Ok(Value::String(lua.create_string(format_double(*number))?)),
        Reply::Bulk(value) => Ok(Value::String(lua.create_string(value)?)),
        Reply::Array(items) => {
            list(items.iter().map(|it| to_lua(lua, it)).collect::<Result<_, _>>()?)
        }
        Reply::Map(pairs) => {
            let flat = pairs.iter().flat_map(|(key, value)| [key, value]);
            list(flat.map(|it| to_lua(lua, it)).collect::<Result<_, _>>()?)
        }
    }
}

fn from_lua(value: &Value) -> Reply {
    match value {
        Value::Boolean(true) => Reply::Int(1),
        Value::Integer(number) => Reply::Int(*number),
        #[expect(clippy::cast_possible_truncation, reason = "the server cuts it off, too")]
        Value::Number(number) => Reply::Int(*number as i64),
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Table(table) => {
            let text = |name| table.raw_get::<Option<mlua::LuaString>>(name).ok().flatten();
            if let Some(error) = text("err") {
                return Reply::Error(error.to_string_lossy());
            }
            if let Some(status) = text("ok") {
                return Reply::Simple(status.to_string_lossy().into());
            }
            // An array ends with its first nil.
            let items = table.sequence_values::<Value>().map_while(Result::ok);
            Reply::Array(items.map(|item| from_lua(&item)).collect())
        }
        _ => Reply::Nil,
    }
}

/// The answer to a call whose script ended with an error.
fn thrown(error: &Value, hash: &str) -> Reply {
    let place = format!("script: {hash}, on @user_script.");
    let text = match error {
        Value::Table(table) => table.raw_get::<String>("err").unwrap_or_default(),
        Value::String(text) => format!("ERR {}", text.to_string_lossy()),
        Value::Error(error) => format!("ERR {}", one_line(&error.to_string())),
        other => format!("ERR {}", other.type_name()),
    };
    Reply::Error(format!("{} {place}", one_line(&text)))
}

fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}
