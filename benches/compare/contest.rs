//! A contest: one contender after another runs sections under one lock.

use std::ops::Range;
use std::time::Duration;

use crate::bench::{Bench, progress};
use crate::crew::Crew;
use crate::failure::Failure;
use crate::participant::Participant;
use crate::records::Records;
use crate::server::Watched;
use crate::stats::{Spread, real};
use crate::worker::Sections;

/// The work of all participants.
pub(crate) struct Contest {
    pub(crate) processes: usize,
    pub(crate) work: Sections,
    /// The time at the start of each run that is not counted.
    pub(crate) warm_up: Duration,
    pub(crate) rounds: usize,
}

/// The results of one participant.
pub(crate) struct Entry {
    pub(crate) who: Participant,
    pub(crate) rounds: Vec<Round>,
    /// The reason why it has no rounds, or the fault in them.
    pub(crate) remark: String,
}

/// One run of one participant.
pub(crate) struct Round {
    pub(crate) records: Records,
    /// The time that counts: after the warm-up, while new sections begin.
    pub(crate) window: Range<Duration>,
    /// PINGs, paced as the sections are, and one after another.
    pub(crate) pings: [Duration; 2],
    /// Calls of scripts by clients, over all grants.
    pub(crate) scripts_a_grant: f64,
    /// Everything that the server ran, over all grants.
    pub(crate) commands_a_grant: f64,
}

impl Round {
    /// Grants a second.
    pub(crate) fn rate(&self) -> f64 {
        let seconds = self.window.end.saturating_sub(self.window.start).as_secs_f64();
        real(self.records.within(&self.window).len()) / seconds
    }
}

impl Contest {
    /// Runs all participants in turns.
    pub(crate) async fn run(
        &self,
        bench: &mut Bench,
        who: &[Participant],
    ) -> Result<Vec<Entry>, Failure> {
        let server = Watched::start().await?;
        let entry = |who: &Participant| Entry {
            who: who.clone(),
            rounds: Vec::new(),
            remark: String::new(),
        };
        let mut entries: Vec<_> = who.iter().map(entry).collect();
        // A program that measures no PING gets the PING of the one before.
        let mut pings = [Duration::ZERO; 2];
        for round in 1..=self.rounds {
            for entry in &mut entries {
                progress!("{}, round {round} of {}", entry.who.name(), self.rounds);
                match self.once(&server, &entry.who, &mut pings).await {
                    Ok(round) => {
                        self.check(bench, entry, &round.records);
                        entry.rounds.push(round);
                    }
                    Err(error) if entry.who.is_ours() => return Err(error),
                    Err(error) => entry.remark = format!("failed: {error}"),
                }
            }
        }
        Ok(entries)
    }

    /// Checks that no more were inside than the limit allows.
    fn check(&self, bench: &mut Bench, entry: &mut Entry, records: &Records) {
        let (most, limit) = (records.most_at_once(), self.work.limit.unwrap_or(1));
        if self.work.own_keys || most <= limit as usize {
            return;
        }
        entry.remark = format!("violated: {most} inside at once");
        if entry.who.is_ours() {
            bench.violated(format!("{most} inside at once, where {limit} may be"));
        }
    }

    async fn once(
        &self,
        server: &Watched,
        who: &Participant,
        pings: &mut [Duration; 2],
    ) -> Result<Round, Failure> {
        server.clear().await?;
        let work = Sections { url: server.url(), ..self.work.clone() };
        let mut crew = Crew::start(self.processes, || who.command(&work))?;
        *pings = crew.pings().unwrap_or(*pings);
        server.forget_calls().await?;
        let begun = crew.go()?;
        let records = crew.records()?;
        let is_ours = |name: &str| name.starts_with("config") || name.starts_with("info");
        let scripts = server.calls(|name| name.starts_with("eval")).await?;
        let commands = server.calls(|name| !is_ours(name)).await?;
        let grants = real(records.len()).max(1.0);
        Ok(Round {
            window: begun + self.warm_up..begun + Duration::from_millis(work.run_ms),
            pings: *pings,
            scripts_a_grant: real(scripts) / grants,
            commands_a_grant: real(commands) / grants,
            records,
        })
    }
}

/// The rates of an entry's rounds.
pub(crate) fn rates(entry: &Entry) -> Vec<f64> {
    entry.rounds.iter().map(Round::rate).collect()
}

/// The entry of the others with the greatest median rate.
pub(crate) fn best_of_others(entries: &[Entry]) -> Option<&Entry> {
    let median = |entry: &Entry| Spread::of(rates(entry)).median;
    let others = entries.iter().filter(|entry| !entry.who.is_ours() && !entry.rounds.is_empty());
    others.max_by(|a, b| median(a).total_cmp(&median(b)))
}
