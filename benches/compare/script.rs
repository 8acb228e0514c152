//! The bare commands: our own scripts, sent without our client.

macro_rules! include_script {
    ($flags:literal, [$($include:literal),*], $file:literal) => {
        concat!(
            "#!lua", $flags, "\n",
            $(include_str!(concat!("../../runtime/lua/include/", $include, ".lua")), "\n",)*
            include_str!(concat!("../../runtime/lua/", $file, ".lua")),
        )
    };
}

pub(crate) const MUTEX_ACQUIRE: &str =
    include_script!("", ["record", "queue", "hand_over"], "mutex/acquire");
pub(crate) const MUTEX_RELEASE: &str =
    include_script!(" flags=allow-oom", ["record", "queue", "hand_over"], "mutex/release");
pub(crate) const MUTEX_RENEW: &str = include_script!(" flags=allow-oom", [], "mutex/renew");
pub(crate) const SEMAPHORE_ACQUIRE: &str = include_script!(
    "",
    ["record", "queue", "holders", "limit", "serve", "ask"],
    "semaphore/acquire"
);
pub(crate) const SEMAPHORE_RELEASE: &str = include_script!(
    " flags=allow-oom",
    ["record", "queue", "holders", "limit", "serve", "give_back"],
    "semaphore/release"
);
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
