//! What a task does with what it got: it looks whether it still has it, renews it, works under it, and
//! lets go.

use std::time::{Duration, UNIX_EPOCH};

use fastrand::Rng;
use leasehold::{Lease, LeaseHandle, LeaseState, LockError, LossReason, Released};
use leasehold_history::{Line, Nanos};
use tokio::time::sleep;

use super::answers::{RELEASES, RENEWS, TRAVELS_ON};
use super::client::Client;
use super::kept::{Neglect, neglected};
use super::plan::Deployment;
use super::turns::{LOOK, Worker, millis, nanos, now, reason};
use super::wishes::{Guard, Part, Succeeds, Travelling, Wish};
use crate::process;
use crate::trace::time;

/// An offer may be believed for as long as the heartbeat of its waiter.
const LONGEST_LIVE: Duration = Duration::from_secs(6);

/// The request of a set's lease: the leases have an order of their own.
fn id_of(lease: &Lease, ids: &[String], wish: &Wish) -> String {
    let named = |(part, _): &(&Part, &String)| part.lock == lease.key().as_ref();
    wish.parts.iter().zip(ids).find(named).map_or(&ids[0], |(_, id)| id).clone()
}

impl Worker {
    /// Notes what was granted.
    pub(super) fn got(&self, guard: &Guard, ids: &[String], wish: &Wish, at: Nanos) {
        self.expect_open(wish, at, true);
        for lease in guard.leases() {
            let id = id_of(lease, ids, wish);
            self.expect_label(lease, wish);
            let token = self.got_one(&lease.handle(), &id, at);
            // An adoption hands a grant on.
            if let Some(token) = token.filter(|_| self.deployment.syncs() && wish.ticket.is_none())
            {
                self.expect_confirmed(lease.key().as_ref(), token);
            }
        }
    }

    /// Notes the grant of one lease. Returns its token.
    pub(super) fn got_one(&self, lease: &LeaseHandle, id: &str, at: Nanos) -> Option<u64> {
        let token = lease.fence().ok().map(u64::from);
        self.note(Line::Got { id: id.to_owned(), at, token });
        let wrong =
            lease.remaining().is_zero().then(|| format!("{id} has got a lease that has ended"));
        self.shared.judge("granted", wrong);
        if let Some(token) = token.filter(|_| !matches!(self.deployment, Deployment::Quorum(_))) {
            self.expect_asked(lease.key().as_ref(), id, token);
        }
        token
    }

    /// Holds for some time, looks again and again, and lets go.
    pub(super) async fn hold(&self, guard: Guard, ids: &[String], wish: &Wish, rng: &mut Rng) {
        let time = match rng.u8(..20) {
            0 => millis(rng, 0..3_000),
            1..=4 => millis(rng, 0..150 * self.version.pace),
            _ => millis(rng, 0..8 * self.version.pace),
        };
        let renews = rng.u8(..8) == 0;
        let longer = if rng.u8(..4) == 0 { millis(rng, 0..9_000) } else { Duration::ZERO };
        let looking = Box::pin(self.look_for(&guard, ids, wish, (time, longer), renews));
        if rng.u8(..6) == 0 {
            match guard.run(looking).await {
                Ok(()) => {}
                Err(LockError::Lost { .. }) => {
                    if !self.look(&guard, ids, wish) {
                        self.says_wrongly("work was dropped, and its lease is held", &ids[0]);
                    }
                }
                Err(error) => self.says_wrongly(&reason(&error), &ids[0]),
            }
        } else {
            looking.await;
        }
        self.let_go(guard, ids, wish, rng).await;
    }

    async fn look_for(
        &self,
        guard: &Guard,
        ids: &[String],
        wish: &Wish,
        (time, mut longer): (Duration, Duration),
        renews: bool,
    ) {
        let mut until = tokio::time::Instant::now() + time;
        let since = now();
        loop {
            let is_lost = self.look(guard, ids, wish);
            if wish.is_renewed && wish.max_hold.is_none() && wish.ticket.is_none() {
                let leases = guard.leases();
                leases.for_each(|lease| self.expect_renewed(lease, since, wish.ttl));
            }
            if self.holds_on() {
                until += std::mem::take(&mut longer);
            }
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() || is_lost || self.is_to_stop() {
                break;
            }
            sleep(left.min(LOOK)).await;
            if renews {
                self.renew(guard, &ids[0]).await;
            }
        }
    }

    /// Notes what the holder believes. Returns true if it has lost a lease.
    pub(super) fn look(&self, guard: &Guard, ids: &[String], wish: &Wish) -> bool {
        let mut is_lost = false;
        for lease in guard.leases() {
            let (id, at, left) = (id_of(lease, ids, wish), now(), lease.remaining());
            if left.is_zero() {
                is_lost = true;
                // The server keeps it until it is released: nothing has taken it.
                match lease.state() {
                    LeaseState::Lost(LossReason::Replaced) if wish.replaces => {}
                    LeaseState::Lost(LossReason::ShutDown) if self.is_ending() => {}
                    LeaseState::Lost(LossReason::Replaced | LossReason::ShutDown) => {
                        self.says_wrongly("nobody has asked for that loss", &id);
                    }
                    _ => self.note(Line::Lost { id, at }),
                }
            } else {
                self.held(id, at, wish.ttl, left);
                self.expect_outlasted(lease, wish.ttl, left);
            }
        }
        is_lost
    }

    /// After a lost connection, a client asks before it takes up an idle lease: the server may have
    /// forgotten it.
    fn expect_asked(&self, lock: &str, id: &str, token: u64) {
        let (mut seen, mut is_lost) = (None, false);
        process::in_network(|network, now| {
            seen = network.seen_end(process::id(), lock);
            is_lost = network.knows_of_loss(process::id(), lock, token, now);
        });
        let Some(seen) = seen.filter(|seen| self.shared.was_idle(id, *seen)) else { return };
        let wrong = is_lost.then(|| {
            format!(
                "{} takes up `{lock}` by {token} for {id}, asks nobody, and knows since {} that the \
                 server has ended",
                self.name,
                time(seen)
            )
        });
        self.shared.judge("idle", wrong);
    }

    /// With `sync_replicas`, a grant counts only once a replica has it.
    fn expect_confirmed(&self, lock: &str, token: u64) {
        let mut is_confirmed = None;
        process::in_network(|network, _| is_confirmed = network.is_confirmed(lock, token));
        let Some(is_confirmed) = is_confirmed else { return };
        let wrong = (!is_confirmed).then(|| {
            format!("{} has `{lock}` by {token}, and no replica has confirmed that", self.name)
        });
        self.shared.judge("sync", wrong);
    }

    /// A holder believes in its lease for no longer than the server does. Where servers vote, or one may
    /// have forgotten something, nothing is said.
    fn expect_outlasted(&self, lease: &Lease, ttl: Duration, left: Duration) {
        if self.deployment != Deployment::Single
            || self.shared.excuse("belief", &self.name, (now(), now()))
        {
            return;
        }
        let Ok(token) = lease.fence() else { return };
        let (lock, mut lasts) = (lease.key().as_ref(), None);
        process::in_network(|network, now| lasts = network.lasts(now, lock, u64::from(token)));
        let left = self.clocks.promised(ttl.max(LONGEST_LIVE), process::lasts(left));
        let Some(lasts) = lasts.map(Duration::from_micros) else { return };
        let wrong = (lasts < left).then(|| {
            format!(
                "{} takes `{lock}` for its own for {left:?}, and the server for {lasts:?}, at {} ns",
                self.name,
                now()
            )
        });
        self.shared.judge("belief", wrong);
    }

    /// Notes that a holder believes in its lease, and for how long it may.
    pub(super) fn held(&self, id: String, at: Nanos, ttl: Duration, left: Duration) {
        let left = self.clocks.promised(ttl.max(LONGEST_LIVE), process::lasts(left));
        if !left.is_zero() {
            self.note(Line::Held { id, at, left: nanos(left) });
        }
    }

    /// Renews by hand.
    async fn renew(&self, guard: &Guard, id: &str) {
        let renewed = async {
            match guard {
                Guard::One(lease) => lease.renew().await,
                Guard::All(leases) => leases.renew().await,
            }
        };
        let renewed = self.asked(format!("a renewal of {id}"), RENEWS, renewed).await;
        if let Err(error) = renewed {
            let why = reason(&error);
            if !["lost", "dropped", "store", "quorum"].contains(&&*why) {
                self.says_wrongly(&format!("a renewal: {why}"), id);
            }
        }
    }

    fn says_wrongly(&self, what: &str, id: &str) {
        self.shared.violation(format!("lease: {what}: {id} at {} ns", now()));
    }

    pub(super) async fn let_go(&self, guard: Guard, ids: &[String], wish: &Wish, rng: &mut Rng) {
        self.calls.lets_go(&guard, wish);
        let at = now();
        for id in ids {
            self.note(Line::End { id: id.clone(), at });
        }
        let how = match guard {
            guard if rng.u8(..5) == 0 => {
                drop(guard);
                "dropped".to_owned()
            }
            Guard::One(lease) if wish.may_travel() && self.may_travel() && rng.u8(..8) == 0 => {
                self.detach(*lease, &ids[0], wish).await
            }
            Guard::One(lease) => match wish.succeeds {
                Some(succeeds) if rng.u8(..4) > 0 => self.complete(*lease, &ids[0], succeeds).await,
                _ => self.release(*lease, &ids[0], wish, rng).await,
            },
            Guard::All(leases) => {
                let call = format!("the release of {}", ids.join(", "));
                let released = self.asked(call, RELEASES, leases.release()).await;
                released.map_or_else(|error| reason(&error), |()| "free".to_owned())
            }
        };
        self.calls.let_go(wish, &how);
        let at = now();
        for id in ids {
            self.note(Line::Freed { id: id.clone(), at, how: how.clone() });
        }
    }

    async fn release(&self, lease: Lease, id: &str, wish: &Wish, rng: &mut Rng) -> String {
        let (is_now, neglect) = (rng.u8(..8) == 0, Neglect::of_release(rng));
        let release =
            async { if is_now { lease.release_now().await } else { lease.release().await } };
        let Some(neglect) = neglect else {
            let how = self.asked(format!("the release of {id}"), RELEASES, release).await;
            if is_now && matches!(how, Ok(Released::Lingers)) {
                self.says_wrongly("it lingers, and was to be free", id);
            }
            return how.map_or_else(|it| reason(&it), released);
        };
        match neglected(release, neglect, || self.leaves_alone(neglect, wish)).await {
            Some(Ok(how)) => released(how),
            // It is not renewed once the release has begun. On a cluster a client may have to listen
            // first before it asks whether the lease may linger.
            Some(Err(LockError::Lost { .. })) | None => "dropped".to_owned(),
            Some(Err(error)) => reason(&error),
        }
    }

    /// Lets the lease go to another process.
    async fn detach(&self, lease: Lease, id: &str, wish: &Wish) -> String {
        match self.asked(format!("the ticket of {id}"), TRAVELS_ON, lease.detach()).await {
            Ok(ticket) => {
                self.shared.put_ticket(Travelling {
                    part: wish.parts[0],
                    owner: wish.owner.clone(),
                    is_named: wish.is_named,
                    ttl: wish.ttl,
                    of: id.to_owned(),
                    ticket,
                });
                "detached".to_owned()
            }
            Err(error) => reason(&error),
        }
    }

    /// Says that the work has succeeded.
    async fn complete(&self, lease: Lease, id: &str, succeeds: Succeeds) -> String {
        let tick = lease.tick().map(|tick| tick.began);
        if tick.is_some() != matches!(succeeds, Succeeds::OncePer(_)) {
            self.says_wrongly("work has a tick, or has none", id);
        }
        match self.asked(format!("the completion of {id}"), RELEASES, lease.complete()).await {
            Ok(()) => {
                let tick = tick.unwrap_or(UNIX_EPOCH);
                let tick = tick.duration_since(UNIX_EPOCH).expect("after 1970");
                let tick = u64::try_from(tick.as_millis()).expect("some milliseconds");
                self.note(Line::Done { id: id.to_owned(), at: now(), tick });
                "free".to_owned()
            }
            Err(error) => reason(&error),
        }
    }

    fn may_travel(&self) -> bool {
        matches!(self.client, Client::All(_))
    }
}

fn released(how: Released) -> String {
    match how {
        Released::Free => "free",
        Released::StillHeld(_) => "still",
        Released::Kept => "kept",
        Released::Lingers => "lingers",
        _ => "unknown",
    }
    .to_owned()
}
