//! What a store finds out about its servers, for an operator.

use crate::core::store_error::StoreError;

/// The check that the servers answer at all.
pub(crate) const UNREACHABLE: &str = "unreachable";

/// The check that the client was not copied by a fork.
pub(crate) const FORKED: &str = "forked";

/// What a look at the servers of a client's locks found: see
/// [`Locks::diagnose`](crate::Locks::diagnose).
///
/// With the feature `serde` it becomes JSON: the severity is `warning` or `problem`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # #[cfg(feature = "doctor")]
/// # {
/// let locks = leasehold::Locks::in_memory();
/// assert!(locks.diagnose().await.findings.is_empty());
/// # }
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Diagnosis {
    /// What was read and measured.
    pub facts: Vec<Fact>,
    /// What puts the locks at risk, or slows them down. The worst comes first. Empty if
    /// everything is as it should be.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// A diagnosis that is one finding: nothing else could be asked.
    pub(crate) fn of(finding: Finding) -> Self {
        Self { facts: Vec::new(), findings: vec![finding] }
    }

    /// One finding: the store failed before it could look at its servers.
    pub(crate) fn unreachable(server: &str, error: &StoreError) -> Self {
        Self::of(Finding {
            severity: Severity::Problem,
            check: UNREACHABLE,
            server: server.to_owned(),
            found: short(&error.source.to_string()),
            meaning: NO_LOCKS.to_owned(),
            remedy: "Check that the server runs, and that this machine reaches its address."
                .to_owned(),
        })
    }

    /// One finding: this process was forked off, and the client stayed behind.
    pub(crate) fn forked(error: &StoreError) -> Self {
        Self::of(Finding {
            severity: Severity::Problem,
            check: FORKED,
            server: String::new(),
            found: short(&error.source.to_string()),
            meaning: "The client's thread is not in this process. Every command of the client \
                      fails."
                .to_owned(),
            remedy: "Connect after the fork, in the process that takes locks.".to_owned(),
        })
    }

    /// Adds what was found elsewhere.
    pub(crate) fn merge(&mut self, other: Self) {
        self.facts.extend(other.facts);
        self.findings.extend(other.findings);
    }

    /// Puts the worst findings first, and leaves the rest of the order.
    pub(crate) fn sort(&mut self) {
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    }
}

/// What it means that a server does not answer.
pub(crate) const NO_LOCKS: &str = "No lock can be acquired, renewed or released on it. Leases that \
                                   are held stay valid until their deadlines.";

/// The most characters of a text that a server sent.
const LONGEST: usize = 300;

/// A text of a server as one line of a bounded length.
pub(crate) fn short(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut line: String = text.trim().chars().take(LONGEST).map(plain).collect();
    if text.trim().chars().nth(LONGEST).is_some() {
        line.push('…');
    }
    line
}

/// Something that a [`Diagnosis`] read or measured: the server's version, for example.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "doctor")]
/// fn print(facts: &[leasehold::Fact]) {
///     for fact in facts {
///         println!("{:21} {:12} {}", fact.server, fact.name, fact.value);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Fact {
    /// What it is, such as `version`.
    pub name: &'static str,
    /// The server that it was read from: `host:port`, or what the client calls it.
    pub server: String,
    /// What was found, with its unit.
    pub value: String,
}

/// Something that needs an operator, in a [`Diagnosis`].
///
/// The guide lists [all checks](guide/doctor/index.html): the threshold of each, what it means,
/// and what mends it.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "doctor")]
/// # {
/// use leasehold::{Finding, Severity};
///
/// fn wakes_somebody(finding: &Finding) -> bool {
///     finding.severity == Severity::Problem && finding.check != "unreachable"
/// }
/// # let _ = wakes_somebody;
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was checked, such as `eviction`. It does not change from version to version.
    pub check: &'static str,
    /// The server that it was found on, `host:port`; a name for sentinels, of which none names a
    /// master. Empty if it is about no single server.
    pub server: String,
    /// What was found, with its numbers. At most 300 characters are a server's own words.
    pub found: String,
    /// What it means for locks.
    pub meaning: String,
    /// What mends it. A part between backticks is a command for `redis-cli`, by a user with the
    /// rights of an operator.
    pub remedy: String,
}

/// How bad a [`Finding`] is.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "doctor")]
/// # {
/// use leasehold::Severity;
///
/// assert!(Severity::Problem > Severity::Warning);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Severity {
    /// Locks are correct while the server runs. A restart may lose them, something is slow or
    /// can't be checked, or it may turn into a problem.
    Warning,
    /// Locks don't work, or they can be lost or held twice while the server runs.
    Problem,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_text_is_one_short_line() {
        assert_eq!(short(" a\r\nb\u{7}c "), "a  b c");
        assert_eq!(short(&"ä".repeat(300)), "ä".repeat(300));
        assert_eq!(short(&"ä".repeat(301)).chars().count(), 301);
    }
}
