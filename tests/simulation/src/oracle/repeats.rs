//! What a request costs: so many calls at once, and so many a second. And what a failure costs: a client that
//! the server refuses repeats its releases and cancels ever more seldom.

use std::collections::BTreeMap;

use super::call::{Call, Verb};

/// So many failures of one request are no repeats: its caller, its client and their ends may each try.
const OWN: u64 = 8;

/// At least so long is the longest pause, of which chance may take away a part.
const PAUSE_US: i64 = 800_000;

/// A request is sent so often at once: it asks, is told that a lock may be free, hurries.
const AT_ONCE: i64 = 80;

/// And then once in this time: some leases are renewed as often by their callers, and by the keeper, too.
const PERIOD_US: i64 = 12_000;

/// A longer time between two calls is a jump of the clock.
const JUMP_US: i64 = 10_000_000;

/// The releases and cancels that failed, by request.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    failed: BTreeMap<Vec<u8>, Failed>,
    /// By request, when it has made up for all that it has sent, if it sends once in a [`PERIOD_US`].
    sent: BTreeMap<Vec<u8>, i64>,
    last_us: i64,
    /// How much time has passed, without jumps.
    passed_us: i64,
}

#[derive(Debug)]
struct Failed {
    since_us: i64,
    times: u64,
}

impl Repeats {
    /// Which of a call's requests are sent too often.
    pub(super) fn too_often(&mut self, call: &Call<'_>) -> Option<String> {
        let now_us = self.passed_us;
        let mut problem = None;
        for request in &call.requests {
            let id = request.id();
            let ahead_us = self.sent.get(id).map_or(0, |until| (until - now_us).max(0)) + PERIOD_US;
            if ahead_us > AT_ONCE * PERIOD_US {
                problem =
                    Some(format!("it is sent {} times more than it may", ahead_us / PERIOD_US));
            }
            self.sent.insert(id.to_vec(), now_us + ahead_us);
        }
        problem
    }

    /// How many failures a call that the server has answered is, and what is wrong with them.
    pub(super) fn problem(
        &mut self,
        call: &Call<'_>,
        is_failed: bool,
        now_us: i64,
    ) -> (u64, Option<String>) {
        self.passed_us += (now_us - self.last_us).clamp(0, JUMP_US);
        self.last_us = now_us;
        let verb = call.script.verb;
        if !matches!(verb, Verb::Release | Verb::Complete | Verb::Cancel | Verb::GiveBack) {
            return (0, None);
        }
        let locks = call.requests.iter().map(super::call::Request::id);
        let ids = locks.chain(call.parts.iter().map(|part| part.id));
        // What fails together is sent again one by one, at once.
        if is_failed && call.requests.len() > 1 {
            return (0, None);
        }
        if !is_failed {
            ids.for_each(|id| _ = self.failed.remove(id));
            return (0, None);
        }
        let mut problem = None;
        for id in ids {
            let since_us = self.passed_us;
            let failed = self.failed.entry(id.to_vec()).or_insert(Failed { since_us, times: 0 });
            failed.times += 1;
            let passed_us = self.passed_us - failed.since_us;
            let most = OWN + u64::try_from(passed_us / PAUSE_US).unwrap_or_default();
            if failed.times > most {
                let (times, ms) = (failed.times, passed_us / 1_000);
                problem = Some(format!("it fails for the {times}th time in {ms} ms"));
            }
        }
        (1, problem)
    }
}
