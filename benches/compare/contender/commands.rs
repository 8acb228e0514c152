//! Our scripts over one connection, without our client. No client of this protocol over this driver
//! can be faster.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use super::ttl::TTL;
use crate::failure::Failure;
use crate::script;

/// The connection, and the scripts as the server knows them.
#[derive(Clone)]
pub(crate) struct Commands {
    redis: MultiplexedConnection,
    acquire: Arc<str>,
    release: Arc<str>,
    count: Arc<AtomicU64>,
}

impl Commands {
    pub(super) async fn over(redis: MultiplexedConnection) -> Result<Self, Failure> {
        let acquire = script::load(&redis, &script::MUTEX_ACQUIRE.body).await?;
        let release = script::load(&redis, &script::MUTEX_RELEASE.body).await?;
        Ok(Self { redis, acquire, release, count: Arc::default() })
    }

    pub(super) fn mutex(&self, name: &str) -> Mutex {
        let keys = [script::MUTEX_ACQUIRE.keys(name), script::MUTEX_RELEASE.keys(name)];
        Mutex { commands: self.clone(), keys, id: String::new() }
    }
}

/// A mutex without contention.
pub(crate) struct Mutex {
    commands: Commands,
    /// The keys of an acquire, and the keys of a release.
    keys: [Vec<String>; 2],
    id: String,
}

impl Mutex {
    fn call(&self, hash: &str, keys: &[String]) -> Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(hash).arg(keys.len()).arg(keys).arg(&self.id);
        call
    }

    pub(super) async fn acquire(&mut self) -> Result<(), Failure> {
        self.id = script::id("raw", self.commands.count.fetch_add(1, Ordering::Relaxed));
        let mut acquire = self.call(&self.commands.acquire, &self.keys[0]);
        acquire.arg(TTL.as_secs() * 1000).arg("");
        match acquire.query_async(&mut self.commands.redis).await? {
            (Value::Int(1), Value::Int(_)) => Ok(()),
            (code, _) => Err(format!("not granted: {code:?}").into()),
        }
    }

    pub(super) async fn release(&mut self) -> Result<(), Failure> {
        let release = self.call(&self.commands.release, &self.keys[1]);
        let ended: u32 = release.query_async(&mut self.commands.redis).await?;
        if ended == 1 { Ok(()) } else { Err("it was not held".into()) }
    }
}
