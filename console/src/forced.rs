//! What a console remembers that may take locks: its secret, and the locks it took last.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use leasehold::Fence;
use uuid::Uuid;

use super::holders::Line;
use super::token::Token;

/// How many results are kept for the pages that the browser is sent to.
const RESULTS: usize = 64;

/// What a console has that may take locks.
#[derive(Debug)]
pub(super) struct Force {
    pub(super) token: Token,
    taken: Mutex<VecDeque<(String, Taken)>>,
}

/// A lock that was taken here.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) name: String,
    pub(super) held: u64,
    pub(super) fence: Fence,
    /// Those of the holders that were listed just before.
    pub(super) former: Vec<Line>,
}

impl Force {
    pub(super) fn new() -> Self {
        Self { token: Token::random(), taken: Mutex::default() }
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
}
