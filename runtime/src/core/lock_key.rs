//! The name of a lock, and how it becomes the keys of a store.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The longest name, in bytes after escaping.
const LONGEST: usize = 512;

/// What metrics, logs and traces call a lock that has no label.
pub(crate) const NO_LABEL: &str = "(no label)";

/// The checked name of a lock: 1 to 512 bytes of UTF-8 without control characters.
///
/// Equal names are the same lock for all clients of the same store and prefix.
///
/// On a Redis Cluster all keys of a lock live in one slot. Locks whose names contain the
/// same `{tag}` with something around it, such as `order:{42}:pdf` and `order:{42}:mail`,
/// share a slot. Braces anywhere else have no meaning. A `&str` with braces around a name
/// is [refused](crate::IntoLockKey) as a key.
///
/// # Examples
///
/// ```
/// use leasehold::LockKey;
///
/// assert_eq!(LockKey::new("invoice:42")?.name(), "invoice:42");
/// assert!(LockKey::new("").is_err());
/// # Ok::<(), leasehold::LockError>(())
/// ```
#[derive(Clone)]
pub struct LockKey {
    name: Arc<str>,
    /// The name as it ends the store's keys, if that is not `{name}`.
    #[cfg_attr(
        not(any(test, feature = "internals", feature = "redis")),
        expect(dead_code, reason = "the store in memory needs no such keys")
    )]
    slotted: Option<Arc<str>>,
    /// What metrics and logs call it. It does not tell one lock from another.
    label: Option<&'static str>,
}

impl LockKey {
    /// Checks a name, and returns the problem with a bad one.
    pub(super) fn checked(name: &str) -> Result<Self, String> {
        if name.is_empty() {
            return Err("it is empty; name what is locked".to_owned());
        }
        if name.chars().any(char::is_control) {
            return Err("it contains a control character".to_owned());
        }
        let slotted = name.contains(['{', '}', '%']).then(|| slotted(name));
        let length = slotted.as_ref().map_or(name.len(), String::len);
        if length > LONGEST {
            return Err(format!(
                "it is {length} bytes long, and the limit is {LONGEST}; shorten it"
            ));
        }
        Ok(Self { name: name.into(), slotted: slotted.map(Into::into), label: None })
    }

    /// The name, as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What metrics, logs and traces call this lock and others like it: the template, if a
    /// template made the key. `None` if nothing has named it: they show `(no label)` then.
    #[must_use]
    pub fn label(&self) -> Option<&'static str> {
        self.label
    }

    /// The label, as logs show it.
    pub(crate) fn log_label(&self) -> &'static str {
        self.label.unwrap_or(NO_LABEL)
    }

    /// Sets what metrics, logs and traces call this lock and others like it.
    ///
    /// Choose a constant such as `"invoice"`, never a value of the name: each label is a time
    /// series of its own. Keys with different labels can be the same lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::LockKey;
    ///
    /// let key = LockKey::new(format!("invoice:{}", 42))?.with_label("invoice");
    /// assert_eq!(key.label(), Some("invoice"));
    /// assert_eq!(key, LockKey::new("invoice:42")?);
    /// # Ok::<(), leasehold::LockError>(())
    /// ```
    #[must_use]
    pub fn with_label(mut self, label: &'static str) -> Self {
        self.label = Some(label);
        self
    }

    /// Gives it the label of another key of the same lock.
    pub(crate) fn label_as(&mut self, other: &Self) {
        self.label = other.label;
    }

    /// Makes a store's key: `prefix:role:{name}`. No other function does.
    ///
    /// The role stands before the name, so that no name can look like another lock's second
    /// key. The braces put all keys of a lock into one slot.
    #[cfg(any(test, feature = "internals", feature = "redis"))]
    #[doc(hidden)]
    #[must_use]
    pub fn in_store(&self, prefix: &str, role: &str) -> String {
        self.parts_in_store(prefix, role).concat()
    }

    /// The parts of a store's key.
    #[cfg(any(test, feature = "internals", feature = "redis"))]
    pub(crate) fn parts_in_store<'a>(&'a self, prefix: &'a str, role: &'a str) -> [&'a str; 6] {
        match &self.slotted {
            Some(slotted) => [prefix, ":", role, ":", slotted, ""],
            None => [prefix, ":", role, ":{", &self.name, "}"],
        }
    }

    /// Reads a name as it ends a store's keys. `None` if no name is stored like that.
    #[cfg(feature = "redis")]
    pub(crate) fn of_stored(stored: &str) -> Option<Self> {
        let inside = stored.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        [inside, Some(stored)].into_iter().flatten().find_map(|name| {
            let name = name.replace("%7B", "{").replace("%7D", "}").replace("%25", "%");
            let key = Self::checked(&name).ok()?;
            let parts = key.parts_in_store("", "");
            // The empty prefix and role leave `::` before the name.
            (parts.concat().strip_prefix("::") == Some(stored)).then_some(key)
        })
    }

    /// Returns true if the same node of a cluster has both locks, because the texts in
    /// their braces are equal.
    #[cfg(feature = "cluster")]
    pub(crate) fn shares_slot(&self, other: &Self) -> bool {
        self.tag() == other.tag()
    }

    #[cfg(feature = "cluster")]
    fn tag(&self) -> &str {
        let slotted = self.slotted.as_deref().unwrap_or_default();
        let tag = slotted.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        tag.map_or(&*self.name, |(tag, _)| tag)
    }
}

/// Keeps the first `{tag}` that has text in it and around it, and escapes all other braces.
/// A name without such a tag gets braces of its own.
fn slotted(name: &str) -> String {
    let tag = name.find('{').and_then(|open| {
        let close = open + name[open..].find('}')?;
        let inside = &name[open + 1..close];
        let around = open > 0 || close + 1 < name.len();
        (!inside.is_empty() && !inside.contains('{') && around).then_some((open, close))
    });
    let mut out = String::with_capacity(name.len() + 8);
    // Without a tag of its own, the whole name is the tag.
    let (before, inside, after) = match tag {
        Some((open, close)) => (&name[..open], &name[open + 1..close], &name[close + 1..]),
        None => ("", name, ""),
    };
    escape_braces(before, &mut out);
    out.push('{');
    escape_braces(inside, &mut out);
    out.push('}');
    escape_braces(after, &mut out);
    out
}

/// Escapes braces. Escapes a `%` only if it would be read as one of these escapes: most
/// others come from a template's values, which are escaped already.
fn escape_braces(text: &str, out: &mut String) {
    for (at, c) in text.char_indices() {
        let is_like_ours = || ["%7B", "%7D", "%25"].iter().any(|it| text[at..].starts_with(it));
        match c {
            '{' => out.push_str("%7B"),
            '}' => out.push_str("%7D"),
            '%' if is_like_ours() => out.push_str("%25"),
            _ => out.push(c),
        }
    }
}

impl PartialEq for LockKey {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for LockKey {}

impl Hash for LockKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl PartialOrd for LockKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LockKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.name, f)
    }
}

impl AsRef<str> for LockKey {
    fn as_ref(&self) -> &str {
        &self.name
    }
}
