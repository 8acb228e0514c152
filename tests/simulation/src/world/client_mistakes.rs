//! Mistakes that can be planted in the client: the simulation must find each of them, too. This
//! project made and mended most of them, or found them in others. A copy of the client is built with
//! all of them, each behind a switch.

#[path = "../../../harness/planting.rs"]
mod planting;

use self::planting::Mistake;

/// A mistake in the client.
#[derive(Debug)]
pub struct ClientMistake {
    planted: Mistake,
    /// Within so many seeds of 30 s it is found; 0: no world is known to find it.
    pub within: u64,
}

const fn mistake(
    name: &'static str,
    within: u64,
    file: &'static str,
    code: &'static str,
    wrong: &'static str,
) -> ClientMistake {
    ClientMistake { planted: Mistake { name, file, code, wrong }, within }
}

/// All of them. Six seeds of 20 s were tried with each, and found those that have a number. The others
/// show where the worlds are blind: a lease that is held for nobody until its TTL breaks no rule, nor
/// does an idle lease that outlives its `linger`, and forged messages seldom fit a waiter.
pub const CLIENT_MISTAKES: &[ClientMistake] = &[
    mistake(
        "nobody-cancels-after-giving-up",
        40,
        "client/in_flight.rs",
        "self.client.keeper.cancel_later(requests(), self.command.take(), outcome);",
        "drop((requests(), self.command.take(), outcome));",
    ),
    mistake(
        "a-late-copy-is-not-cancelled-again",
        0,
        "keeper/release.rs",
        "later(Box::pin(again), late);",
        "drop((again, late, later));",
    ),
    mistake(
        "a-late-grant-stays-after-the-release",
        0,
        "keeper/release.rs",
        "cancel_all(&store, &limit, std::slice::from_ref(&local.request)).await;",
        "",
    ),
    mistake(
        "a-forgetting-release-leaves-late-copies",
        0,
        "state/lease.rs",
        "may_forget && self.is_all_answered",
        "may_forget",
    ),
    mistake(
        "an-offer-is-believed-to-its-heartbeat",
        0,
        "client/pending.rs",
        "live.saturating_sub(offer.early)",
        "live",
    ),
    mistake(
        "an-offer-is-believed-for-the-whole-ttl",
        0,
        "client/pending.rs",
        "OFFER.min(self.request.ttl)",
        "self.request.ttl",
    ),
    mistake(
        "an-offer-that-had-ended-is-taken",
        0,
        "client/pending.rs",
        "offer.until >= heartbeat.until",
        "true",
    ),
    mistake(
        "a-deadline-counts-from-the-answer",
        0,
        "client/pending.rs",
        "GrantTimes::by_command(self.in_flight.sent, self.request.ttl)",
        "GrantTimes::by_command(self.now(), self.request.ttl)",
    ),
    mistake(
        "a-renewal-counts-from-its-answer",
        40,
        "keeper/renew.rs",
        "local.extend(sent, ttl);",
        "local.extend(crate::system::now_since_boot(), ttl);",
    ),
    mistake(
        "a-suspension-does-not-count",
        0,
        "system.rs",
        "world.suspended()",
        "{ let _ = world; Duration::ZERO }",
    ),
    mistake(
        "a-forged-offer-is-believed",
        0,
        "store/redis/secret.rs",
        "(self.proof(message).as_bytes() == proof).then_some(message)",
        "{ let _ = proof; Some(message) }",
    ),
    mistake(
        "an-old-connection-is-not-killed",
        0,
        "store/redis/handshake.rs",
        "connector.server.abandoned_at(server)",
        "Vec::<LinkName>::new()",
    ),
    mistake(
        "a-repeated-ask-has-another-id",
        0,
        "client/pending.rs",
        "self.in_flight.send(|store| Some(store.acquire(&self.request, waiting)));",
        "if self.in_flight.unanswered_since().is_some() {
             self.request.id = self.client().next_request();
         }
         self.in_flight.send(|store| Some(store.acquire(&self.request, waiting)));",
    ),
    mistake(
        "an-idle-lease-is-taken-up-unasked",
        0,
        "local_queue/idle.rs",
        "need.whole || by_renewal.max(by_refill) < need.since",
        "{ let _ = by_renewal.max(by_refill); false }",
    ),
    mistake(
        "an-idle-lease-outlives-its-linger",
        0,
        "local_queue/lingering/timer.rs",
        "since + linger.lasts <= now || is_over",
        "is_over",
    ),
    mistake(
        "a-recalled-lease-lingers-on",
        0,
        "local_queue/idle.rs",
        "turn.linger.as_mut().filter(|linger| !linger.is_recalled())?",
        "turn.linger.as_mut()?",
    ),
    mistake(
        "nobody-answers-a-recall",
        0,
        "hints.rs",
        "self.idle.tell(|idle| idle.recalled(&key))",
        "drop(key)",
    ),
    mistake(
        "the-next-task-has-the-same-token",
        40,
        "local_queue/handoff.rs",
        "Fence::new(fence.get() + 1)",
        "fence",
    ),
    mistake(
        "a-turn-has-no-end",
        0,
        "local_queue/turns.rs",
        "self.add(Turn { id, weight, ends, left: TOKENS - 1, handoff: None, linger: None });",
        "let ends = ends + NEVER;
         self.add(Turn { id, weight, ends, left: u64::MAX, handoff: None, linger: None });",
    ),
    mistake(
        "an-offer-of-work-has-no-tick",
        200,
        "client/pending.rs",
        "self.heartbeat.filter(|_| !is_once)",
        "{ let _ = is_once; self.heartbeat }",
    ),
    mistake(
        "a-ticket-travels-before-late-copies",
        0,
        "engine/lease/detach.rs",
        "self.until_all_has_arrived().await?;",
        "",
    ),
    mistake(
        "a-release-is-passed-by-the-next-ask",
        0,
        "engine/acquire/single.rs",
        "refusal.is_refusal()",
        "false",
    ),
    mistake(
        "a-majority-is-half",
        40,
        "store/quorum/members.rs",
        "members.len() / 2 + 1",
        "(members.len() / 2).max(1)",
    ),
];

/// Added to the client's root: says which mistake is switched on.
const SWITCH: &str = "
pub(crate) fn is_planted(mistake: &str) -> bool {
    static PLANTED: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var(\"LEASEHOLD_PLANTED\").unwrap_or_default());
    *PLANTED == mistake
}
";

impl ClientMistake {
    pub fn name(&self) -> &'static str {
        self.planted.name
    }

    /// The mistake of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        CLIENT_MISTAKES.iter().find(|mistake| mistake.planted.name == name)
    }

    /// A file of `runtime/src` with all mistakes in it, each behind its switch.
    ///
    /// # Panics
    ///
    /// If the code of a mistake does not occur exactly once.
    pub fn plant_all(file: &str, text: String) -> String {
        let text = if file == "lib.rs" { text + SWITCH } else { text };
        let here = CLIENT_MISTAKES.iter().filter(|mistake| mistake.planted.file == file);
        here.fold(text, |text, mistake| mistake.planted.plant(&text))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_code_is_in_its_file_once() {
        for ClientMistake { planted: Mistake { name, file, code, wrong }, .. } in CLIENT_MISTAKES {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/src").join(file);
            let text = std::fs::read_to_string(path).unwrap();
            assert!(code != wrong && text.matches(code).count() == 1, "{name}");
            assert!(ClientMistake::plant_all(file, text).contains(wrong), "{name}");
        }
    }
}
