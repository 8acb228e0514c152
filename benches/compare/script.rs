//! The bare commands: our own scripts, sent without our client.

use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use redis::aio::MultiplexedConnection;

use crate::failure::Failure;

type Script = LazyLock<String>;

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

/// A script as our client sends it: with the includes that its header names.
///
/// # Panics
///
/// If the sources are not there any more.
fn ours(flags: &str, file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/lua");
    let read = |file: &str| {
        fs::read_to_string(folder.join(file)).expect("the scripts are where they were built")
    };
    let body = read(&format!("{file}.lua"));
    let includes = body.lines().filter_map(|line| line.strip_prefix("--- INCLUDE "));
    let includes: String =
        includes.map(|include| read(&format!("include/{include}.lua")) + "\n").collect();
    format!("#!lua{flags}\n{includes}{body}")
}

pub(crate) const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
pub(crate) const COMPARE_AND_EXPIRE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

/// The keys of a lock, in the order of our scripts.
pub(crate) fn keys(roles: &[&str], name: &str) -> Vec<String> {
    roles.iter().map(|role| format!("leasehold:{role}:{{{name}}}")).collect()
}

pub(crate) const MUTEX_KEYS: &[&str] = &["lock", "queue", "waiters"];
pub(crate) const SEMAPHORE_KEYS: &[&str] = &["lock", "holders", "queue", "waiters"];

/// Where our scripts tell waiters.
pub(crate) const WAKE: &str = "leasehold:wake:";

/// An id as ours are: 22 characters for the client, 12 that count.
pub(crate) fn id(client: &str, count: u64) -> String {
    format!("{client:0<22}{count:012x}")
}
