//! Names of locks: what is allowed, and how values from outside become part of
//! one without being able to change its meaning.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::LockError;

/// The longest name, in bytes after escaping.
const LONGEST: usize = 512;

/// The name of a lock: 1 to 512 bytes of UTF-8 without control characters.
///
/// Equal names are the same lock, on every server that uses the same store.
/// On a Redis Cluster all keys of a lock live in one slot. Locks whose names
/// carry the same `{tag}` with something around it, such as `order:{42}:pdf`
/// and `order:{42}:mail`, share a slot; braces anywhere else mean nothing.
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
        match &self.slotted {
            Some(slotted) => [prefix, ":", role, ":", slotted].concat(),
            None => [prefix, ":", role, ":{", &self.name, "}"].concat(),
        }
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

fn escape_braces(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '{' => out.push_str("%7B"),
            '}' => out.push_str("%7D"),
            '%' => out.push_str("%25"),
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot name a lock",
    label = "not a name",
    note = "write a string, such as `format!(\"order:{{id}}\")`, or a `LockKey`"
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
into_lock_key!(&str, String, &String, Cow<'_, str>, Arc<str>, Box<str>);

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

/// A value that may stand in a key template, as in `"invoice:{invoice_id}"`.
///
/// Integers, strings, `bool`, `char`, `Uuid`, and references to them. Not
/// floats, whose text is not unique, nor `Option`, whose `None` would make one
/// lock of many. For a type of your own, write what identifies it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a lock's key",
    label = "not a key part",
    note = "integers, strings, `bool`, `char` and `Uuid` can; use a field that identifies the value, or implement `leasehold::KeyPart`"
)]
pub trait KeyPart {
    /// Writes what identifies the value. It is escaped afterwards.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    fn write_part(&self, out: &mut dyn fmt::Write) -> fmt::Result;
}

macro_rules! key_part {
    ($($value:ty),*) => {$(
        impl KeyPart for $value {
            fn write_part(&self, out: &mut dyn fmt::Write) -> fmt::Result {
                write!(out, "{self}")
            }
        }
    )*};
}
key_part!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);
key_part!(bool, char, str, String, Uuid);

macro_rules! key_part_by_reference {
    ($($pointer:ty),*) => {$(
        impl<T: KeyPart + ?Sized> KeyPart for $pointer {
            fn write_part(&self, out: &mut dyn fmt::Write) -> fmt::Result {
                (**self).write_part(out)
            }
        }
    )*};
}
key_part_by_reference!(&T, &mut T, Box<T>, Arc<T>);

impl KeyPart for Cow<'_, str> {
    fn write_part(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        (**self).write_part(out)
    }
}

/// A key under construction: literal text, and values that can't change it.
///
/// A value is percent-escaped, so that it adds no separator, brace or segment:
/// different values always make different keys.
#[derive(Debug, Default)]
pub struct KeyTemplate {
    name: String,
    empty: Option<&'static str>,
}

impl KeyTemplate {
    /// An empty template.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends text as it stands.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.name.push_str(text);
        self
    }

    /// Appends a value, escaped. `placeholder` is what errors call it.
    #[must_use]
    pub fn part<T: KeyPart + ?Sized>(mut self, placeholder: &'static str, value: &T) -> Self {
        let before = self.name.len();
        let written = value.write_part(&mut Escape(&mut self.name));
        if written.is_err() || self.name.len() == before {
            self.empty.get_or_insert(placeholder);
        }
        self
    }

    /// The key.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] if a value was empty, or the name is not
    /// allowed.
    pub fn finish(self) -> Result<LockKey, LockError> {
        match self.empty {
            Some(placeholder) => Err(LockError::invalid_key(
                &self.name,
                format!(
                    "the value of `{{{placeholder}}}` is empty, which would make one lock of many"
                ),
            )),
            None => LockKey::new(self.name),
        }
    }
}

/// Percent-escapes what has a meaning in keys, templates or Redis patterns.
struct Escape<'a>(&'a mut String);

impl fmt::Write for Escape<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '%' | '{' | '}' | ':' | '*' | '?' | '[' | ']' | '\\' => self.percent(c)?,
                c if c.is_whitespace() || c.is_control() => self.percent(c)?,
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}

impl Escape<'_> {
    fn percent(&mut self, c: char) -> fmt::Result {
        use fmt::Write;
        c.encode_utf8(&mut [0; 4]).bytes().try_for_each(|byte| write!(self.0, "%{byte:02X}"))
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
        assert_eq!(stored("order:{42}:pdf"), "p:lock:order:{42}:pdf");
        assert_eq!(stored("{}x"), "p:lock:{%7B%7Dx}");
        assert_eq!(stored("a{b}c{d}"), "p:lock:a{b}c%7Bd%7D");
        assert_eq!(stored("}a{b}"), "p:lock:%7Da{b}");
    }

    #[test]
    fn values_cannot_add_a_segment() {
        let key =
            |a: &str, b: &str| KeyTemplate::new().part("a", a).text(":").part("b", b).finish();
        assert_ne!(key("a:b", "c").unwrap(), key("a", "b:c").unwrap());
        assert_eq!(key("a{", "%").unwrap().name(), "a%7B:%25");
        assert!(key("a", "").unwrap_err().to_string().contains("`{b}` is empty"));
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
