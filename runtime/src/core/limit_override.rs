//! The limits that operators set, in place of those of the code.

use std::fmt;
use std::time::SystemTime;

use super::lock_key::LockKey;
use super::name_pattern::NamePattern;

/// The semaphores that an operator's limit is for.
///
/// # Examples
///
/// ```
/// use leasehold::LimitOf;
///
/// let tenants = LimitOf::Label("tenant:{id}".to_owned()); // all locks of this label
/// let acme = LimitOf::Name("tenant:acme".to_owned()); // one lock
/// assert_eq!(tenants.to_string(), "label `tenant:{id}`");
/// assert_eq!(acme.to_string(), "`tenant:acme`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LimitOf {
    /// All with this [label](crate::LockKey::label).
    Label(String),
    /// The one with this name. It comes before a limit for its label.
    Name(String),
}

impl fmt::Display for LimitOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(label) => write!(f, "label `{label}`"),
            Self::Name(name) => write!(f, "`{name}`"),
        }
    }
}

/// A limit that an operator has set, from [`Limits::list`](crate::Limits::list).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::Locks::in_memory();
/// locks.limits().label("render").by("ann").why("incident 42").set(2).await?;
///
/// let set = locks.limits().list().await?.remove(0);
/// assert_eq!((set.limit, &*set.by, set.why.as_deref()), (2, "ann", Some("incident 42")));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitOverride {
    /// Which semaphores it is for.
    pub of: LimitOf,
    /// How many permits there are. With 0 nobody gets one.
    pub limit: u32,
    /// Who has set it.
    pub by: String,
    /// Why, if that was said.
    pub why: Option<String>,
    /// When, by the server's clock.
    pub at: SystemTime,
}

impl LimitOverride {
    /// The limit that may hold for a name, of which nobody knows the label: by the name, or by a label
    /// that is a template which the name fits.
    pub(crate) fn that_may_hold(set: &[Self], key: &LockKey) -> Option<Self> {
        let by_name =
            set.iter().find(|set| matches!(&set.of, LimitOf::Name(of) if of == key.name()));
        let fits = |set: &&Self| matches!(&set.of, LimitOf::Label(label) if NamePattern::of_template(label).matches(key.name()));
        by_name.or_else(|| set.iter().find(fits)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_found_by_name_and_then_by_template() {
        let limit = |of, limit| LimitOverride {
            of,
            limit,
            by: String::new(),
            why: None,
            at: SystemTime::UNIX_EPOCH,
        };
        let label = |text: &str| LimitOf::Label(text.to_owned());
        let set = [
            limit(label("tenant:{id}"), 1),
            limit(label("render"), 2),
            limit(LimitOf::Name("tenant:acme".to_owned()), 3),
            limit(label("a:{b.c}:{0}:x"), 4),
            limit(label("odd{"), 5),
        ];
        for (name, found) in [
            ("tenant:acme", Some(3)),
            ("tenant:b%40", Some(1)),
            ("render", Some(2)),
            ("rendered", None),
            ("tenant", None),
            ("a:1:2:x", Some(4)),
            ("a:1:x", None),
            ("odd{", Some(5)),
        ] {
            let key = LockKey::new(name).unwrap();
            let limit = LimitOverride::that_may_hold(&set, &key).map(|set| set.limit);
            assert_eq!(limit, found, "{name}");
        }
    }
}
