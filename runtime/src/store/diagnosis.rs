//! What a store finds out about its servers, for an operator.

/// What a look at the servers of a client's locks found: see
/// [`Locks::diagnose`](crate::Locks::diagnose).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let locks = leasehold::Locks::in_memory();
/// assert!(locks.diagnose().await.findings.is_empty());
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

/// Something that a [`Diagnosis`] read or measured: the server's version, for example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Fact {
    /// What it is, such as `version`.
    pub name: &'static str,
    /// The server that it was read from, `host:port`. Empty for a store in memory.
    pub server: String,
    /// What was found, with its unit.
    pub value: String,
}

/// Something that needs an operator, in a [`Diagnosis`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was checked, such as `eviction`. It does not change from version to version.
    pub check: &'static str,
    /// The server that it was found on, `host:port`. Empty if it is about no single server.
    pub server: String,
    /// What was found.
    pub found: String,
    /// What it means for locks.
    pub meaning: String,
    /// The command, or the change, that mends it.
    pub remedy: String,
}

/// How bad a [`Finding`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Severity {
    /// Locks are correct. Something is slow, can't be checked, or may turn into a problem.
    Warning,
    /// Locks don't work, or they can be lost or held twice.
    Problem,
}
