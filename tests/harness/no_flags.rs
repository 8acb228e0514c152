//! A proxy that makes any server refuse the first line of scripts, as those before Redis 7.0 do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::proxy;
use crate::server::Server;

/// How scripts with flags begin.
const FLAGS: &[u8] = b"#!lua";

/// No script begins like this, so the server can't compile it.
const NO_FLAGS: &[u8] = b"##lua";

/// A proxy in front of a server.
#[derive(Debug)]
pub struct NoFlags {
    port: u16,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    lets_flags_through: AtomicBool,
    seen: AtomicUsize,
}

impl NoFlags {
    /// Starts it. It ends with the test's runtime.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub async fn before(server: &Server) -> Self {
        let state = Arc::new(State::default());
        let shared = state.clone();
        let forward = move |from, to| forward(from, to, shared.clone());
        let port = proxy::before(server.port(), forward).await;
        Self { port, state }
    }

    /// From now on the server takes flags, or refuses them again.
    pub fn let_flags_through(&self, are_let: bool) {
        self.state.lets_flags_through.store(are_let, Ordering::SeqCst);
    }

    /// How many scripts with flags were sent.
    #[must_use]
    pub fn seen(&self) -> usize {
        self.state.seen.load(Ordering::SeqCst)
    }

    /// The URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: Arc<State>) {
    let (mut bytes, mut kept) = (vec![0; 1 << 16], Vec::new());
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        kept.extend_from_slice(&bytes[..count]);
        for at in 0..kept.len() {
            if kept[at..].starts_with(FLAGS) {
                state.seen.fetch_add(1, Ordering::SeqCst);
                if !state.lets_flags_through.load(Ordering::SeqCst) {
                    kept[at..at + FLAGS.len()].copy_from_slice(NO_FLAGS);
                }
            }
        }
        // The rest of the words may follow.
        let begun = (1..FLAGS.len()).rev().find(|length| kept.ends_with(&FLAGS[..*length]));
        let rest = kept.split_off(kept.len() - begun.unwrap_or(0));
        if to.write_all(&kept).await.is_err() {
            return;
        }
        kept = rest;
    }
}
