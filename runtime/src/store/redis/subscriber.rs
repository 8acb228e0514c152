//! Hints by RESP2, which need a connection of their own.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use redis::RedisResult;
use tokio::time::{sleep, timeout};

use super::backoff::Backoff;
use super::connector::{Connector, with_resp2};
use super::errors;
use super::link_state::LinkState;
use super::wire::Wire;
use crate::store::{Hint, RESUBSCRIBE};
use crate::system;

/// How often the connection is checked: it may be silent for hours, and also once its other
/// end is gone.
const CHECK: Duration = Duration::from_secs(5);

/// Keeps the client subscribed once its connections speak RESP2. A failure here fails no
/// lock: until it is over, waiters ask more often.
pub(super) async fn run(connector: &Connector) {
    connector.flags.resp2.wait().await;
    let mut backoff = Backoff::default();
    loop {
        let start = system::now();
        let ended = subscribe(connector).await;
        let hints = &connector.server.hints;
        if hints.is_open() {
            hints.set_source(None);
            // From now on messages are lost.
            hints.deliver(Hint::Missed);
        }
        if system::since(start) > CHECK {
            backoff = Backoff::default();
        }
        match ended {
            Err(error) if errors::is_lacking(&error) => {
                connector.log_no_hints(&error);
                sleep(RESUBSCRIBE).await;
            }
            Err(error) => tracing::debug!(%error, "the connection for hints failed"),
            Ok(()) => tracing::debug!("the connection for hints was closed"),
        }
        sleep(backoff.next()).await;
    }
}

/// Subscribes, and receives hints until the connection ends.
async fn subscribe(connector: &Connector) -> RedisResult<()> {
    let (hints, limit) = (&connector.server.hints, connector.server.settings.connect_timeout);
    let mut address = connector.server.address.subscribe();
    let connect = async { Wire::connect_pubsub(with_resp2(connector.resolve().await?)).await };
    let connection = errors::in_time(limit, connect).await?;
    let (mut sink, mut messages) = connection.split();
    errors::in_time(limit, sink.subscribe(&[&*hints.channel, &*hints.limits])).await?;
    hints.set_source(Some(Arc::new(LinkState::default())));
    hints.deliver(Hint::Missed);
    loop {
        let receiving = async {
            while let Some(message) = messages.next().await {
                hints.take_message(message.get_payload_bytes());
            }
        };
        // Hints come from the server that the commands go to.
        let ended = async {
            tokio::select! { () = receiving => {}, _ = address.changed() => {} }
        };
        if timeout(CHECK, ended).await.is_ok() {
            return Ok(());
        }
        // A repeated subscription changes nothing, has an answer, and needs no other right.
        errors::in_time(limit, sink.subscribe(&[&*hints.channel, &*hints.limits])).await?;
    }
}
