//! The table of Lua scripts: their files, includes, keys and arguments. The bodies are in
//! `runtime/lua/`. Kinds that differ only in an include share one file.

use std::sync::LazyLock;

/// A script and its declaration.
#[derive(Debug)]
pub(super) struct Script {
    /// The file, without its extension.
    #[cfg(test)]
    name: &'static str,
    /// The roles of its keys, in order.
    pub(super) keys: &'static [&'static str],
    #[cfg(test)]
    includes: &'static [&'static str],
    #[cfg(test)]
    args: &'static [&'static str],
    /// One call takes several requests, one after the other.
    pub(super) takes_several: bool,
    /// It may grant a lease.
    pub(super) grants: bool,
    /// The first line, the includes and the file.
    source: &'static str,
    sent: LazyLock<Sent>,
}

/// A script without comments, and its hash.
#[derive(Debug)]
struct Sent {
    body: String,
    hash: String,
}

impl Script {
    /// The body, for a server that does not know the script.
    pub(super) fn body(&self) -> &str {
        &self.sent.body
    }

    /// The hash by which a server knows it.
    pub(super) fn hash(&self) -> &str {
        &self.sent.hash
    }
}

impl Sent {
    fn of(source: &str) -> Self {
        let body = without_comments(source);
        let hash = redis::Script::new(&body).get_hash().to_owned();
        Self { body, hash }
    }
}

/// Leaves out indents, empty lines and comments. A comment has a line of its own.
fn without_comments(source: &str) -> String {
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with("--");
    source.lines().map(str::trim).filter(is_code).collect::<Vec<_>>().join("\n")
}

/// With a first line `#!lua` the server refuses a key that was not declared. A script that
/// frees, renews or reads may run while the server's memory is full. One that grants, or notes
/// something dispensable, may not. One that reads all locks finds their keys itself.
macro_rules! shebang {
    (grants) => {
        "#!lua\n"
    };
    (notes) => {
        "#!lua\n"
    };
    (frees) => {
        "#!lua flags=allow-oom\n"
    };
    (reads) => {
        "#!lua flags=no-writes\n"
    };
    (reads_all) => {
        "#!lua flags=no-writes,allow-cross-slot-keys\n"
    };
}

macro_rules! grants {
    (grants) => {
        true
    };
    ($other:ident) => {
        false
    };
}

macro_rules! takes {
    () => {
        false
    };
    (several) => {
        true
    };
}

macro_rules! scripts {
    ($($name:ident = $file:literal $flags:ident $($several:ident)? [$($include:literal),*]
       ($($key:ident),*; $($arg:ident),*);)*) => {
        $(pub(super) static $name: Script = Script {
            #[cfg(test)]
            name: $file,
            keys: &[$(stringify!($key)),*],
            #[cfg(test)]
            includes: &[$($include),*],
            #[cfg(test)]
            args: &[$(stringify!($arg)),*],
            takes_several: takes!($($several)?),
            grants: grants!($flags),
            source: concat!(
                shebang!($flags),
                $(include_str!(concat!("../../../lua/include/", $include, ".lua")), "\n",)*
                include_str!(concat!("../../../lua/", $file, ".lua")),
            ),
            sent: LazyLock::new(|| Sent::of($name.source)),
        };)*

        /// All of them.
        #[cfg(test)]
        static ALL: &[&Script] = &[$(&$name),*];
    };
}

scripts! {
    MUTEX_ACQUIRE = "mutex/acquire" grants several
        ["record", "acquire_fast", "token", "acquire_many", "grant", "fields", "remains", "queue", "queued", "tell", "free", "hand_over", "take_turn", "recall", "channel", "acquire_mutex", "for_each"]
        (lock, holders, queue, waiters, tokens; holder, ttl_ms, waits);
    MUTEX_ACQUIRE_ONCE = "mutex/acquire_once" grants
        ["record", "token", "grant", "fields", "remains", "queue", "queued", "tell", "free", "hand_over", "take_turn", "recall", "channel", "acquire_mutex", "done"]
        (lock, holders, queue, waiters, done, tokens; holder, ttl_ms, waits, period_ms, offset_ms);
    MUTEX_COMPLETE = "mutex/complete" frees
        ["record", "token", "free", "fields", "queue", "tell", "hand_over", "done"]
        (lock, queue, waiters, done; id, once_ms, tick_ms, keep_ms, token, wake);
    MUTEX_ACQUIRE_ALL = "mutex/acquire_all" grants ["record", "token", "grant", "fields", "take_mutex"]
        (lock, holders, queue, tokens; ttl_ms);
    MUTEX_RENEW = "mutex/renew" frees several ["for_each"] (lock; id, ttl_ms);
    MUTEX_RELEASE = "mutex/release" frees several
        ["record", "release_fast", "release_many", "token", "free", "fields", "queue", "tell", "hand_over", "channel", "for_each"]
        (lock, queue, waiters, tokens; ends);
    MUTEX_CANCEL = "mutex/cancel" frees ["record", "token", "free", "fields", "remains", "queue", "tell", "hand_over"]
        (lock, holders, queue, waiters, tokens; id, wake);
    MUTEX_ADOPT = "mutex/adopt" frees ["record", "token", "grant", "fields"] (lock; id, from, ttl_ms);
    MUTEX_LINGER = "mutex/linger" frees ["record", "token", "free", "fields", "queue", "tell", "hand_over"]
        (lock, queue, waiters; id, ttl_ms, in_use, wake);
    MUTEX_REPAIR = "mutex/repair" frees ["record", "token", "fields", "remains", "raise_token"]
        (lock, holders; id, token, lasts_ms, owner);
    REENTRANT_ACQUIRE = "reentrant/acquire" grants
        ["record", "token", "fields", "remains", "queue", "queued", "tell", "holder", "holders", "rule_reentrant", "serve", "recall_clients", "ask"]
        (lock, holders, queue, waiters, tokens; holder, ttl_ms, live_ms, position, wake);
    REENTRANT_RENEW = "reentrant/renew" frees ["record", "token", "fields", "holder", "holders", "extend"]
        (lock, holders; holder, ttl_ms);
    REENTRANT_RELEASE = "reentrant/release" frees
        ["record", "token", "fields", "remains", "queue", "tell", "holder", "holders", "rule_reentrant", "serve", "give_back"]
        (lock, holders, queue, waiters, tokens; holder, wake);
    REENTRANT_CANCEL = "multi_holder/cancel" frees
        ["record", "token", "fields", "remains", "queue", "tell", "holder", "holders", "rule_reentrant", "serve", "give_back"]
        (lock, holders, queue, waiters, tokens; holder, wake);
    REENTRANT_ADOPT = "multi_holder/adopt" frees
        ["record", "token", "fields", "remains", "holder", "holders", "rule_reentrant", "adopt"]
        (lock, holders, tokens; holder, from, ttl_ms);
    SEMAPHORE_ACQUIRE = "semaphore/acquire" grants several
        ["record", "token", "permit_acquire_fast", "fields", "remains", "queue", "queued", "tell", "holder", "holders", "rule_semaphore", "serve", "recall_clients", "ask", "for_each"]
        (lock, holders, queue, waiters; holder, ttl_ms, limit, live_ms, position, wake);
    SEMAPHORE_RENEW = "semaphore/renew" frees several ["record", "token", "for_each"] (lock, holders; holder, ttl_ms);
    SEMAPHORE_RELEASE = "semaphore/release" frees several
        ["record", "token", "permit_release_fast", "fields", "remains", "queue", "tell", "holder", "holders", "rule_semaphore", "serve", "give_back", "for_each"]
        (lock, holders, queue, waiters; holder, wake);
    SEMAPHORE_CANCEL = "multi_holder/cancel" frees
        ["record", "token", "fields", "remains", "queue", "tell", "holder", "holders", "rule_semaphore", "serve", "give_back"]
        (lock, holders, queue, waiters, tokens; holder, wake);
    SEMAPHORE_LINGER = "multi_holder/linger" frees
        ["record", "token", "fields", "remains", "queue", "tell", "holder", "holders", "rule_semaphore", "serve", "give_back", "recall_clients", "extend"]
        (lock, holders, queue, waiters, tokens; holder, ttl_ms, in_use, wake);
    SEMAPHORE_ADOPT = "multi_holder/adopt" frees
        ["record", "token", "fields", "remains", "holder", "holders", "rule_semaphore", "adopt"]
        (lock, holders, tokens; holder, from, ttl_ms);
    RW_ACQUIRE = "rw/acquire" grants
        ["record", "token", "fields", "remains", "queue", "queued", "tell", "holder", "holders", "rule_rw", "serve", "recall_clients", "ask", "read_or_write"]
        (lock, holders, queue, waiters, tokens; holder, ttl_ms, live_ms, position, wake);
    RW_VOTE = "rw/vote" grants
        ["record", "token", "fields", "remains", "queue", "queued", "tell", "holder", "holders", "rule_rw", "serve", "recall_clients", "ask", "read_or_write"]
        (lock, holders, queue, waiters, intent, tokens; holder, ttl_ms, again_ms);
    RW_REPAIR = "rw/repair" frees ["record", "token", "fields", "remains", "holder", "holders", "rule_rw", "raise_token"]
        (lock, holders; holder, token, lasts_ms);
    RW_RENEW = "rw/renew" frees ["record", "token", "fields", "holder", "holders", "rule_rw", "extend"]
        (lock, holders; holder, ttl_ms);
    RW_RELEASE = "rw/release" frees ["record", "token", "fields", "remains", "queue", "tell", "holder", "holders", "rule_rw", "serve", "give_back"]
        (lock, holders, queue, waiters, tokens; holder, wake);
    RW_CANCEL = "multi_holder/cancel" frees
        ["record", "token", "fields", "remains", "queue", "tell", "holder", "holders", "rule_rw", "serve", "give_back"]
        (lock, holders, queue, waiters, tokens; holder, wake);
    RW_LINGER = "multi_holder/linger" frees
        ["record", "token", "fields", "remains", "queue", "tell", "holder", "holders", "rule_rw", "serve", "give_back", "recall_clients", "extend"]
        (lock, holders, queue, waiters, tokens; holder, ttl_ms, in_use, wake);
    RW_ADOPT = "multi_holder/adopt" frees
        ["record", "token", "fields", "remains", "holder", "holders", "rule_rw", "adopt"]
        (lock, holders, tokens; holder, from, ttl_ms);
    LOCK_ACQUIRE_ALL = "lock/acquire_all" grants
        ["record", "token", "grant", "fields", "take_mutex", "holder", "holders", "rule_semaphore", "take_permit"]
        (lock, holders, queue, tokens; ttl_ms);
    LOCK_INSPECT = "lock/inspect" reads ["record", "token", "fields", "remains", "holder"] (lock, holders, queue, waiters, done; most);
    LOCK_LIST = "lock/list" reads_all ["record", "token", "fields"] (; prefix, match, literal, cursor, count);
    LOCK_IS_HELD_BY = "lock/is_held_by" frees ["record", "token", "fields", "holder", "holders"] (lock, holders; owner);
    LOCK_FORCE_RELEASE = "lock/force_release" frees ["record", "token", "fields", "remains", "queue", "tell"]
        (lock, holders, queue, waiters, forced, tokens; wake);
    LOCK_KEEP_OFFER = "lock/keep_offer" frees ["record", "token", "fields", "queue", "holder"]
        (lock, holders; holder, until_ms);
    LOCK_WAS_FORCED = "lock/was_forced" reads [] (forced; holder);
    CLIENT_INTRODUCE = "client/introduce" notes [] (client; service, host, process, ttl_ms);
    CLIENT_DESCRIBE = "client/describe" reads [] (client;);
}

/// The scripts of a command by kind: mutex, reentrant mutex, semaphore, read-write lock.
macro_rules! by_kind {
    ($($name:ident = $($script:ident)*;)*) => {
        $(pub(super) static $name: [&Script; 4] = [$(&$script),*];)*
    };
}

by_kind! {
    ACQUIRE = MUTEX_ACQUIRE REENTRANT_ACQUIRE SEMAPHORE_ACQUIRE RW_ACQUIRE;
    RENEW = MUTEX_RENEW REENTRANT_RENEW SEMAPHORE_RENEW RW_RENEW;
    RELEASE = MUTEX_RELEASE REENTRANT_RELEASE SEMAPHORE_RELEASE RW_RELEASE;
    CANCEL = MUTEX_CANCEL REENTRANT_CANCEL SEMAPHORE_CANCEL RW_CANCEL;
    LINGER = MUTEX_LINGER SEMAPHORE_LINGER SEMAPHORE_LINGER RW_LINGER;
    ADOPT = MUTEX_ADOPT REENTRANT_ADOPT SEMAPHORE_ADOPT RW_ADOPT;
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::{super::args::TOKENS, *};

    fn lua() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("lua")
    }

    /// The names that a header's section declares, in order.
    fn names<'a>(header: &'a str, section: &str) -> Vec<&'a str> {
        header
            .lines()
            .skip_while(|line| line.split(',').next() != Some(&format!("--- {section}")))
            .skip(1)
            .take_while(|line| line.starts_with("---   "))
            .map(|line| line.split_whitespace().nth(2).expect("a number and a name"))
            .collect()
    }

    /// The highest n of all `KEYS[n]` or `ARGV[n]`. A computed index belongs to a list.
    fn used(body: &str, list: &str) -> usize {
        let start = format!("{list}[");
        let numbers = body.split(&start).skip(1);
        numbers.filter_map(|rest| rest.split(']').next()?.parse().ok()).max().unwrap_or(0)
    }

    #[test]
    fn headers_match_the_bodies() {
        for script in ALL {
            let file = lua().join(script.name).with_extension("lua");
            let text = fs::read_to_string(file).unwrap();
            let (header, body) = text.split_once("\n\n").expect("a header, then an empty line");
            let name = script.name;
            assert!(header.starts_with(&format!("--- {name}: ")), "{name}");
            assert_eq!(names(header, "KEYS"), script.keys, "{name}");
            assert_eq!(names(header, "ARGV"), script.args, "{name}");
            for (list, names) in [("KEYS", script.keys), ("ARGV", script.args)] {
                // A list for each request has computed indexes.
                let is_single = !header.contains(&format!("--- {list}, for each "));
                // Includes use the last key, by `KEYS[#KEYS]`.
                let own = names.iter().filter(|name| **name != TOKENS).count();
                assert_eq!(used(body, list), if is_single { own } else { 0 }, "{name}");
            }
            assert_eq!(header.contains("--- ARGV, for each request\n"), script.takes_several);
            assert!(header.contains("\n--- RETURN") && header.contains("\n--- COST  "), "{name}");
            let includes = header.lines().find_map(|line| line.strip_prefix("--- INCLUDE "));
            let includes: Vec<_> = includes.unwrap_or_default().split_whitespace().collect();
            // `rule_*` is one of them: a file that is the same for several kinds.
            let rule = script.includes.iter().find(|include| include.starts_with("rule_"));
            let rule = |include: &str| include.replace("rule_*", rule.unwrap_or(&"rule_*"));
            let includes: Vec<_> = includes.into_iter().map(rule).collect();
            assert_eq!(includes, script.includes, "{name}");
            assert!(body.lines().count() <= 50, "{name} is too long");
        }
    }

    #[test]
    fn every_file_is_declared() {
        let mut declared: Vec<_> = ALL.iter().map(|script| script.name.to_owned()).collect();
        declared.extend(ALL.iter().flat_map(|s| s.includes).map(|name| format!("include/{name}")));
        for folder in fs::read_dir(lua()).unwrap().map(Result::unwrap) {
            for file in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
                let path = file.path().with_extension("");
                let name = path.strip_prefix(lua()).unwrap().to_str().unwrap().to_owned();
                assert!(declared.contains(&name), "{name}.lua is used by no script");
                let text = fs::read_to_string(file.path()).unwrap();
                assert!(text.lines().count() <= 70, "{name}.lua is too long");
            }
        }
    }

    /// Only comments, indents and empty lines are left out.
    #[test]
    fn only_comments_are_left_out() {
        for Script { name, source, sent, .. } in ALL {
            let mut left = sent.body.lines().peekable();
            for line in source.lines() {
                if left.next_if(|sent| *sent == line.trim()).is_none() {
                    let is_for_readers = line.trim().is_empty() || line.trim().starts_with("--");
                    assert!(is_for_readers, "{name} is sent without {line:?}");
                }
            }
            assert_eq!(left.next(), None, "{name}");
            assert!(sent.body.starts_with("#!lua"), "{name}");
            // These would carry code or a comment over several lines.
            for several in ["[[", "[=", "\\\n"] {
                assert!(
                    !source.contains(several),
                    "{name} has a string or a comment of several lines"
                );
            }
            for line in sent.body.lines() {
                let code: String = line.split('\'').step_by(2).collect();
                assert!(!code.contains("--"), "{name} has a comment beside code: {line}");
            }
        }
    }

    #[test]
    fn the_stored_format_is_written_down() {
        // FNV-1a of all bodies, as they are sent. When it differs: is docs/keys.md still true, and
        // can clients with the old scripts work beside those with the new ones? Answer that in
        // CHANGELOG.md, then put the new number into docs/keys.md.
        let hash = ALL
            .iter()
            .flat_map(|script| script.body().bytes())
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/keys.md");
        let written = format!("scripts: {hash:016x}");
        assert!(
            fs::read_to_string(page).unwrap().contains(&written),
            "docs/keys.md lacks `{written}`"
        );
    }
}
