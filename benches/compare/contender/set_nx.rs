//! The least that any lock does: `SET NX PX`, and a script that compares and deletes. It has no
//! fencing token and no renewal, and a command that is sent twice is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;

use super::ttl::TTL;
use crate::failure::Failure;
use crate::{script, server};

#[derive(Clone)]
pub(crate) struct SetNx {
    redis: MultiplexedConnection,
    release: Arc<str>,
    count: Arc<AtomicU64>,
}

impl SetNx {
    pub(super) async fn connect(url: &str) -> Result<Self, Failure> {
        let redis = server::connect(url).await?;
        let release = script::load(&redis, script::COMPARE_AND_DELETE).await?;
        Ok(Self { redis, release, count: Arc::default() })
    }

    pub(super) fn of(self, name: &str) -> Lock {
        Lock { client: self, key: name.to_owned(), id: String::new() }
    }
}

/// A lock without contention.
pub(crate) struct Lock {
    client: SetNx,
    key: String,
    id: String,
}

impl Lock {
    pub(super) async fn acquire(&mut self) -> Result<(), Failure> {
        self.id = script::id("set", self.client.count.fetch_add(1, Ordering::Relaxed));
        let mut set = redis::cmd("SET");
        set.arg(&self.key).arg(&self.id).arg("NX").arg("PX").arg(TTL.as_secs() * 1000);
        let set: Option<String> = set.query_async(&mut self.client.redis).await?;
        set.map(drop).ok_or_else(|| "it was not free".into())
    }

    pub(super) async fn release(&mut self) -> Result<(), Failure> {
        let mut release = redis::cmd("EVALSHA");
        release.arg(&*self.client.release).arg(1).arg(&self.key).arg(&self.id);
        let deleted: u32 = release.query_async(&mut self.client.redis).await?;
        if deleted == 1 { Ok(()) } else { Err("it was not held".into()) }
    }
}
