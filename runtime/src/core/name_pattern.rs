//! Patterns for the names of locks.

use std::fmt;

use wildmatch::WildMatch;

/// A pattern for the names of locks: `*` is any text, `?` is any one character, and all else is
/// itself.
#[derive(Clone)]
pub struct NamePattern {
    text: String,
    pattern: WildMatch,
}

impl NamePattern {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), pattern: WildMatch::new(text) }
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        self.pattern.matches(name)
    }

    /// What each name that matches begins with.
    #[cfg(feature = "redis")]
    pub(crate) fn literal(&self) -> &str {
        self.text.split(['*', '?']).next().unwrap_or_default()
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}
