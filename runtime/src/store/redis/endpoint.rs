//! Where the server is.

use std::time::Duration;

use bb8_redis::RedisConnectionManager;
use bb8_redis::bb8::Pool;
use redis::{ConnectionInfo, ErrorKind, ProtocolVersion, RedisResult};

use super::sentinel::Sentinels;

/// Where connections lead, or come from.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// To one address.
    Fixed(ConnectionInfo),
    /// To whoever is the master when they are made.
    Sentinel(Sentinels),
    /// They are a pool's that somebody else uses too.
    Lent(Pool<RedisConnectionManager>),
}

impl Place {
    /// What it is called in errors and events.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Fixed(info) => info.addr().to_string(),
            Self::Sentinel(sentinels) => sentinels.describe(),
            Self::Lent(_) => "the server of the given pool".to_owned(),
        }
    }

    /// Where the server is now; sentinels have so long to answer.
    pub(super) async fn find(&self, limit: Duration) -> RedisResult<ConnectionInfo> {
        match self {
            Self::Fixed(info) => Ok(info.clone()),
            Self::Sentinel(sentinels) => sentinels.find(limit).await,
            Self::Lent(_) => Err((ErrorKind::Client, "a pool has no address").into()),
        }
    }

    /// What is to be spoken, where that is ours to say.
    pub(super) fn protocol(&self) -> Option<ProtocolVersion> {
        match self {
            Self::Fixed(info) => Some(info.redis_settings().protocol()),
            Self::Sentinel(sentinels) => Some(sentinels.protocol()),
            Self::Lent(_) => None,
        }
    }
}
