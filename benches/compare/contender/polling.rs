//! The most common home-made semaphore: a sorted set of holders by deadline. A caller asks again
//! after a pause with jitter until there is room.

use std::ops::Range;
use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;
use redis::aio::MultiplexedConnection;

use super::ttl::TTL;
use crate::failure::Failure;
use crate::script;

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local now = redis.call('TIME')
         now = now[1] * 1000 + math.floor(now[2] / 1000)
         redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
         if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
         redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
         redis.call('PEXPIRE', KEYS[1], ARGV[3])
         return 1",
    )
});

pub(crate) struct PollingZset {
    redis: MultiplexedConnection,
    key: String,
    limit: u32,
    pause: Range<Duration>,
    id: String,
}

impl PollingZset {
    pub(super) fn new(
        redis: MultiplexedConnection,
        name: &str,
        limit: u32,
        pause: Range<Duration>,
    ) -> Self {
        Self { redis, key: name.to_owned(), limit, pause, id: String::new() }
    }

    pub(super) async fn acquire(&mut self) -> Result<(), Failure> {
        self.id = script::id("zset", fastrand::u64(..1 << 48));
        loop {
            let mut ask = ACQUIRE.key(&self.key);
            ask.arg(&self.id).arg(self.limit).arg(TTL.as_secs() * 1000);
            if ask.invoke_async(&mut self.redis).await? {
                return Ok(());
            }
            let Range { start, end } = self.pause;
            tokio::time::sleep(start + end.saturating_sub(start).mul_f64(fastrand::f64())).await;
        }
    }

    pub(super) async fn release(&mut self) -> Result<(), Failure> {
        let removed: u32 =
            redis::cmd("ZREM").arg(&self.key).arg(&self.id).query_async(&mut self.redis).await?;
        if removed == 1 { Ok(()) } else { Err("it was not held".into()) }
    }
}
