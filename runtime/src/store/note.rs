//! The note of a request, which an operator reads.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long the store remembers what an operator has done, and why.
pub(crate) const NOTES_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Why a request wants its lock, for people: text of at most 200 bytes without control
/// characters.
#[derive(Clone, PartialEq, Eq)]
pub struct Note(Arc<str>);

impl Note {
    const LONGEST: usize = 200;

    /// The note of a text: its first 200 bytes, in whole characters. Control characters become
    /// spaces. `None` if nothing is left.
    ///
    /// A note decides nothing, so no text is refused: a lock must not fail because a ticket has
    /// a long title.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
        let text = text.trim().char_indices();
        let text = text.take_while(|(at, letter)| at + letter.len_utf8() <= Self::LONGEST);
        let text: String = text.map(|(_, letter)| plain(letter)).collect();
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(of: &str) -> Option<String> {
        Note::new(of).map(|note| note.text().to_owned())
    }

    #[test]
    fn any_text_makes_a_note_or_none() {
        assert_eq!(text("TICKET-7: moved by hand").unwrap(), "TICKET-7: moved by hand");
        assert_eq!(text(" two\nlines\u{7f}\u{85} ").unwrap(), "two lines");
        assert_eq!(text("a\0b\tc").unwrap(), "a b c");
        assert_eq!(text(&"x".repeat(1000)).unwrap().len(), 200);
        // Whole characters: 66 of three bytes each.
        assert_eq!(text(&"€".repeat(1000)).unwrap(), "€".repeat(66));
        for nothing in ["", " ", "\n\r"] {
            assert_eq!(text(nothing), None, "{nothing:?}");
        }
    }
}
