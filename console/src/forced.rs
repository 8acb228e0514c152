//! What a console remembers that may take locks: its secret, and the locks it took last.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

use leasehold::Fence;

/// How many results are kept for the pages that the browser is sent to.
const RESULTS: usize = 64;

/// What a console has that may take locks.
#[derive(Debug)]
pub(super) struct Force {
    /// In each form. A page of another origin can make a browser send a form, but it can't read
    /// one.
    secret: String,
    taken: Mutex<VecDeque<(String, Taken)>>,
}

/// A lock that was taken here.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) name: String,
    pub(super) held: u64,
    pub(super) fence: Fence,
}

impl Force {
    pub(super) fn new() -> Self {
        Self { secret: Uuid::new_v4().to_string(), taken: Mutex::default() }
    }

    /// What each form has in it.
    pub(super) fn token(&self) -> &str {
        &self.secret
    }

    /// The result of a POST, which the address of the next page names. Not the result itself:
    /// anybody can make a link with a number in it.
    pub(super) fn taken(&self, id: &str, name: &str) -> Option<Taken> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let found = taken.iter().find(|(known, taken)| known == id && taken.name == name);
        found.map(|(_, taken)| taken.clone())
    }

    /// Keeps a result, and returns its id.
    pub(super) fn keep(&self, result: Taken) -> String {
        let id = Uuid::new_v4().to_string();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.truncate(RESULTS - 1);
        taken.push_front((id.clone(), result));
        id
    }

    /// Takes the same time for each wrong token.
    pub(super) fn is_token(&self, token: &str) -> bool {
        let pairs = token.bytes().zip(self.secret.bytes());
        token.len() == self.secret.len() && pairs.fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }
}
