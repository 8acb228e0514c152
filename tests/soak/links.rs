//! The links between processes and servers, and their faults.

use std::sync::Arc;

use fastrand::Rng;
use leasehold_history::Effect;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{until, work_for};
use redis_server_wrapper::{Delay, Direction, FaultProxy};
use tokio::time::Instant;

use crate::Failure;
use crate::clock::{millis, now};
use crate::journal::Journal;

/// A link from a process to a server.
pub(crate) type Link = Arc<FaultProxy>;

/// A link from each process to this server.
pub(crate) async fn to(server: &Server, processes: usize) -> Result<Vec<Link>, Failure> {
    let mut links = Vec::new();
    for _ in 0..processes {
        links.push(Arc::new(FaultProxy::spawn(("127.0.0.1", server.port())).await?));
    }
    Ok(links)
}

/// The URL of a link.
pub(crate) fn url(link: &Link) -> String {
    format!("redis://{}/", link.addr())
}

/// Closes all connections of a link. `FaultProxy::reset_peer` would also close those that are made
/// afterwards.
async fn sever(link: &Link) {
    link.disable().await.expect("it listens");
    // Somebody else's connection may have its port for a moment.
    until("a link has its port again", async || link.enable().await.is_ok()).await;
}

/// Disturbs one link after another.
pub(crate) async fn disturb(links: &[Link], journal: &Journal, until: Instant, rng: &mut Rng) {
    use Direction::{ClientToUpstream, UpstreamToClient};

    while !links.is_empty() && Instant::now() < until {
        work_for(millis(rng, 50..1_500)).await;
        let (link, from) = (&links[rng.usize(..links.len())], now());
        let direction = if rng.bool() { ClientToUpstream } else { UpstreamToClient };
        let name = match rng.u8(..6) {
            0 => {
                sever(link).await;
                "cuts"
            }
            1 => {
                // In the middle of a reply or a command, and again after each reconnect.
                link.close_after(direction, rng.u64(1..600));
                work_for(millis(rng, 10..400)).await;
                link.clear_close_after(direction);
                "cuts-halfway"
            }
            2 | 3 => {
                link.set_delay(direction, Delay::Fixed(millis(rng, 5..800)));
                work_for(millis(rng, 50..1_500)).await;
                link.clear_delay(direction);
                if direction == UpstreamToClient { "late-replies" } else { "late-commands" }
            }
            4 => {
                link.set_stall(direction);
                work_for(millis(rng, 5..400)).await;
                sever(link).await;
                link.clear_stall(direction);
                if direction == UpstreamToClient { "lost-replies" } else { "lost-commands" }
            }
            _ => {
                link.set_stall(ClientToUpstream);
                link.set_stall(UpstreamToClient);
                work_for(millis(rng, 100..4_000)).await;
                link.clear_stall_all();
                "outages"
            }
        };
        journal.fault(name, Effect::Away, from);
    }
    for link in links {
        link.reset();
    }
}
