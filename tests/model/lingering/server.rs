//! The server: the record, the queue, and the scripts, each of them one step.

use super::mistake::Mistake;
use crate::messages::RequestId;
use crate::queue::{Waiter, enqueue};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Command {
    Ask {
        is_try: bool,
        position: Option<u8>,
    },
    /// The client wants to keep the lease without using it.
    Linger {
        /// A task uses it: more tokens are wanted.
        in_use: bool,
    },
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Granted {
        token: u8,
        window: u8,
    },
    Queued {
        position: u8,
        window: u8,
    },
    Refused,
    /// The lease lingers. The client has all tokens up to this one.
    Kept {
        last_token: u8,
        window: u8,
    },
    /// Others wait, and the lease is in use.
    Wanted,
    /// The request holds nothing, or nothing any more.
    Ended,
}

/// A command on its way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sent {
    pub(super) id: RequestId,
    pub(super) command: Command,
    /// The client still waits for the answer.
    pub(super) is_awaited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Mark {
    None,
    Lingers,
    Recalled,
}

/// Flaws that no state may have, noted when they happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Flaw {
    RepeatedToken,
    FreedAnothers,
}

/// The server and the time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) holder: Option<RequestId>,
    pub(super) mark: Mark,
    ended: Option<RequestId>,
    /// In the order of positions.
    pub(super) queue: Vec<Waiter>,
    last_position: u8,
    /// The token of the last grant or reservation. The clock is past it at the next, because time
    /// passes between commands.
    clock: u8,
    /// The greatest token of any holder.
    pub(super) used: u8,
    /// How many windows of each client's requests have ended.
    windows: [[u8; Self::SERIALS]; 2],
    /// The requests whose lease was taken by force, and whose window has not ended.
    pub(super) forced: Vec<RequestId>,
    pub(super) flaw: Option<Flaw>,
}

impl Server {
    const SERIALS: usize = 5;

    pub(super) const fn new() -> Self {
        Self {
            holder: None,
            mark: Mark::None,
            ended: None,
            queue: Vec::new(),
            last_position: 0,
            clock: 0,
            used: 0,
            windows: [[0; Self::SERIALS]; 2],
            forced: Vec::new(),
            flaw: None,
        }
    }

    pub(super) fn window(&self, id: RequestId) -> u8 {
        self.windows[usize::from(id.client)][usize::from(id.serial)]
    }

    pub(super) fn has_waiters(&self) -> bool {
        self.queue.iter().any(|waiter| waiter.is_live)
    }

    /// Ends the request's lease or heartbeat.
    pub(super) fn expire(&mut self, id: RequestId) {
        self.windows[usize::from(id.client)][usize::from(id.serial)] += 1;
        self.forced.retain(|forced| *forced != id);
        if self.holder == Some(id) {
            (self.holder, self.mark, self.ended) = (None, Mark::None, None);
        }
        for waiter in &mut self.queue {
            waiter.is_live &= waiter.id != id;
        }
    }

    /// Takes the lock from its holder, who is returned.
    pub(super) fn force(&mut self) -> Option<RequestId> {
        let id = self.holder.take()?;
        self.mark = Mark::None;
        self.clock += 1;
        self.forced.push(id);
        Some(id)
    }

    /// Runs a command's script. Says whether it recalls the lease, and of whom.
    pub(super) fn run(
        &mut self,
        id: RequestId,
        command: Command,
        mistake: Mistake,
    ) -> (Answer, Option<u8>) {
        let before = self.holder;
        let outcome = match command {
            Command::Ask { is_try, position } => self.ask(id, is_try, position, mistake),
            Command::Linger { in_use } => (self.linger(id, in_use, mistake), None),
            Command::Release => (self.release(id), None),
        };
        if before.is_some_and(|holder| holder != id) && self.holder != before {
            self.flaw = Some(Flaw::FreedAnothers);
        }
        outcome
    }

    fn ask(
        &mut self,
        id: RequestId,
        is_try: bool,
        position: Option<u8>,
        mistake: Mistake,
    ) -> (Answer, Option<u8>) {
        let window = self.window(id);
        if self.holder == Some(id) {
            return (Answer::Granted { token: self.clock, window }, None);
        }
        if self.ended == Some(id) {
            return (Answer::Ended, None);
        }
        let mut place = 0;
        if !is_try {
            place = enqueue(&mut self.queue, &mut self.last_position, id, position);
        }
        if self.holder.is_none() {
            self.hand_over();
        }
        if self.holder.is_none() {
            self.grant(id);
        }
        if self.holder == Some(id) {
            return (Answer::Granted { token: self.clock, window }, None);
        }
        let is_first = self.queue.first().is_some_and(|first| first.id == id);
        let recalled = (is_try || is_first).then(|| self.recall(!is_try, mistake)).flatten();
        (
            if is_try { Answer::Refused } else { Answer::Queued { position: place, window } },
            recalled,
        )
    }

    /// Recalls the lease once, or again if `repeats`.
    fn recall(&mut self, repeats: bool, mistake: Mistake) -> Option<u8> {
        let repeats = repeats && mistake != Mistake::RecallsOnce;
        let is_told = self.mark == Mark::Lingers || repeats && self.mark == Mark::Recalled;
        let holder = self.holder.filter(|_| is_told)?;
        self.mark = Mark::Recalled;
        Some(holder.client)
    }

    fn linger(&mut self, id: RequestId, in_use: bool, mistake: Mistake) -> Answer {
        if self.holder != Some(id) {
            if mistake != Mistake::RenewsAnothers || self.holder.is_none() {
                return Answer::Ended;
            }
            self.holder = Some(id);
        }
        if self.has_waiters() && mistake != Mistake::MarksBesideWaiters {
            if in_use {
                return Answer::Wanted;
            }
            return self.release(id);
        }
        self.mark = Mark::Lingers;
        self.clock += 1;
        Answer::Kept { last_token: self.clock, window: self.window(id) }
    }

    fn release(&mut self, id: RequestId) -> Answer {
        if self.holder == Some(id) {
            (self.holder, self.mark, self.ended) = (None, Mark::None, Some(id));
            self.hand_over();
        } else {
            self.queue.retain(|waiter| waiter.id != id);
        }
        Answer::Ended
    }

    /// Gives the lock to the first live waiter.
    fn hand_over(&mut self) {
        while !self.queue.is_empty() {
            let head = self.queue.remove(0);
            if head.is_live {
                return self.grant(head.id);
            }
        }
    }

    fn grant(&mut self, id: RequestId) {
        self.clock += 1;
        self.holder = Some(id);
        self.mark = Mark::None;
        self.uses(self.clock);
    }

    /// A holder has this token.
    pub(super) fn uses(&mut self, token: u8) {
        if token <= self.used {
            self.flaw = Some(Flaw::RepeatedToken);
        }
        self.used = self.used.max(token);
    }
}
