//! A server in its place: with a clock of its own, and in whatever condition it is.

use fastrand::Rng;

use super::Micros;
use crate::clocks::Rate;
use crate::server::session::SessionId;
use crate::server::{Server, Settings};

/// When each world begins: 2026-01-01, in microseconds since 1970.
pub const BEGINNING_US: i64 = 1_767_225_600_000_000;

/// Whether a server does anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Up,
    /// It does nothing until then. Its connections stay.
    FrozenUntil(Micros),
    /// Its process has ended.
    Down,
}

/// A server and its machine.
#[derive(Debug)]
pub struct Host {
    pub server: Server,
    pub condition: Condition,
    /// By how much its clock was set ahead of true time.
    set_us: i64,
    /// The furthest that it was ever ahead.
    most_ahead_us: i64,
    /// By how much it had drifted then, and how fast it is since.
    drifted: (i64, Micros),
    rate: Rate,
    /// The number of its machine, and how often it has started: its process's id follows from them.
    number: u32,
    starts: u32,
}

impl Host {
    /// Starts a server on the machine of this number.
    pub fn start(number: u32, settings: Settings) -> Self {
        Self::start_as(number, settings, Server::new)
    }

    /// The same with a server of another kind, which `start` makes of its settings and the time.
    pub fn start_as(
        number: u32,
        settings: Settings,
        start: impl FnOnce(Settings, i64) -> Server,
    ) -> Self {
        let settings = Settings { run_id: run_id(number, 1), ..settings };
        Self {
            server: start(settings, BEGINNING_US),
            condition: Condition::Up,
            set_us: 0,
            most_ahead_us: 0,
            drifted: (0, 0),
            rate: Rate::default(),
            number,
            starts: 1,
        }
    }

    /// The time since 1970 that its clock shows.
    pub fn clock(&self, now: Micros) -> i64 {
        let signed = i64::try_from(now).expect("a world does not last that long");
        BEGINNING_US + signed + self.ahead_us(now)
    }

    /// By how much its clock is ahead of true time.
    pub fn ahead_us(&self, now: Micros) -> i64 {
        self.set_us + self.drifted_us(now)
    }

    /// The furthest that its clock was ever set ahead. What was stored then lasts until it is that time again.
    pub fn most_ahead_us(&self) -> i64 {
        self.most_ahead_us
    }

    /// By how much of that it has drifted.
    pub fn drifted_us(&self, now: Micros) -> i64 {
        let (drifted_us, since) = self.drifted;
        drifted_us + self.rate.gained(now.saturating_sub(since))
    }

    /// Its clock is set, and goes on as fast as before.
    pub fn set_ahead_us(&mut self, now: Micros, ahead_us: i64) {
        self.set_us = ahead_us - self.drifted_us(now);
        self.most_ahead_us = self.most_ahead_us.max(ahead_us);
    }

    /// From now on, its clock is faster by so many millionths.
    pub fn set_drift(&mut self, now: Micros, drift: i64) {
        self.drifted = (self.drifted_us(now), now);
        self.rate = Rate::faster_by(drift);
    }

    /// By how many millionths its clock is faster.
    pub fn drift(&self) -> i64 {
        self.rate.faster
    }

    /// The user may not call this command, or may again.
    pub fn forbid(&mut self, command: &str, is_forbidden: bool) {
        let forbidden = &mut self.server.core().borrow_mut().condition.forbidden;
        if is_forbidden {
            forbidden.insert(command.to_owned());
        } else {
            forbidden.remove(command);
        }
    }

    /// Deletes one of its keys. Returns its name.
    pub fn delete_any(&mut self, rng: &mut Rng) -> Option<String> {
        let name = {
            let core = self.server.core().borrow();
            let keys = core.databases.get(&0)?.live(core.now_us / 1_000);
            rng.choice(keys.map(|(key, _)| key.to_vec()).collect::<Vec<_>>())?
        };
        self.server.remove(&name);
        Some(String::from_utf8_lossy(&name).into_owned())
    }

    /// The token of a lock, and how long its last lease lasts here, in true time; `None` if nobody has it.
    pub(super) fn lasts(&self, now: Micros, lock: &str) -> Option<(u64, Micros)> {
        let (token, ends_ms) = self.server.lease_end(lock)?;
        let left = ends_ms.saturating_mul(1_000).saturating_sub(self.clock(now));
        Some((token, self.rate.passed(Micros::try_from(left).unwrap_or_default())))
    }

    /// Until when it does nothing; 0 if it is not frozen.
    pub(super) fn frozen_until(&self) -> Micros {
        match self.condition {
            Condition::FrozenUntil(until) => until,
            Condition::Up | Condition::Down => 0,
        }
    }

    pub(super) fn heal(&mut self) {
        self.server.disturb_messages(None);
        self.server.end_oddities();
        self.condition = Condition::Up;
        let core = self.server.core();
        core.borrow_mut().condition = crate::server::core::Condition::default();
    }

    /// Starts it again after its end, with the keys that it had or without.
    pub fn restart(&mut self, keeps_keys: bool, now: Micros) {
        self.starts += 1;
        self.condition = Condition::Up;
        let run_id = run_id(self.number, self.starts);
        self.server.restart(run_id, keeps_keys, self.clock(now));
    }

    pub(super) fn connect(&mut self, from: String, now: Micros) -> SessionId {
        self.server.set_clock(self.clock(now));
        self.server.connect(from)
    }

    pub(super) fn disconnect(&mut self, session: SessionId) {
        self.server.disconnect(session);
    }

    pub(super) fn receive(&mut self, session: SessionId, bytes: &[u8], now: Micros) {
        self.server.set_clock(self.clock(now));
        self.server.receive(session, bytes);
    }

    /// What it does unasked, now and then.
    pub(super) fn tick(&mut self, now: Micros) {
        if self.condition == Condition::Down || self.frozen_until() > now {
            return;
        }
        self.server.set_clock(self.clock(now));
        self.server.tick();
    }

    /// What it has written, by connection. Nothing instead of bytes: it closes the connection.
    pub(super) fn take_output(&mut self) -> Vec<(SessionId, Option<Vec<u8>>)> {
        let ids: Vec<_> = self.server.pending().collect();
        let mut written = Vec::with_capacity(ids.len());
        for id in ids {
            while let Some(output) = self.server.take_output(id).filter(|it| !it.is_empty()) {
                written.push((id, Some(output)));
            }
            if !self.server.has(id) {
                written.push((id, None));
            }
        }
        written
    }
}

fn run_id(number: u32, starts: u32) -> String {
    format!("{number:020x}{starts:020x}")
}
