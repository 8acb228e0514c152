//! The documentation of the public API: its sections, its errors and its examples.

use std::collections::{BTreeMap, BTreeSet};

use super::{files, read};

/// A caller must know what a dropped future leaves behind, which errors to match on, and what
/// to copy.
#[test]
fn public_futures_are_documented() {
    let (mut seen, mut missing) = (0, Vec::new());
    for path in public_files() {
        for Item { line, head, docs, .. } in items(&path, &["pub async fn ", "pub fn "]) {
            if !head.starts_with("pub async fn ") && !head.contains("-> impl Future<") {
                continue;
            }
            seen += 1;
            let is_fallible = head.contains("Result<");
            let wants = [
                ("*Cancel safety*", section(&docs, "Cancel safety").is_some()),
                ("*Errors*", !is_fallible || section(&docs, "Errors").is_some()),
                ("an example", docs.contains("```")),
            ];
            let lacking = wants.into_iter().filter(|(_, is_there)| !is_there);
            missing.extend(lacking.map(|(what, _)| format!("{path}:{line} has no {what}: {head}")));
        }
    }
    assert!(seen > 50, "{seen} functions");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Every call that acquires a lock can fail with these.
const RATE: &str = "InvalidKey InvalidOption NoRuntime RateLimited ShutDown Store WrongKind";
const ACQUIRE: &str = "Busy InvalidKey InvalidOption NoRuntime ShutDown Store TimedOut WrongKind";

/// The variants of `LockError` that each public function can return, after its code. The types
/// that a quorum has too can fail with `Quorum`; the others can't.
const ERRORS: &[(&str, &[&str])] = &[
    ("Mutex::lock Mutex::try_lock", &[ACQUIRE, "Done", "Quorum", "Unsupported"]),
    ("RwLock::read RwLock::try_read", &[ACQUIRE, "Quorum"]),
    ("RwLock::write RwLock::try_write", &[ACQUIRE, "Quorum", "WouldDeadlock"]),
    ("ReentrantMutex::lock ReentrantMutex::try_lock", &[ACQUIRE]),
    ("Semaphore::acquire Semaphore::try_acquire", &[ACQUIRE, "Closed"]),
    ("Semaphore::acquire_many Semaphore::try_acquire_many", &[ACQUIRE, "Closed"]),
    ("Locks::ping QuorumLocks::ping", &["NoRuntime", "Quorum", "ShutDown", "Store"]),
    ("Mutex::run", &[ACQUIRE, "Done", "Lost", "Quorum", "Unsupported"]),
    ("RwLock::run_read", &[ACQUIRE, "Lost", "Quorum"]),
    ("RwLock::run_write", &[ACQUIRE, "Lost", "Quorum", "WouldDeadlock"]),
    ("ReentrantMutex::run", &[ACQUIRE, "Lost"]),
    ("Semaphore::run Semaphore::run_many", &[ACQUIRE, "Closed", "Lost"]),
    ("MultiLock::run", &[ACQUIRE, "Closed", "Lost", "RateLimited"]),
    ("Lease::run_blocking LeaseSet::run_blocking", &["Lost", "NoRuntime"]),
    ("LeaseHandle::ensure_held LeaseSetHandle::ensure_held", &["Lost"]),
    ("MultiLock::lock MultiLock::try_lock", &[ACQUIRE, "Closed", "RateLimited"]),
    ("RateLimit::acquire RateLimit::try_acquire", &[RATE]),
    ("RateLimit::acquire_many RateLimit::try_acquire_many", &[RATE]),
    ("Locks::adopt", &["InvalidOption", "NoRuntime", "ShutDown", "Store", "TicketEnded"]),
    ("Locks::lead", &["InvalidKey", "NoRuntime", "ShutDown", "WrongKind"]),
    (
        "Mutex::lead QuorumLocks::lead Election::lead",
        &["InvalidKey", "InvalidOption", "NoRuntime", "ShutDown", "WrongKind"],
    ),
    ("Job::run", &["InvalidKey", "InvalidOption", "NoRuntime", "Unsupported", "WrongKind"]),
    ("Locks::inspect Locks::force_release", &["InvalidKey", "Store"]),
    ("Locks::list Locks::list_waited_for LockList::next Locks::jobs Locks::prefixes", &["Store"]),
    ("Locks::run_again", &["InvalidKey", "InvalidOption", "Store"]),
    ("Limits::list", &["Store"]),
    (
        "LimitHandle::set LimitHandle::unset LimitHandle::get",
        &["InvalidKey", "InvalidOption", "Store"],
    ),
    ("Locks::is_held_by", &["InvalidKey", "InvalidOption", "Store"]),
    ("Locks::connect", &["InvalidOption", "NoRuntime", "Store"]),
    ("Locks::connect_lazy", &["InvalidOption", "Store"]),
    ("Locks::from_env Locks::from_env_or_in_memory", &["InvalidOption", "NoRuntime", "Store"]),
    ("LocksBuilder::connect", &["InvalidOption", "NoRuntime", "Store"]),
    ("LocksBuilder::connect_lazy", &["InvalidOption", "Store"]),
    ("LocksBuilder::connect_pool", &["InvalidOption", "NoRuntime", "Store"]),
    (
        "Locks::quorum LocksBuilder::connect_quorum",
        &["InvalidOption", "NoRuntime", "Quorum", "Store"],
    ),
    ("LocksBuilder::connect_quorum_lazy", &["InvalidOption", "Store"]),
    ("Lease::renew Lease::release Lease::release_now", &["Lost", "Quorum", "Store"]),
    ("LeaseSet::renew LeaseSet::release", &["Lost", "Store"]),
    ("Lease::run LeaseSet::run", &["Lost", "NoRuntime"]),
    ("Lease::fence LeaseHandle::fence", &["Lost", "NotFenced"]),
    ("LeaseSet::fence LeaseSetHandle::fence", &["InvalidOption", "Lost", "NotFenced"]),
    ("Lease::detach", &["InvalidOption", "Lost", "NoRuntime", "Store", "Unsupported"]),
    ("Lease::complete", &["InvalidOption", "Lost", "Store", "Unsupported"]),
    ("LockKey::new IntoLockKey::into_lock_key KeyTemplate::finish", &["InvalidKey"]),
];

/// Each section says on the spot which errors there are, all of them, and when. One that says
/// "as in `lock`" sends its reader on a search.
#[test]
fn errors_are_named() {
    let wanted = ERRORS.iter().flat_map(|(names, errors)| {
        let errors: BTreeSet<_> = errors.iter().flat_map(|it| it.split(' ')).collect();
        names.split(' ').map(move |name| (name, errors.clone()))
    });
    let mut wanted: BTreeMap<_, _> = wanted.collect();
    let mut wrong = Vec::new();
    for path in public_files() {
        for Item { line, head, docs, owner } in items(&path, &["pub fn ", "pub async fn ", "fn "]) {
            let returns = head.split(" where ").next().unwrap_or_default();
            let returns = returns.split("-> ").last().unwrap_or_default();
            let returns = returns.strip_prefix("impl Future<Output = ").unwrap_or(returns);
            let is_result = ["Result<", "Option<Result<"].iter().any(|it| returns.starts_with(it));
            let of_locks = is_result && returns.contains(", LockError>")
                || head.contains("E: From<LockError>")
                || ["LockList", "ForceRelease"].iter().any(|it| returns.starts_with(it));
            let Some(errors) = section(&docs, "Errors") else {
                if of_locks && head.starts_with("pub ") {
                    wrong.push(format!("{path}:{line} has no *Errors*: {head}"));
                }
                continue;
            };
            let text = errors.split_whitespace().collect::<Vec<_>>().join(" ");
            let (search, quiet) = (["as of ", "as in ", "as for "], text.to_lowercase());
            let search = search.into_iter().find(|it| quiet.contains(it));
            wrong.extend(search.map(|it| format!("{path}:{line} says \"{it}…\": {head}")));
            if !of_locks {
                if !["[`KeyError`]", "[`fmt::Error`]"].iter().any(|it| text.contains(it)) {
                    wrong.push(format!("{path}:{line} names no error: {head}"));
                }
                continue;
            }
            let mut named = BTreeSet::new();
            for rest in text.split("[`LockError::").skip(1) {
                let (name, rest) = rest.split_once("`]").unwrap_or((rest, ""));
                named.insert(name);
                if [",", ".", " and ", " or ", " - "].iter().any(|it| rest.starts_with(it)) {
                    wrong.push(format!("{path}:{line} does not say when {name}: {head}"));
                }
            }
            let name = head.split("fn ").nth(1).unwrap_or_default();
            let name = name.split(['<', '(']).next().unwrap_or_default();
            match wanted.remove(&*format!("{owner}::{name}")) {
                None => wrong.push(format!("{path}:{line} {owner}::{name} is not in the list")),
                Some(wanted) if named != wanted => {
                    wrong.push(format!("{path}:{line} {owner}::{name}: {named:?}, not {wanted:?}"));
                }
                Some(_) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(wanted.is_empty(), "not there: {:?}", wanted.keys());
}

/// Each type that `lib.rs` and the module `layer` export.
#[test]
fn public_types_have_an_example() {
    let all = files("runtime/src", ".rs");
    let (mut seen, mut missing) = (0, Vec::new());
    let names = ["lib.rs", "layer.rs"].iter().flat_map(|file| exported(file));
    for name in names.filter(|name| name.starts_with(char::is_uppercase)) {
        let kinds = ["struct", "enum", "trait"].map(|kind| format!("pub {kind} {name}"));
        let kinds = kinds.each_ref().map(String::as_str);
        let of_file = |path: &String| {
            let is_type = |item: &Item| {
                let rest = kinds.iter().find_map(|kind| item.head.strip_prefix(kind));
                rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
            };
            items(path, &kinds).find(is_type).map(|item| (path.clone(), item))
        };
        let Some((path, item)) = all.iter().find_map(of_file) else { continue };
        seen += 1;
        if !item.docs.contains("```") {
            missing.push(format!("{path}:{} has no example: {name}", item.line));
        }
    }
    assert!(seen > 45, "{seen} types");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Beside `use leasehold::*`, a module of ours with a crate's name would make that name ambiguous.
#[test]
fn a_glob_import_hides_no_crate() {
    let root = read("runtime/src/lib.rs");
    let root = root.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let names: Vec<_> = root.map(str::to_owned).chain(exported("lib.rs")).collect();
    assert!(names.iter().any(|name| name == "layer"), "{names:?}");
    let lock = read("Cargo.lock");
    let crates = lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    let crates: BTreeSet<_> = crates.map(|name| name.replace('-', "_")).collect();
    // The crate itself: the same name twice, and no ambiguity.
    let hides = |name: &&String| crates.contains(*name) && *name != "bb8_redis";
    let hidden: Vec<_> = names.iter().filter(hides).collect();
    assert!(hidden.is_empty(), "{hidden:?}");
}

/// The files with what users reach. Stores and what the attribute expands to are hidden.
fn public_files() -> impl Iterator<Item = String> {
    let hidden = ["runtime/src/store", "runtime/src/attribute"];
    let is_hidden = move |path: &str| hidden.iter().any(|it| path.starts_with(it));
    let all = [files("runtime/src", ".rs"), files("console/src", ".rs")].concat();
    all.into_iter().filter(move |path| !is_hidden(path))
}

/// An item with its documentation.
struct Item {
    line: usize,
    /// Its text up to the brace.
    head: String,
    /// With the pages that it includes.
    docs: String,
    /// The type or the trait that it belongs to.
    owner: String,
}

/// The items of a file, outside of its unit tests, that begin with one of `starts`.
fn items(path: &str, starts: &[&str]) -> impl Iterator<Item = Item> {
    let text = read(path);
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_start = |line: &str| starts.iter().any(|start| line.trim_start().starts_with(start));
    let at = (0..lines.len()).filter(|at| is_start(lines[*at])).collect::<Vec<_>>();
    let item = |at: usize| {
        let ends = |line: &&str| line.ends_with(['{', ';']);
        let end = lines[at..].iter().position(ends).map_or(lines.len(), |end| at + end + 1);
        let above = lines[..at].iter().rev().map(|line| line.trim_start());
        // Attributes stand between the documentation and the item, some in several lines.
        let is_above = |line: &&str| {
            line.starts_with("//") || !line.is_empty() && !line.ends_with(['}', ';', '{'])
        };
        let page = |line: &str| {
            let page = line.strip_prefix("#[doc = include_str!(\"")?.strip_suffix("\")]")?;
            Some(read(&format!("{folder}/{page}")).trim_end().to_owned())
        };
        let doc = |line: &str| line.strip_prefix("///").map(str::to_owned).or_else(|| page(line));
        let mut docs: Vec<_> = above.take_while(is_above).filter_map(doc).collect();
        docs.reverse();
        let head: Vec<_> = lines[at..end].iter().map(|line| line.trim()).collect();
        let owner = lines[..at].iter().rev().find_map(|line| owner(line)).unwrap_or_default();
        Item { line: at + 1, head: head.join(" "), docs: docs.join("\n"), owner }
    };
    at.into_iter().map(item).collect::<Vec<_>>().into_iter()
}

/// The type of a line that begins an `impl`, or the name of a trait.
fn owner(line: &str) -> Option<String> {
    let of = line.strip_prefix("impl").or_else(|| line.strip_prefix("pub trait "))?;
    let of = of.split(" for ").last().unwrap_or(of);
    let of = if of.starts_with('<') { of.split_once("> ").map_or(of, |(_, of)| of) } else { of };
    let name = of.trim_start().split(|c: char| !c.is_alphanumeric()).next();
    name.map(str::to_owned)
}

/// A section of an item's documentation, if it says something.
fn section<'a>(docs: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = docs.split_once(&format!("\n # {name}\n"))?;
    let text = rest.split("\n # ").next().unwrap_or_default().trim();
    (!text.is_empty()).then_some(text)
}

/// The names that a file re-exports.
fn exported(file: &str) -> Vec<String> {
    let text = read(&format!("runtime/src/{file}"));
    let text = text.split("mod __private").next().unwrap_or_default();
    let lines = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
    let text: String = lines.collect::<Vec<_>>().join(" ");
    let uses = text.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let names = uses.flat_map(|path| {
        let list = path.rsplit("::").next().unwrap_or_default();
        let list = path.split_once('{').map_or(list, |(_, list)| list.trim_end_matches('}'));
        list.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>()
    });
    names.collect()
}
