//! The set-up of workers before their work starts.

use std::io::BufRead;
use std::time::Duration;

use crate::clock::now;
use crate::failure::Failure;
use crate::server;
use crate::stats::Times;

/// Tells the parent process that all is set up, and waits for its signal to start.
pub(super) async fn ready() -> Result<(), Failure> {
    println!("\"ready\"");
    signal().await
}

/// Waits for the parent's next signal.
pub(super) async fn signal() -> Result<(), Failure> {
    let wait = || std::io::stdin().lock().read_line(&mut String::new());
    tokio::task::spawn_blocking(wait).await??;
    Ok(())
}

/// The time of a PING over a connection of its own, with this pause after each.
pub(super) async fn ping(url: &str, pause: Duration) -> Result<Duration, Failure> {
    let mut redis = server::connect(url).await?;
    let mut times = Vec::new();
    for _ in 0..200 {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let sent = now();
        redis::cmd("PING").exec_async(&mut redis).await?;
        times.push(now().saturating_sub(sent));
    }
    // The first ones find cold caches.
    Ok(times.drain(20..).collect::<Times>().p50())
}
