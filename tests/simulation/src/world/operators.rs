//! Operators, who change the limits of semaphores while others use them, and let jobs run again.
//!
//! A limit that they set is never above that of a version, so the rules of the history hold. What
//! they close stays closed: once every process must know it, nobody may get in.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use leasehold::Locks;
use leasehold_history::{Kind, Line, Nanos};
use tokio::time::sleep;

use super::answers::CHANGES;
use super::jobs::JOB;
use super::metrics::series;
use super::turns::{Worker, millis, nanos, now};
use super::wishes::{PERMITS, Part, SEATS, Wish};

/// A process that hears nothing looks every ten seconds, and its look may be late, or lost.
const KNOWN: Duration = Duration::from_secs(25);

/// A command may arrive late, and be sent again.
const ARRIVES: Duration = Duration::from_secs(10);

impl Worker {
    /// Looks at all locks, and then sets a limit for some time, or lets the job run again.
    pub(super) async fn turn_as_operator(self: &Arc<Self>, locks: &Locks, rng: &mut Rng) {
        Box::pin(self.look_around(locks)).await;
        if rng.bool() {
            let (lock, from) = (JOB.to_owned(), now());
            self.note(Line::Again { lock, from, to: from + nanos(ARRIVES) });
            let again = locks.run_again(JOB, &self.name, "a test");
            let _again = self.asked("run_again".to_owned(), CHANGES, again).await;
            return;
        }
        let (lock, most) = if rng.u8(..4) == 0 { (PERMITS, 1) } else { (SEATS, 2) };
        if !self.shared.begins_as_operator(lock) {
            return;
        }
        let limit = if rng.u8(..3) == 0 { 0 } else { rng.u32(1..=most) };
        let handle = || locks.limits().name(lock).by(&self.name).why("a test");
        let set = async { handle().set(limit).await };
        let is_set = self.asked(format!("a limit of `{lock}`"), CHANGES, set).await.is_ok();
        if is_set && limit == 0 {
            self.shared.note_closed(lock, Some(now()));
            // Its own client knows at once.
            self.calls.others([series(Kind::Permits, false)]);
            let gets_in = locks.semaphore(lock, 1).try_acquire().await.is_ok();
            let wrong = gets_in.then(|| format!("{} has closed `{lock}`, and gets in", self.name));
            self.shared.judge("own limit", wrong);
        }
        // The many who use the permits are not to stand still for long. Most other limits stand until all must
        // know them.
        let is_short = lock == PERMITS && limit == 0 || rng.u8(..3) == 0;
        let time = millis(rng, if is_short { 0..3_000 } else { 24_000..48_000 });
        tokio::select! {
            () = sleep(time) => {}
            () = self.shared.ending(&self.name) => {}
        }
        self.shared.note_closed(lock, None);
        while handle().unset().await.is_err() && !self.is_ending() {
            sleep(millis(rng, 0..500)).await;
        }
        self.shared.ends_as_operator(lock);
    }

    /// Nobody gets a permit of what was closed long ago. Looks at a request that gets one, or is told that
    /// it is closed.
    pub(super) fn expect_open(&self, wish: &Wish, at: Nanos, gets_in: bool) {
        for Part { lock, .. } in &wish.parts {
            if self.shared.closed(lock).is_some_and(|since| since + nanos(KNOWN) < at)
                && !self.shared.excuse("closed", &self.name, (now(), now()))
            {
                let wrong =
                    gets_in.then(|| format!("{} gets in, and `{lock}` is closed", self.name));
                self.shared.judge("closed", wrong);
            }
        }
    }
}
