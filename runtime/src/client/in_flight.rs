//! A command in flight. If its caller is dropped, the keeper cancels the requests, so no lock
//! stays held without a holder.

use std::future::pending;
use std::sync::Arc;
use std::time::Instant;

use super::Client;
use crate::core::error::Outcome;
use crate::keeper::{ToCancel, UnknownOutcome};
use crate::state::lease::GrantTimes;
use crate::state::shutdown::AcquiringGuard;
use crate::store::{AnswerOf, Reply, Store, StoreError};

/// The command of one or more requests, from the first ask until they are granted or given up.
pub(crate) struct InFlight<T> {
    pub(crate) client: Arc<Client>,
    command: Option<Reply<T>>,
    /// When the last command was sent, read before the store could run it.
    pub(crate) sent: Instant,
    /// The store may know the requests, so they must be cancelled on drop.
    is_armed: bool,
    /// When the first command was sent that got no answer. A copy of it may still arrive.
    unanswered_since: Option<Instant>,
    _acquiring: AcquiringGuard,
}

impl<T: AnswerOf> InFlight<T> {
    pub(crate) fn new(client: &Arc<Client>) -> Self {
        Self {
            client: client.clone(),
            command: None,
            sent: client.store.now(),
            is_armed: false,
            unanswered_since: None,
            _acquiring: AcquiringGuard::new(&client.keeper.shutdown),
        }
    }

    /// Returns true if the requests must be cancelled, or left to another acquisition.
    pub(crate) fn is_begun(&self) -> bool {
        self.is_armed || self.command.is_some()
    }

    /// Returns true if a command is in flight.
    pub(crate) fn is_under_way(&self) -> bool {
        self.command.is_some()
    }

    /// When the first command was sent that got no answer, if there was one.
    pub(crate) fn unanswered_since(&self) -> Option<Instant> {
        self.unanswered_since
    }

    /// The times of a grant, with what is known of commands without an answer.
    pub(crate) fn note_unanswered(&self, times: GrantTimes) -> GrantTimes {
        let unanswered_since = self.unanswered_since;
        let is_all_answered = unanswered_since.is_none() && !self.is_under_way();
        GrantTimes { unanswered_since, is_all_answered, ..times }
    }

    /// Sends a command. False if the store has none for it.
    pub(crate) fn send(&mut self, command: impl FnOnce(&dyn Store) -> Option<Reply<T>>) -> bool {
        debug_assert!(self.command.is_none(), "a command is in flight");
        self.sent = self.client.store.now();
        self.command = command(&*self.client.store);
        self.is_under_way()
    }

    /// The answer to the command in flight; never resolves if there is none. If it is dropped,
    /// the command stays in flight.
    pub(crate) async fn answer(&mut self) -> Result<T, StoreError> {
        let Some(command) = &mut self.command else { return pending().await };
        let answer = command.await;
        self.command = None;
        if let Err(error) = &answer
            && error.outcome == Outcome::Unknown
        {
            self.is_armed = true;
            if error.is_unanswered() {
                self.unanswered_since.get_or_insert(self.sent);
            }
        }
        answer
    }

    /// Notes that the store knows the requests.
    pub(crate) fn arm(&mut self) {
        self.is_armed = true;
    }

    /// Notes that the requests belong to leases now.
    pub(crate) fn disarm(&mut self) {
        self.is_armed = false;
    }

    /// Notes that the store has taken the requests out of its queue. An earlier copy of a command
    /// without an answer may still arrive.
    pub(crate) fn left_queue(&mut self) {
        self.is_armed &= self.unanswered_since.is_some();
    }

    /// Forgets earlier commands: the requests get new ids. The old ones are cancelled if a command
    /// without an answer may still arrive.
    pub(crate) fn start_anew(&mut self, requests: impl FnOnce() -> Vec<ToCancel>) {
        self.left_queue();
        self.give_up(requests);
        (self.is_armed, self.unanswered_since) = (false, None);
    }

    /// Leaves the requests to the keeper, which cancels them if they must be.
    pub(crate) fn give_up(&mut self, requests: impl FnOnce() -> Vec<ToCancel>) {
        if self.is_begun() {
            let outcome = UnknownOutcome::new(self.unanswered_since, self.sent);
            let command = self.command.take().map(Reply::of_any);
            self.client.keeper.cancel_later(requests(), command, outcome);
        }
    }
}
