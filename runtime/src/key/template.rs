//! Keys that are made of text and values.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::{LockError, LockKey};

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

    #[test]
    fn values_cannot_add_a_segment() {
        let key =
            |a: &str, b: &str| KeyTemplate::new().part("a", a).text(":").part("b", b).finish();
        assert_ne!(key("a:b", "c").unwrap(), key("a", "b:c").unwrap());
        assert_eq!(key("a{", "%").unwrap().name(), "a%7B:%25");
        assert!(key("a", "").unwrap_err().to_string().contains("`{b}` is empty"));
    }
}
