//! The answers of a quorum's servers that made no majority.

use std::fmt;

/// The answers of all servers of a quorum, when they made no majority: in
/// [`LockError::Quorum`](crate::LockError::Quorum).
///
/// # Examples
///
/// ```
/// use leasehold::LockError;
///
/// fn report(error: &LockError) {
///     if let LockError::Quorum { cause, .. } = error {
///         println!("{} servers must agree", cause.needed());
///         for server in cause.answers() {
///             println!("{}: {}", server.server, server.answer);
///         }
///     }
/// }
/// # report(&LockError::ShutDown);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoMajority {
    answers: Vec<ServerAnswer>,
    needed: usize,
}

/// The answer of one server of a quorum, in [`NoMajority::answers`].
///
/// # Examples
///
/// ```
/// use leasehold::ServerAnswer;
///
/// fn show(ServerAnswer { server, answer, .. }: &ServerAnswer) -> String {
///     format!("{server} answered: {answer}")
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerAnswer {
    /// Its host and port.
    pub server: String,
    /// Its answer, or why there is none.
    pub answer: String,
}

impl NoMajority {
    /// Collects the servers and their answers.
    #[cfg(any(feature = "quorum", test))]
    pub(crate) fn of(answers: impl Iterator<Item = (String, String)>) -> Self {
        let answer = |(server, answer): (String, String)| {
            // An error may begin with the server's name, which stands in front of it here.
            let rest = answer.strip_prefix(&*server).and_then(|rest| rest.strip_prefix(": "));
            ServerAnswer { answer: rest.unwrap_or(&answer).to_owned(), server }
        };
        let answers: Vec<_> = answers.map(answer).collect();
        Self { needed: answers.len() / 2 + 1, answers }
    }

    /// The answer of each server, in the order in which the servers were given.
    #[must_use]
    pub fn answers(&self) -> &[ServerAnswer] {
        &self.answers
    }

    /// How many servers must agree.
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
