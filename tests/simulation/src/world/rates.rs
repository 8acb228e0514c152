//! Rates, alone and beside locks. What is taken is used or given back, also by those who die.

use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use leasehold::layer::LayerLock;
use leasehold::{LockError, Locks, Rate};
use leasehold_history::Nanos;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::answers::ACQUIRES;
use super::director::Director;
use super::shared::Shared;
use super::turns::{Worker, millis, now};

/// Versions disagree on their bursts.
pub(super) const RATES: [(&str, Rate); 2] = [
    ("rate", Rate::per_second(20).burst(6)),
    ("of:{7}:rate", Rate::new(3, Duration::from_millis(200))),
];

/// How long a task waits for a rate.
const WAITS: [u64; 4] = [0, 50, 400, 3_000];

/// A grant is heard of this much later, and a call asks this much after it was made.
const NEWS: Nanos = 300_000_000;

/// A call of one rate.
#[derive(Debug)]
pub(super) struct RateCall {
    process: String,
    name: &'static str,
    rate: Rate,
    asked: Nanos,
    /// When it was answered, or given up.
    ended: Nanos,
    is_granted: bool,
}

impl RateCall {
    /// True if this call was granted past another, which had asked before.
    fn has_passed(&self, other: &Self) -> bool {
        (self.name, self.rate) == (other.name, other.rate)
            && self.is_granted
            && other.asked + NEWS < self.asked
            && self.ended + NEWS < other.ended
    }
}

impl Worker {
    /// Takes from a rate, or from two together.
    pub(super) async fn turn_at_a_rate(&self, locks: &Locks, rng: &mut Rng) {
        let (name, rate) = RATES[rng.usize(..RATES.len())];
        let rate = if self.version.limit > 2 { rate } else { rate.burst(4) };
        let weight = rng.u32(1..=3);
        let wait = Duration::from_millis(WAITS[rng.usize(..WAITS.len())]);
        // Some are given up on their way.
        let patience = match rng.u8(..6) {
            0 => millis(rng, 0..20),
            1 => millis(rng, 0..1_000),
            _ => Duration::MAX,
        };
        let is_alone = rng.u8(..4) > 0;
        let ask = async || {
            let take = async {
                if is_alone {
                    self.calls.takes();
                    return locks.rate(name, rate).wait(wait).acquire_many(weight).await.map(|_| 1);
                }
                let set =
                    locks.together().rate(RATES[0].0, RATES[0].1).rate(RATES[1].0, RATES[1].1);
                set.wait(wait).lock().await.map(|set| set.rates().len() as u64)
            };
            self.asked(format!("a take of {name}"), ACQUIRES.after(wait), take).await
        };
        // Several at once may share a call of a script.
        let count = rng.u8(1..=4);
        let asked = (0..count).map(|_| async {
            let asked = now();
            let answer = timeout(patience, ask()).await;
            if is_alone {
                let (process, is_granted) = (self.name.clone(), matches!(answer, Ok(Ok(_))));
                let ended = now();
                let call = RateCall { process, name, rate, asked, ended, is_granted };
                self.shared.with_rate_calls(|calls| calls.push(call));
            }
            self.note_rate(answer, wait.saturating_sub(Duration::from_nanos(now() - asked)));
        });
        join_all(asked).await;
    }

    /// Notes the answer of a call that could have waited for so much longer.
    fn note_rate(&self, asked: Result<Result<u64, LockError>, Elapsed>, left: Duration) {
        match asked {
            Ok(Ok(used)) => self.shared.used_rates(used),
            Ok(Err(LockError::RateLimited { retry_after, .. })) => {
                // A burst takes 300 ms, and others have taken for as long as they may wait.
                let is_wrong = retry_after > Duration::from_secs(4)
                    || retry_after + Duration::from_nanos(NEWS) < left;
                let wrong = is_wrong
                    .then(|| format!("it allows more in {retry_after:?}, with {left:?} to wait"));
                self.shared.judge("rate", wrong);
            }
            Ok(Err(LockError::Store { .. } | LockError::ShutDown)) | Err(_) => {}
            Ok(Err(error)) => self.shared.violation(format!("rate: {error}")),
        }
    }
}

/// A rate beside the locks of a set.
pub(super) fn beside(rng: &mut Rng) -> Option<LayerLock> {
    let (name, rate) = RATES[1];
    rng.bool().then(|| LayerLock::rate(name, rate))
}

/// Callers of a rate are served in their order, in all processes.
pub(super) fn check_order(shared: &Shared) {
    let calls = shared.with_rate_calls(std::mem::take);
    for call in &calls {
        let passed = calls.iter().find(|it| it.has_passed(call));
        let wrong = passed.map(|it| format!("{it:?} has passed {call:?}"));
        shared.suspect("rate order", &call.process, (call.asked, call.ended), wrong);
    }
}

/// Whoever goes on has taken something that nobody gives back.
pub(super) fn check(director: &Director) {
    let used = director.shared.all_used_rates();
    let (mut takes, mut given_back) = (0, 0);
    let at = director.now() * 1_000;
    let mut network = director.network();
    for address in network.addresses() {
        if let Some(oracle) = network.host(address).server.oracle() {
            let of_server = oracle.of_rates();
            takes += of_server.0;
            given_back += of_server.1;
        }
    }
    let wrong = (used + given_back > takes)
        .then(|| format!("{takes} were taken, {given_back} given back, and {used} used"));
    if wrong.is_some() || used > 0 {
        director.shared.suspect("used rates", "", (at, at), wrong);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_was_passed_is_told() {
        let call = |asked: u64, ended: u64, is_granted: bool| {
            let (name, rate) = RATES[0];
            let (asked, ended) = (asked * 1_000_000, ended * 1_000_000);
            RateCall { process: "p0".to_owned(), name, rate, asked, ended, is_granted }
        };
        let waits = call(1_000, 2_000, true);
        assert!(call(1_301, 1_699, true).has_passed(&waits));
        assert!(!call(1_300, 1_699, true).has_passed(&waits), "it asked at the same time");
        assert!(!call(1_301, 1_700, true).has_passed(&waits), "both were granted together");
        assert!(!call(1_301, 1_699, false).has_passed(&waits), "it was refused");
        assert!(!waits.has_passed(&call(1_301, 2_400, true)));
    }
}
