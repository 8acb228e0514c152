//! Keys that are built from text and values.

use std::fmt;

use super::part::KeyPart;
use crate::core::error::LockError;
use crate::core::lock_key::LockKey;

/// Builds a key from literal text and from values that can't change its meaning.
///
/// ASCII letters and digits, `-`, `_` and `.` of a value stay as they are. Everything else
/// is percent-escaped byte by byte, as in a URL. So a UUID or a slug stays readable.
/// Letters beyond ASCII are escaped as well: which characters are letters depends on the
/// version of Unicode, and two builds of a service must make the same key.
///
/// Text between two values must contain a character that no value has, such as `:`. Then
/// different values always make different keys of the same template. Two templates can
/// still make the same key, as `order:{id}` and `{kind}:{id}` do, so begin each template
/// with a text of its own.
///
/// # Examples
///
/// ```
/// use leasehold::KeyTemplate;
///
/// let key = |tenant: &str, page: u32| {
///     KeyTemplate::new().text("page:").part("tenant", tenant).text(":").part("page", &page).finish()
/// };
/// assert_eq!(key("acme", 7)?.name(), "page:acme:7");
/// assert_eq!(key("a/b: c", 7)?.name(), "page:a%2Fb%3A%20c:7");
/// # Ok::<(), leasehold::LockError>(())
/// ```
#[derive(Debug, Default)]
pub struct KeyTemplate {
    name: String,
    /// The last value, until a text follows that ends it.
    open: Option<&'static str>,
    problem: Option<String>,
    label: Option<&'static str>,
}

impl KeyTemplate {
    /// Starts an empty template.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what metrics and logs call all locks of this template: its text, for example. By
    /// default nothing does. See [`LockKey::with_label`].
    #[must_use]
    pub fn label(mut self, label: &'static str) -> Self {
        self.label = Some(label);
        self
    }

    /// Appends text without escaping it.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        // A `%` begins what is escaped, and so is in values as well.
        if text.contains(|c| c != '%' && is_escaped(c)) {
            self.open = None;
        }
        self.name.push_str(text);
        self
    }

    /// Appends a value, escaped. Errors name it by `placeholder`.
    #[must_use]
    pub fn part<T: KeyPart + ?Sized>(mut self, placeholder: &'static str, value: &T) -> Self {
        if let Some(before) = self.open.replace(placeholder) {
            self.problem.get_or_insert_with(|| {
                format!(
                    "nothing keeps the values of `{{{before}}}` and `{{{placeholder}}}` apart: \
                     write `{{{before}}}:{{{placeholder}}}`, or put another character between them \
                     that no value has, so no ASCII letter or digit, `-`, `_`, `.` or `%`"
                )
            });
        }
        let before = self.name.len();
        let written = value.write_part(&mut Escape(&mut self.name));
        if written.is_err() || self.name.len() == before {
            self.problem.get_or_insert_with(|| {
                format!(
                    "the value of `{{{placeholder}}}` is empty, which would be one lock for many"
                )
            });
        }
        self
    }

    /// Checks the name, and makes a key of it.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] if nothing separates two values, if a value is empty, or
    /// if no lock can have the name.
    pub fn finish(self) -> Result<LockKey, LockError> {
        if let Some(problem) = self.problem {
            return Err(LockError::invalid_key(&self.name, problem));
        }
        let key = LockKey::new(self.name)?;
        Ok(self.label.into_iter().fold(key, LockKey::with_label))
    }
}

/// Returns true if this character of a value is escaped. The answer is the same on all
/// versions of Rust.
fn is_escaped(c: char) -> bool {
    !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

struct Escape<'a>(&'a mut String);

impl fmt::Write for Escape<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if is_escaped(c) {
                let mut bytes = [0; 4];
                let mut bytes = c.encode_utf8(&mut bytes).bytes();
                bytes.try_for_each(|byte| write!(self.0, "%{byte:02X}"))?;
            } else {
                self.0.push(c);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::num::NonZeroU64;
    use std::rc::Rc;

    use uuid::Uuid;

    use super::*;

    /// The key of `before {a} between {b} after`.
    fn key(between: &str, a: &str, b: &str) -> Result<String, String> {
        let key = KeyTemplate::new().part("a", a).text(between).part("b", b).finish();
        key.map(|key| key.name().to_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn values_cannot_add_a_segment() {
        assert_ne!(key(":", "a:b", "c"), key(":", "a", "b:c"));
        assert_eq!(key(":", "a{", "%").unwrap(), "a%7B:%25");
        assert!(key(":", "a", "").unwrap_err().contains("`{b}` is empty"));
    }

    #[test]
    fn readable_characters_are_not_escaped() {
        let id = Uuid::from_u128(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8);
        let key = KeyTemplate::new().text("order:").part("id", &id).finish().unwrap();
        assert_eq!(key.name(), "order:67e55044-10b1-426f-9247-bb680e5fe0c8");
        let key = KeyTemplate::new().part("slug", "my-first_post.v2").finish().unwrap();
        assert_eq!(key.name(), "my-first_post.v2");
        let key = KeyTemplate::new().part("number", &-1).finish().unwrap();
        assert_eq!(key.name(), "-1");
        let id = NonZeroU64::new(7).unwrap();
        let key = KeyTemplate::new().part("id", &id).text(":").part("name", &Rc::<str>::from("a"));
        assert_eq!(key.finish().unwrap().name(), "7:a");
    }

    /// However an address was written, it is one lock.
    #[test]
    fn an_address_has_one_text() {
        let key = |text: &str| {
            let address: IpAddr = text.parse().unwrap();
            KeyTemplate::new().part("ip", &address).finish().unwrap().name().to_owned()
        };
        assert_eq!(key("10.0.0.7"), "10.0.0.7");
        assert_eq!(key("2001:DB8:0:0::1"), key("2001:db8::1"));
        assert_ne!(key("::ffff:10.0.0.7"), key("10.0.0.7"));
    }

    #[test]
    fn all_else_is_escaped() {
        for char in (0..=0xFF_u8).map(char::from).chain("ıſÅÅ→字\u{301}\u{202E}".chars()) {
            let stays = char.is_ascii_alphanumeric() || "-_.".contains(char);
            let key = KeyTemplate::new().part("char", &char).finish().unwrap();
            assert_eq!(key.name() == char.to_string(), stays, "{char:?}");
            assert!(key.name().is_ascii(), "{char:?}");
        }
    }

    #[test]
    fn values_are_separated_by_characters_that_they_cannot_contain() {
        for between in ["", "-", "_", ".", "%", "a", "0", "x-y_z.0", "%3A", "%25", "-%-"] {
            let error = key(between, "x", "y").unwrap_err();
            assert!(
                error.contains("`{a}` and `{b}`") && error.contains("write `{a}:{b}`"),
                "{error}"
            );
        }
        for between in [":", "/", ",", "|", "#", "@", " ", "{", "}", "~", "ö", "→", "-:-", "%:3A"]
        {
            assert!(key(between, "x", "y").is_ok(), "{between}");
            assert_ne!(key(between, &format!("x{between}y"), "z"), key(between, "x", "y"));
        }
    }

    #[test]
    fn text_at_the_ends_need_not_keep_anything_apart() {
        let key = KeyTemplate::new().text("a-").part("a", "x").text("-").text("z").finish();
        assert_eq!(key.unwrap().name(), "a-x-z");
        let key = KeyTemplate::new().part("a", "x").text("-").text(":").part("b", "y").finish();
        assert_eq!(key.unwrap().name(), "x-:y", "text may come in pieces");
    }

    /// Values that want to be more than one value.
    mod hostile {
        use proptest::prelude::*;

        use super::*;

        /// Strings that are made of what has a meaning somewhere.
        fn value() -> impl Strategy<Value = String> {
            let piece = prop_oneof![
                prop::sample::select(vec![
                    "-", "_", ".", "%", ":", "/", "{", "}", "%3A", "%25", "3A", "25", "A", "a",
                    "0", "%2", "\\", "\0", "\n", " ", "é", "e\u{301}", "→", "%7B", "*",
                ])
                .prop_map(str::to_owned),
                any::<char>().prop_map(String::from),
            ];
            prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
        }

        /// Takes the values out of a key again: so no other list of values can make it.
        fn values(texts: &[String], key: &str) -> Vec<String> {
            let separator = |text: &str| text.find(|c: char| c != '%' && is_escaped(c));
            let (last, between) = texts[1..].split_last().expect("a text at the end");
            let mut rest = key.strip_prefix(&*texts[0]).expect("the text in front");
            let mut values = Vec::new();
            for text in between {
                let before = separator(text).expect("what no value has");
                let (value, from) =
                    rest.split_at(separator(rest).expect("the text between") - before);
                values.push(unescaped(value));
                rest = from.strip_prefix(&**text).expect("the text between");
            }
            values.push(unescaped(rest.strip_suffix(&**last).expect("the text at the end")));
            values
        }

        fn unescaped(value: &str) -> String {
            let mut parts = value.split('%');
            let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
            for part in parts {
                bytes.push(u8::from_str_radix(&part[..2], 16).expect("two digits"));
                bytes.extend(part[2..].bytes());
            }
            String::from_utf8(bytes).expect("what was escaped")
        }

        proptest! {
            #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(5_000)))]

            #[test]
            fn no_two_lists_of_values_make_one_key(
                texts in prop::collection::vec(value(), 2..5),
                pool in prop::collection::vec(value(), 3),
            ) {
                let mut key = KeyTemplate::new().text(&texts[0]);
                for (value, text) in pool.iter().zip(&texts[1..]) {
                    key = key.part("value", value).text(text);
                }
                let is_separate = |text: &String| text.contains(|c| c != '%' && is_escaped(c));
                let problem = key.problem.clone();
                let is_apart = texts[1..texts.len() - 1].iter().all(is_separate);
                let is_empty = pool[..texts.len() - 1].contains(&String::new());
                prop_assert_eq!(problem.is_none(), is_apart && !is_empty, "{:?}", problem);
                if problem.is_none() {
                    prop_assert_eq!(values(&texts, &key.name), &pool[..texts.len() - 1]);
                }
            }
        }
    }
}
