//! A history: the requests with all that happened to them, and the faults.

use std::collections::{BTreeMap, HashMap};
use std::ops::AddAssign;

use crate::line::{Kind, Line, Nanos};
use crate::troubles::{Effect, Trouble, Troubles};

/// How many tokens belong to a grant: its own, and those of the leases that follow in its process.
pub(crate) const BLOCK: u64 = 64;

/// One request, as its process saw it.
#[derive(Clone, Debug)]
pub struct Request {
    /// The worker's name, a colon and a number.
    pub id: String,
    /// The name of the lock.
    pub lock: String,
    /// What it asks for.
    pub kind: Kind,
    /// How many permits.
    pub units: u32,
    /// How many permits there are.
    pub limit: u32,
    /// Who asks.
    pub owner: String,
    /// It said who its owner is, also where it need not.
    pub is_named: bool,
    /// Its lease is known to be renewed for as long as it is held.
    pub is_renewed: bool,
    /// For how long a lease lasts that is not renewed.
    pub ttl: Nanos,
    /// For how long it may stay with the process after its release.
    pub linger: Nanos,
    /// For how long a lease lasts at most, from its grant.
    pub max_hold: Option<Nanos>,
    /// How long it stays in the queue at most, if that is bounded.
    pub waits: Option<Nanos>,
    /// For how long its work counts as done, if it has no ticks.
    pub lasts: Option<Nanos>,
    /// When nobody polled its future, and whether it is one of several together.
    pub neglected: Option<(Nanos, Nanos, bool)>,
    /// When it was asked for.
    pub asked: Nanos,
    /// The request whose lease it takes over.
    pub adopts: Option<String>,
    /// When it was granted.
    pub granted: Option<Nanos>,
    /// Its token.
    pub token: Option<u64>,
    /// When the holder last looked and held it.
    pub seen: Option<Nanos>,
    /// Until when the holder believed that it holds it.
    pub deadline: Nanos,
    /// When the holder learned that it was lost.
    pub lost: Option<Nanos>,
    /// When the holder began to release it.
    pub ended: Option<Nanos>,
    /// When the release was answered, and how.
    pub freed: Option<(Nanos, String)>,
    /// When the server had noted that its work has succeeded, and the tick of that work.
    pub done: Option<(Nanos, u64)>,
    /// When it was refused, and why.
    pub refused: Option<(Nanos, String)>,
}

impl Request {
    /// The worker that asked.
    #[must_use]
    pub fn worker(&self) -> &str {
        self.id.split(':').next().unwrap_or_default()
    }

    /// The time in which the holder was sure that it held the lease. `None` if it never was: it may
    /// have been stopped before it looked for the first time.
    #[must_use]
    pub fn held(&self) -> Option<(Nanos, Nanos)> {
        let (granted, seen) = (self.granted?, self.seen?);
        // A lease that was lost before its deadline was not held to its deadline.
        let by_loss = match self.lost {
            Some(lost) if lost < self.deadline => seen,
            _ => self.deadline,
        };
        let end = by_loss.min(self.ended.unwrap_or(Nanos::MAX));
        (granted < end).then_some((granted, end))
    }

    /// The time of the last line about it.
    #[must_use]
    pub fn last(&self) -> Nanos {
        let freed = self.freed.as_ref().map(|(at, _)| *at);
        let refused = self.refused.as_ref().map(|(at, _)| *at);
        let done = self.done.map(|(at, _)| at);
        let answers = [freed, refused, done];
        let all = [Some(self.asked), self.granted, self.seen, self.lost, self.ended];
        all.into_iter().chain(answers).flatten().max().unwrap_or(self.asked)
    }
}

/// What all processes of one deployment wrote down.
#[derive(Debug, Default)]
pub struct History {
    /// All requests, in the order of their lines.
    pub requests: Vec<Request>,
    /// What went wrong.
    pub troubles: Troubles,
    /// The grants that a server lacked when it took over: the first of the tokens, and until when they
    /// are promised, by lock.
    forgotten: HashMap<String, BTreeMap<u64, Nanos>>,
    /// When work was let run again, by lock.
    again: Vec<(String, Nanos, Nanos)>,
    /// When a worker was dead.
    pub(crate) dead: HashMap<String, Nanos>,
    /// What is wrong with the history itself, or with its processes.
    pub(crate) broken: Vec<String>,
    /// How often each fault happened.
    counts: BTreeMap<String, u64>,
    places: HashMap<String, usize>,
}

impl History {
    /// Adds the lines of one file. A last line without its end is left out: its process was killed
    /// while it wrote.
    pub fn read(&mut self, text: &str) {
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in complete.lines() {
            match line.parse() {
                Ok(line) => self.add(line),
                Err(error) => self.broken.push(error),
            }
        }
    }

    /// Adds a line.
    pub fn add(&mut self, line: Line) {
        match line {
            Line::Ask { id, at, lock, kind, units, limit, owner, ttl, linger } => {
                if self.places.insert(id.clone(), self.requests.len()).is_some() {
                    self.broken.push(format!("{id} asked twice"));
                }
                self.requests.push(Request {
                    id,
                    lock,
                    kind,
                    units,
                    limit,
                    owner,
                    ttl,
                    linger,
                    is_named: false,
                    is_renewed: false,
                    max_hold: None,
                    waits: None,
                    lasts: None,
                    neglected: None,
                    asked: at,
                    adopts: None,
                    granted: None,
                    token: None,
                    seen: None,
                    deadline: 0,
                    lost: None,
                    ended: None,
                    freed: None,
                    done: None,
                    refused: None,
                });
            }
            Line::Adopt { id, of } => self.note(&id, |request| request.adopts = Some(of)),
            Line::MaxHold { id, time } => self.note(&id, |request| request.max_hold = Some(time)),
            Line::Waits { id, time } => self.note(&id, |request| request.waits = Some(time)),
            Line::Named { id } => self.note(&id, |request| request.is_named = true),
            Line::Renewed { id } => self.note(&id, |request| request.is_renewed = true),
            Line::Lasts { id, time } => self.note(&id, |request| request.lasts = Some(time)),
            Line::Again { lock, from, to } => self.again.push((lock, from, to)),
            Line::Neglected { id, from, to, is_of_set } => {
                self.note(&id, |request| request.neglected = Some((from, to, is_of_set)));
            }
            Line::Got { id, at, token } => self.note(&id, |request| {
                (request.granted, request.token) = (Some(at), token);
            }),
            Line::Held { id, at, left } => self.note(&id, |request| {
                request.seen = Some(at);
                request.deadline = request.deadline.max(at + left);
            }),
            Line::Lost { id, at } => self.note(&id, |request| request.lost = Some(at)),
            Line::End { id, at } => self.note(&id, |request| request.ended = Some(at)),
            Line::Freed { id, at, how } => {
                self.note(&id, |request| request.freed = Some((at, how)));
            }
            Line::Done { id, at, tick } => {
                self.note(&id, |request| request.done = Some((at, tick)));
            }
            Line::Refused { id, at, why } => {
                self.note(&id, |request| request.refused = Some((at, why)));
            }
            Line::Dead { worker, at, was_planned } => {
                self.count(if was_planned { "deaths" } else { "crashes" });
                if !was_planned {
                    self.broken.push(format!("{worker} ended by itself"));
                }
                self.dead.insert(worker, at);
            }
            Line::Stopped { worker, from, to } => {
                self.count("stops");
                self.stood_still(worker, from, to);
            }
            Line::Stalled { worker, from, to } => self.stood_still(worker, from, to),
            Line::Forgotten { lock, token, until } => {
                let known = self.forgotten.entry(lock).or_default();
                let known = known.entry(token).or_insert(until);
                *known = until.min(*known);
            }
            Line::Fault { effect, from, to, amount, name, whose } => {
                self.count(&name);
                self.troubles.add(Trouble { effect, whose, from, to, amount });
            }
        }
    }

    fn note(&mut self, id: &str, change: impl FnOnce(&mut Request)) {
        match self.places.get(id) {
            Some(&place) => change(&mut self.requests[place]),
            None => self.broken.push(format!("{id} was never asked for")),
        }
    }

    fn count(&mut self, name: &str) {
        *self.counts.entry(name.to_owned()).or_default() += 1;
    }

    /// True if somebody may have let the work of a lock run again in this time.
    #[must_use]
    pub fn may_run_again(&self, lock: &str, from: Nanos, to: Nanos) -> bool {
        self.again.iter().any(|again| again.0 == lock && again.1 <= to && again.2 >= from)
    }

    fn stood_still(&mut self, worker: String, from: Nanos, to: Nanos) {
        let (effect, whose) = (Effect::Still, Some(worker));
        self.troubles.add(Trouble { effect, whose, from, to, amount: 0 });
    }

    /// The times in which a server may forget something.
    pub(crate) fn losses(&self) -> impl Iterator<Item = &Trouble> {
        self.troubles.of(Effect::Forgets).chain(self.troubles.of(Effect::Replaced))
    }

    /// Until when a lease is promised that a server lacked when it took over.
    pub(crate) fn forgotten(&self, request: &Request) -> Option<Nanos> {
        let token = request.token?;
        let of_lock = self.forgotten.get(&request.lock)?;
        of_lock.range(token.saturating_sub(BLOCK - 1)..=token).map(|(_, until)| *until).min()
    }

    /// True if a server may have forgotten something within this time.
    pub(crate) fn may_have_forgotten(&self, from: Nanos, to: Nanos) -> bool {
        self.losses().any(|fault| fault.from <= to && from <= fault.to)
    }

    /// How often what happened.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let count = |is: fn(&Request) -> bool| {
            self.requests.iter().filter(|request| is(request)).count() as u64
        };
        let mut figures = Figures(self.counts.clone());
        figures.add("asked", self.requests.len() as u64);
        figures.add("granted", count(|request| request.granted.is_some()));
        figures.add("refused", count(|request| request.refused.is_some()));
        figures.add("lost", count(|request| request.lost.is_some()));
        figures.add("adopted", count(|it| it.adopts.is_some() && it.granted.is_some()));
        let is_detached =
            |it: &Request| it.freed.as_ref().is_some_and(|(_, how)| how == "detached");
        figures.add("detached", count(is_detached));
        figures.add("limited", count(|it| it.max_hold.is_some() && it.granted.is_some()));
        figures.add("successes", count(|request| request.done.is_some()));
        figures.add("cut-off", count(|it| it.refused.is_none() && it.freed.is_none()));
        figures
    }
}

/// Numbers with names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures(BTreeMap<String, u64>);

impl Figures {
    /// Adds to a number.
    pub fn add(&mut self, name: &str, count: u64) {
        *self.0.entry(name.to_owned()).or_default() += count;
    }

    /// A number; 0 if it is not there.
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }
}

impl AddAssign<&Self> for Figures {
    fn add_assign(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            self.add(name, *count);
        }
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (nth, (name, count)) in self.0.iter().enumerate() {
            write!(f, "{}{count} {name}", if nth == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
