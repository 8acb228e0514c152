//! Patterns for the names of locks.

use std::fmt;

/// A pattern for the names of locks: `*` is any text, `?` is any one character, and all else is
/// itself.
#[derive(Clone)]
pub struct NamePattern {
    text: String,
}

impl NamePattern {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    /// The pattern of the names that a template makes: any text is in the place of a placeholder.
    pub(crate) fn of_template(template: &str) -> Self {
        let (mut text, mut rest) = (String::new(), template);
        while let Some((before, placeholder)) = rest.split_once('{')
            && let Some((_, after)) = placeholder.split_once('}')
        {
            text = text + before + "*";
            rest = after;
        }
        Self { text: text + rest }
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        let (mut pattern, mut rest) = (self.text.chars(), name.chars());
        // Behind the last `*`, and what of the name comes after the text that it stands for.
        let mut star = None;
        loop {
            let in_name = rest.clone();
            match (pattern.next(), rest.next()) {
                (Some('*'), _) => {
                    rest = in_name;
                    star = Some((pattern.clone(), rest.clone()));
                }
                (None, None) => return true,
                (Some('?'), Some(_)) => {}
                (Some(wanted), Some(found)) if wanted == found => {}
                // The `*` stands for one character more.
                _ => {
                    let Some((after, from)) = &mut star else { return false };
                    if from.next().is_none() {
                        return false;
                    }
                    (pattern, rest) = (after.clone(), from.clone());
                }
            }
        }
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

#[cfg(test)]
mod hostile {
    use proptest::prelude::*;

    use super::*;

    /// Slow, and plainly right.
    fn matches(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            (['*', rest @ ..], _) => {
                matches(rest, name) || !name.is_empty() && matches(pattern, &name[1..])
            }
            (['?', pattern @ ..], [_, name @ ..]) => matches(pattern, name),
            ([one, pattern @ ..], [other, name @ ..]) => one == other && matches(pattern, name),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn a_pattern_matches_what_it_says(pattern in "[ab?*ö]{0,9}", name in "[ab*?ö]{0,12}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = matches(&chars(&pattern), &chars(&name));
            prop_assert_eq!(NamePattern::new(&pattern).matches(&name), expected);
        }
    }

    /// A name of the greatest length, and a pattern that almost matches everywhere.
    #[test]
    fn no_pattern_takes_long() {
        let name = "a".repeat(512);
        assert!(!NamePattern::new(&format!("{}b", "*a".repeat(255))).matches(&name));
    }
}
