//! Names of locks: what is allowed, and how values from outside become part of
//! one without being able to change its meaning.

mod template;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

pub use self::template::{KeyPart, KeyTemplate};
use super::error::LockError;

/// The longest name, in bytes after escaping.
const LONGEST: usize = 512;

/// The name of a lock: 1 to 512 bytes of UTF-8 without control characters.
///
/// Equal names are the same lock, on every server that uses the same store.
/// On a Redis Cluster all keys of a lock live in one slot. Locks whose names
/// carry the same `{tag}` with something around it, such as `order:{42}:pdf`
/// and `order:{42}:mail`, share a slot; braces anywhere else mean nothing. Where a
/// `&str` stands for a key, braces around a name are [refused](IntoLockKey).
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
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockKey {
    name: Arc<str>,
    /// The name as it ends the store's keys, where that is not `{name}`.
    slotted: Option<Arc<str>>,
}

impl LockKey {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] if it is empty, longer than 512 bytes after
    /// escaping, or has a control character in it.
    pub fn new(name: impl AsRef<str>) -> Result<Self, LockError> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(LockError::invalid_key(name, "it is empty; name what is locked"));
        }
        if name.chars().any(char::is_control) {
            return Err(LockError::invalid_key(name, "it has a control character in it"));
        }
        let slotted = name.contains(['{', '}', '%']).then(|| slotted(name));
        let length = slotted.as_ref().map_or(name.len(), String::len);
        if length > LONGEST {
            let problem = format!("it has {length} bytes, and {LONGEST} is the most; shorten it");
            return Err(LockError::invalid_key(name, problem));
        }
        Ok(Self { name: name.into(), slotted: slotted.map(Into::into) })
    }

    /// The name, as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The one function that makes a store's keys: `prefix:role:{name}`.
    ///
    /// The role stands before the name, so that no name can look like another
    /// lock's second key; the braces put all keys of a lock into one slot.
    #[doc(hidden)]
    #[must_use]
    pub fn in_store(&self, prefix: &str, role: &str) -> String {
        self.parts_in_store(prefix, role).concat()
    }

    /// What a key of the store is put together from.
    pub(crate) fn parts_in_store<'a>(&'a self, prefix: &'a str, role: &'a str) -> [&'a str; 6] {
        match &self.slotted {
            Some(slotted) => [prefix, ":", role, ":", slotted, ""],
            None => [prefix, ":", role, ":{", &self.name, "}"],
        }
    }

    /// Whether both locks are kept on the same node of a cluster, for what is in their
    /// braces is the same.
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

/// Keeps the first `{tag}` that has text in it and around it, escapes all other
/// braces, and puts what has no such tag into braces of its own.
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

/// Escapes braces, and a `%` only where it would be read as one of these escapes: most
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

/// What can name a lock: a string, a [`LockKey`], or the result of making one.
///
/// A name that is not allowed is reported by the call that acquires, before a
/// command is sent.
///
/// A `&str` that looks like a template nobody filled in, such as `"order:{id}"`, is
/// not allowed: it would be one lock for all orders. It looks like one if it has `{}`
/// in it, or braces around a name (`{id}`, `{order.id}`, `{id:?}`). Other braces are
/// part of the name, as in `"order:{42}:pdf"`. A `String`, which code has made, is
/// taken as it is, and so is everything by [`LockKey::new`].
///
/// # Examples
///
/// ```
/// use leasehold::{LockError, LockKey, Locks};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let locks = Locks::in_memory();
/// let refused = locks.mutex("order:{id}").lock().await;
/// assert!(matches!(refused, Err(LockError::InvalidKey { .. })));
///
/// let id = 42;
/// locks.mutex(format!("order:{id}")).lock().await?; // or leasehold::lock_key!("order:{id}")
/// locks.mutex(LockKey::new("{queue}:mail")).lock().await?; // the braces are meant
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot name a lock",
    label = "not a name",
    note = "write a string, such as `\"nightly-report\"`, or make a `LockKey` with a `KeyTemplate`"
)]
pub trait IntoLockKey {
    /// Makes the key.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] if the name is not allowed.
    fn into_lock_key(self) -> Result<LockKey, LockError>;
}

macro_rules! into_lock_key {
    ($($text:ty),*) => {$(
        impl IntoLockKey for $text {
            fn into_lock_key(self) -> Result<LockKey, LockError> {
                LockKey::new(self)
            }
        }
    )*};
}
into_lock_key!(String, &String, Cow<'_, str>, Arc<str>, Box<str>);

impl IntoLockKey for &str {
    fn into_lock_key(self) -> Result<LockKey, LockError> {
        if has_placeholder(self) {
            let problem = "it looks like a template that nobody filled in, so it would be one lock \
                           for all values; make the key with `lock_key!`, `format!` or a \
                           `KeyTemplate`; or with `LockKey::new`, if the braces belong to the name";
            return Err(LockError::invalid_key(self, problem));
        }
        LockKey::new(self)
    }
}

/// Whether there is a `{}`, `{name}`, `{name.field}` or one with `:?` in it.
fn has_placeholder(name: &str) -> bool {
    name.split('{').skip(1).filter_map(|rest| rest.split_once('}')).any(|(inside, _)| {
        let inside = inside.strip_suffix(":?").unwrap_or(inside);
        let is_of_a_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        !inside.starts_with(|c: char| c.is_numeric() || c == '.')
            && inside.chars().all(is_of_a_name)
    })
}

impl IntoLockKey for LockKey {
    fn into_lock_key(self) -> Result<LockKey, LockError> {
        Ok(self)
    }
}

impl IntoLockKey for &LockKey {
    fn into_lock_key(self) -> Result<LockKey, LockError> {
        Ok(self.clone())
    }
}

impl IntoLockKey for Result<LockKey, LockError> {
    fn into_lock_key(self) -> Result<LockKey, LockError> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str) -> String {
        LockKey::new(name).unwrap().in_store("p", "lock")
    }

    #[test]
    fn braces_make_a_slot_and_no_collision() {
        assert_eq!(stored("x"), "p:lock:{x}");
        assert_eq!(stored("{x}"), "p:lock:{%7Bx%7D}");
        assert_eq!(stored("%7Bx%7D"), "p:lock:{%257Bx%257D}");
        assert_eq!(stored("a%20b"), "p:lock:{a%20b}");
        assert_eq!(stored("%{7B"), "p:lock:{%%7B7B}");
        assert_eq!(stored("order:{42}:pdf"), "p:lock:order:{42}:pdf");
        assert_eq!(stored("{}x"), "p:lock:{%7B%7Dx}");
        assert_eq!(stored("a{b}c{d}"), "p:lock:a{b}c%7Bd%7D");
        assert_eq!(stored("}a{b}"), "p:lock:%7Da{b}");
    }

    #[test]
    fn what_looks_like_a_template_names_no_lock() {
        for name in [
            "order:{id}",
            "{order.id}",
            "a{id:?}b",
            "{}",
            "order:{}",
            "{:?}",
            "{{id}}",
            "{42}{_a1}",
            "größe:{größe}",
        ] {
            let error = name.into_lock_key().unwrap_err().to_string();
            assert!(error.contains("`lock_key!`") && error.contains("`LockKey::new`"), "{error}");
            assert_eq!(LockKey::new(name).unwrap().name(), name, "it says what it means");
            assert_eq!(name.to_owned().into_lock_key().unwrap().name(), name, "code made it");
        }
        for name in ["order:{42}:pdf", "{0}", "{-}", "{a b}", "{x-y}", "}id{", "{id", "{1a}", "%7B"]
        {
            assert_eq!(name.into_lock_key().unwrap().name(), name);
        }
    }

    #[test]
    fn names_that_are_not_allowed_say_why() {
        for (name, why) in [("", "empty"), ("a\nb", "control"), (&"x".repeat(513), "513 bytes")] {
            let error = LockKey::new(name).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(LockKey::new("x".repeat(512)).is_ok());
        assert!(LockKey::new("{".repeat(200)).is_err(), "the escaped length counts");
    }
}
