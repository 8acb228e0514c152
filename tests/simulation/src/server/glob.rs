//! Patterns of keys and channels.

/// Returns true if a text fits a pattern with `*`, `?`, `[a-z]`, `[^a]` and `\`.
pub(super) fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let Some((&first, rest)) = pattern.split_first() else { return text.is_empty() };
    match first {
        b'*' => (0..=text.len()).any(|skipped| fits(rest, &text[skipped..])),
        b'?' => text.split_first().is_some_and(|(_, text)| fits(rest, text)),
        b'[' => {
            let Some((&letter, text)) = text.split_first() else { return false };
            let (is_in, rest) = class(rest, letter);
            is_in && fits(rest, text)
        }
        b'\\' if !rest.is_empty() => text.first() == rest.first() && fits(&rest[1..], &text[1..]),
        letter => text.first() == Some(&letter) && fits(rest, &text[1..]),
    }
}

/// Reads a class of letters behind its `[`. Returns whether the letter is in it, and the pattern
/// behind it.
fn class(mut pattern: &[u8], letter: u8) -> (bool, &[u8]) {
    let is_not = pattern.first() == Some(&b'^');
    if is_not {
        pattern = &pattern[1..];
    }
    let mut is_in = false;
    loop {
        pattern = match pattern {
            [] => break,
            [b']', rest @ ..] => {
                pattern = rest;
                break;
            }
            [b'\\', one, rest @ ..] => {
                is_in |= *one == letter;
                rest
            }
            [from, b'-', to, rest @ ..] => {
                is_in |= (*from.min(to)..=*from.max(to)).contains(&letter);
                rest
            }
            [one, rest @ ..] => {
                is_in |= *one == letter;
                rest
            }
        };
    }
    (is_in != is_not, pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_on_a_server() {
        for (pattern, text, is_fit) in [
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("a?c", "abc", true),
            ("a[b-d]c", "acc", true),
            ("a[^b]c", "abc", false),
            (r"a\*c", "a*c", true),
            (r"a\*c", "abc", false),
            ("*", "", true),
            ("", "a", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), is_fit, "{pattern} {text}");
        }
    }
}
