//! The bare commands: our own scripts, sent without our client.

use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use redis::aio::MultiplexedConnection;

use crate::failure::Failure;

type Script = LazyLock<Ours>;

/// Loads a script into the server, and returns the hash by which it is called.
pub(crate) async fn load(redis: &MultiplexedConnection, body: &str) -> Result<Arc<str>, Failure> {
    let mut load = redis::cmd("SCRIPT");
    let hash: String = load.arg("LOAD").arg(body).query_async(&mut redis.clone()).await?;
    Ok(hash.into())
}

pub(crate) static MUTEX_ACQUIRE: Script = LazyLock::new(|| ours("", "mutex/acquire"));
pub(crate) static MUTEX_RELEASE: Script =
    LazyLock::new(|| ours(" flags=allow-oom", "mutex/release"));
pub(crate) static MUTEX_RENEW: Script = LazyLock::new(|| ours(" flags=allow-oom", "mutex/renew"));
pub(crate) static SEMAPHORE_ACQUIRE: Script = LazyLock::new(|| ours("", "semaphore/acquire"));
pub(crate) static SEMAPHORE_RELEASE: Script =
    LazyLock::new(|| ours(" flags=allow-oom", "semaphore/release"));

/// One of our scripts.
pub(crate) struct Ours {
    pub(crate) body: String,
    /// The purpose of each of its keys, in order.
    roles: Vec<String>,
}

impl Ours {
    /// The keys of a lock, in the order of this script.
    pub(crate) fn keys(&self, name: &str) -> Vec<String> {
        let key = |role: &String| match role.as_str() {
            // All locks share it.
            "tokens" => "leasehold:tokens".to_owned(),
            role => format!("leasehold:{role}:{{{name}}}"),
        };
        self.roles.iter().map(key).collect()
    }
}

/// A script as our client sends it: with the includes that its header names.
///
/// # Panics
///
/// If the sources are not there any more.
fn ours(flags: &str, file: &str) -> Ours {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/lua");
    let read = |file: &str| {
        fs::read_to_string(folder.join(file)).expect("the scripts are where they were built")
    };
    let body = read(&format!("{file}.lua"));
    let names = body.lines().filter_map(|line| line.strip_prefix("--- INCLUDE "));
    let names = names.flat_map(str::split_whitespace);
    let includes: String =
        names.map(|include| read(&format!("include/{include}.lua")) + "\n").collect();
    // The header has a line for each key: its number, its role, its type, and more.
    let keys = body.lines().skip_while(|line| !line.starts_with("--- KEYS")).skip(1);
    let keys = keys.map_while(|line| line.strip_prefix("---   "));
    let roles = keys.filter_map(|line| line.split_whitespace().nth(1)).map(str::to_owned).collect();
    Ours { body: format!("#!lua{flags}\n{includes}{body}"), roles }
}

pub(crate) const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
pub(crate) const COMPARE_AND_EXPIRE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

/// The prefix of the channels on which our scripts send hints.
pub(crate) const WAKE: &str = "leasehold:wake:";

/// An id in our format: 22 characters for the client, 12 for a count.
pub(crate) fn id(client: &str, count: u64) -> String {
    format!("{client:0<22}{count:012x}")
}
