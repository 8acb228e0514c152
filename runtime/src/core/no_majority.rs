//! What the servers of a quorum answered, where that made no majority.

use std::fmt;

/// What each server of a quorum answered, where that did not make a majority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoMajority {
    answers: Vec<ServerAnswer>,
    needed: usize,
}

/// One server of a quorum, and what it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerAnswer {
    /// Its host and port.
    pub server: String,
    /// What it answered, or why it did not.
    pub answer: String,
}

impl NoMajority {
    /// What these servers answered.
    pub(crate) fn of(answers: impl Iterator<Item = (String, String)>) -> Self {
        let answers: Vec<_> =
            answers.map(|(server, answer)| ServerAnswer { server, answer }).collect();
        Self { needed: answers.len() / 2 + 1, answers }
    }

    /// What each server answered, in the order they were given in.
    #[must_use]
    pub fn answers(&self) -> &[ServerAnswer] {
        &self.answers
    }

    /// How many of them have to agree.
    #[must_use]
    pub fn needed(&self) -> usize {
        self.needed
    }
}

impl fmt::Display for NoMajority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answers, needed } = self;
        write!(f, "{needed} of {} servers have to agree", answers.len())?;
        answers.iter().try_for_each(|it| write!(f, "; {}: {}", it.server, it.answer))
    }
}

impl std::error::Error for NoMajority {}
