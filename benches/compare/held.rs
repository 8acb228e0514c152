//! Many locks that somebody else holds, put on the server in a moment.

use crate::contender::Contender;
use crate::failure::Failure;
use crate::script;
use crate::server::Watched;

/// Copies the keys of one lock to many names: for each key, what its name begins and ends with.
/// What they hold stays as our script wrote it. It writes names as `names::name` does.
const COPY: &str = "for number = ARGV[1], ARGV[2] - 1 do
  for key = 1, #KEYS do
    local copy = ARGV[2 * key + 1] .. string.format('order:%07d', number) .. ARGV[2 * key + 2]
    redis.call('COPY', KEYS[key], copy)
  end
end";

/// The number of names of one call: the server answers nobody meanwhile.
const AT_ONCE: usize = 10_000;

/// How long they are held, in milliseconds: longer than any measurement.
const HELD_MS: u64 = 3_600_000;

/// The lock that is copied.
const FIRST: &str = "first";

/// Lets another client hold all of these names.
pub(crate) async fn hold_many(server: &Watched, count: usize) -> Result<(), Failure> {
    let mut redis = server.redis();
    let client = Contender::Raw.connect(&server.url()).await?;
    let mut first = client.mutex(FIRST);
    // It is never released.
    let _held = first.acquire_free().await?;
    // All but the one that the locks share.
    let is_own = |key: &String| key.contains(FIRST);
    let keys: Vec<_> = script::MUTEX_ACQUIRE.keys(FIRST).into_iter().filter(is_own).collect();
    for key in &keys {
        redis::cmd("PEXPIRE").arg(key).arg(HELD_MS).exec_async(&mut redis).await?;
    }
    let parts: Vec<_> = keys.iter().filter_map(|key| key.split_once(FIRST)).collect();
    for begin in (0..count).step_by(AT_ONCE) {
        let mut copy = redis::cmd("EVAL");
        copy.arg(COPY).arg(keys.len()).arg(&keys);
        copy.arg(begin).arg(count.min(begin + AT_ONCE));
        for (before, after) in &parts {
            copy.arg(before).arg(after);
        }
        copy.exec_async(&mut redis).await?;
    }
    Ok(())
}
