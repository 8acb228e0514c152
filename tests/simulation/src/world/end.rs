//! The end of a world: nothing is in the way any more, so each lock is free soon, and nothing is left.

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;
use leasehold::LockError;
use leasehold_history::Kind;
use tokio::time::{Instant, sleep};

use super::client::Client;
use super::turns::{Worker, reason};
use super::version::{MOST_PERMITS, USUAL_TTL};
use super::wishes::{PERMITS, PROBES, Part, SEATS, Wish};
use crate::network::Network;
use crate::process;

/// A dead holder's lease, and the places of dead waiters, are over long before.
const WAIT: Duration = Duration::from_secs(40);

/// Asks for all of each lock.
pub(super) async fn ask_for_all(worker: Worker) {
    if let Client::All(locks) = &worker.client {
        Box::pin(worker.look_around(locks)).await;
        // An operator may have died.
        for lock in [PERMITS, SEATS] {
            worker.shared.note_closed(lock, None);
            if let Err(error) = locks.limits().name(lock).unset().await {
                worker.shared.violation(format!("at the end the limit of {lock} stays: {error}"));
            }
        }
    }
    for (lock, kind) in PROBES {
        let is_quorum = matches!(worker.client, Client::Quorum(_));
        if is_quorum && !matches!(kind, Kind::Mutex | Kind::Write) {
            continue;
        }
        let units = if kind == Kind::Permits { MOST_PERMITS } else { 1 };
        let part = Part { units, limit: units, ..Part::of(lock, kind) };
        let wish = Wish::plain(part, "last".to_owned(), USUAL_TTL, WAIT);
        let until = Instant::now() + WAIT;
        loop {
            let ids = worker.ask(&wish);
            let acquired = worker.called(&wish).await;
            let at = process::now() * 1_000;
            let error = match acquired {
                Ok(guard) => {
                    worker.got(&guard, &ids, &wish, at);
                    worker.shared.judge("at the end", None);
                    worker.hold(guard, &ids, &wish, &mut Rng::with_seed(0)).await;
                    break;
                }
                Err(error) => error,
            };
            let why = reason(&error);
            worker.refused(&ids, at, &why);
            // A lease of another kind may be left, and nobody waits for that.
            if matches!(error, LockError::WrongKind { .. }) && Instant::now() < until {
                sleep(Duration::from_millis(500)).await;
                continue;
            }
            let wrong = format!("{lock} is not free: {why}: {error}");
            worker.shared.judge("at the end", Some(wrong));
            break;
        }
    }
    worker.ends().await;
}

/// The keys that are left when all leases and all clients are over, other than those that stay for
/// long; and those that never end.
pub(super) fn leftovers(network: &mut Network) -> BTreeSet<String> {
    let mut left = BTreeSet::new();
    for address in network.addresses() {
        let now = network.now();
        let host = network.host(address);
        // What was stored while a clock was hours ahead stays for as long.
        let now_ms = host.clock(now) / 1_000 + 10 * 3_600_000;
        let core = host.server.core().borrow();
        for (key, entry) in core.databases.values().flat_map(|keys| keys.live(now_ms)) {
            let name = String::from_utf8_lossy(key).into_owned();
            let roles = [":done:", ":runs:", ":again:", ":freed:"];
            let stays = name.ends_with(":tokens") || roles.iter().any(|role| name.contains(role));
            if !stays || entry.expires_ms.is_none() {
                left.insert(name);
            }
        }
    }
    left
}
