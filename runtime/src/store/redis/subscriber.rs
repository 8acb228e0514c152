//! Hints by RESP2, where they need a connection of their own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use redis::{ErrorKind, RedisResult};
use tokio::time::{sleep, timeout};

use super::connection::Pauses;
use super::manager::{Manager, is_full};
use super::server_state::Health;
use super::wire::Wire;
use crate::store::Hint;

/// How often the connection is tried: it may be silent for hours, also when its
/// other end is gone.
const CHECK: Duration = Duration::from_secs(5);

/// How long a server that refuses is left alone.
const REFUSED: Duration = Duration::from_secs(60);

/// Keeps the client subscribed from when its connections speak RESP2. A failure
/// here is no failure of a lock: those who wait ask more often meanwhile.
pub(super) async fn keep(manager: &Manager) {
    manager.until_resp2().await;
    let mut pauses = Pauses::default();
    loop {
        let begun = Instant::now();
        let ended = subscribe(manager).await;
        manager.shared.ears.hear_by(None);
        if begun.elapsed() > CHECK {
            pauses = Pauses::default();
        }
        match ended {
            Err(error) if matches!(error.code(), Some("NOPERM" | "ERR")) && !is_full(&error) => {
                manager.tell_silence(&error);
                sleep(REFUSED).await;
            }
            Err(error) => tracing::debug!(%error, "the connection for hints failed"),
            Ok(()) => tracing::debug!("the connection for hints was closed"),
        }
        sleep(pauses.next()).await;
    }
}

/// Subscribes, and listens until the connection ends.
async fn subscribe(manager: &Manager) -> RedisResult<()> {
    let (ears, limit) = (&manager.shared.ears, manager.shared.settings.connect_timeout);
    let mut address = manager.shared.address.subscribe();
    let connect = async { Wire::connect_pubsub(manager.find_by_resp2().await?).await };
    let connection = in_time(limit, connect).await?;
    let (mut sink, mut messages) = connection.split();
    in_time(limit, sink.subscribe(&ears.channel)).await?;
    ears.hear_by(Some(Arc::new(Health::default())));
    ears.tell(Hint::Missed);
    loop {
        let listening = async {
            while let Some(message) = messages.next().await {
                ears.take_message(message.get_payload_bytes());
            }
        };
        // Where the commands go is where it is told.
        let ended = async {
            tokio::select! { () = listening => {}, _ = address.changed() => {} }
        };
        if timeout(CHECK, ended).await.is_ok() {
            return Ok(());
        }
        // Subscribing again changes nothing, is answered, and needs no right that
        // the first time did not need.
        in_time(limit, sink.subscribe(&ears.channel)).await?;
    }
}

async fn in_time<T>(limit: Duration, work: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    let silent = |_| Err((ErrorKind::Io, "no answer in time").into());
    timeout(limit, work).await.unwrap_or_else(silent)
}
