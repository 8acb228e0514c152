//! Names of locks: which are allowed, and how to build one from values without letting a
//! value change its meaning.

#[cfg(all(test, feature = "redis"))]
mod hostile;
mod part;
mod template;

use std::borrow::Cow;
use std::sync::Arc;

pub use self::part::KeyPart;
pub use self::template::KeyTemplate;
use super::error::LockError;
pub use super::lock_key::LockKey;

impl LockKey {
    /// Makes a key of a name, and takes braces in it as they are.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] if the name is empty, longer than 512 bytes after
    /// escaping, or contains a control character.
    pub fn new(name: impl AsRef<str>) -> Result<Self, LockError> {
        let name = name.as_ref();
        Self::checked(name).map_err(|problem| LockError::invalid_key(name, problem))
    }
}

/// A value that can name a lock: a string, a [`LockKey`], or the `Result` of making one.
///
/// The call that acquires reports a bad name, before it sends a command.
///
/// A `&str` that looks like a template without its values, such as `"order:{id}"`, is
/// refused: it would be one lock for all orders. It looks like one if it contains `{}`, or
/// braces around a name (`{id}`, `{order.id}`, `{id:?}`). Other braces are part of the
/// name, as in `"order:{42}:pdf"`. A `String`, which code has built, is taken as it is, and
/// so is everything in [`LockKey::new`].
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
/// locks.mutex(LockKey::new("{queue}:mail")).lock().await?; // the braces are part of the name
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot name a lock",
    label = "not a name",
    note = "write a string, such as `\"nightly-report\"`, or make a `LockKey` with a `KeyTemplate`"
)]
pub trait IntoLockKey {
    /// Checks the name, and makes a key of it.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] if no lock can have this name.
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
            let problem = "it looks like a template without its values, so it would be one lock for \
                           all of them; make the key with `lock_key!`, `format!` or a \
                           `KeyTemplate`, or with `LockKey::new` if the braces belong to the name";
            return Err(LockError::invalid_key(self, problem));
        }
        LockKey::new(self)
    }
}

/// Returns true if the name contains `{}`, `{name}`, `{name.field}` or one of them with
/// `:?`.
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
    fn a_name_like_a_template_is_refused() {
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
