//! Text for a terminal: names that can't harm it, times, and columns.

use std::io::Write as _;

use unicode_width::UnicodeWidthStr;

/// A client as `service@host:process`.
pub(super) use leasehold_console::client;
/// A number of things.
pub(super) use leasehold_console::counted;
/// Durations are written in one way everywhere.
pub(super) use leasehold_console::short;
/// Names, notes and errors for a terminal, as the console writes them: anybody who may take a lock
/// chooses these texts.
pub(super) use leasehold_console::shown as plain;

/// Fills a text up to this many columns of the terminal. A longer text stays whole.
pub(super) fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

/// Cuts a text off at this many columns.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        let mut one = [0; 4];
        if out.width() + c.encode_utf8(&mut one).width() + 1 > columns {
            break;
        }
        out.push(c);
    }
    out + "…"
}

/// Shortens a text in its middle to this many columns: what tells names apart is at their ends.
pub(super) fn middle(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let left = columns.saturating_sub(1);
    let fitting = |letters: &mut dyn Iterator<Item = char>, most: usize| {
        let mut taken = (Vec::new(), 0);
        for letter in letters {
            let width = letter.encode_utf8(&mut [0; 4]).width();
            if taken.1 + width > most {
                break;
            }
            taken.0.push(letter);
            taken.1 += width;
        }
        taken
    };
    let (mut last, taken) = fitting(&mut text.chars().rev(), left - left / 3);
    last.reverse();
    let (first, _) = fitting(&mut text.chars(), left - taken);
    first.into_iter().chain(['…']).chain(last).collect()
}

/// Writes a line to stderr. That it is closed is no failure of the command.
pub(super) fn tell(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// Writes a warning to stderr, as an object if stderr is for programs.
pub(super) fn warn(text: &str, json: bool) {
    if json {
        tell(&serde_json::json!({ "warning": text }).to_string());
    } else {
        tell(&format!("leasehold: {}", plain(text)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_nothing_to_obey() {
        assert_eq!(plain("a\u{1b}[2Jb\r\u{7}"), r"a\u{1b}[2Jb\u{d}\u{7}");
        assert_eq!(plain("\u{202e}txt\u{9b}"), r"\u{202e}txt\u{9b}");
        assert_eq!(plain("zürich:東京:{42}"), "zürich:東京:{42}");
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(pad("東", 4), "東  ");
        assert_eq!(cut("東京都", 5), "東京…");
        assert_eq!(cut("abc", 3), "abc");
    }

    #[test]
    fn the_ends_of_a_long_text_stay() {
        assert_eq!(middle("billing@web-3:812", 17), "billing@web-3:812");
        assert_eq!(middle("billing@web-3:812", 10), "bil…-3:812");
        assert_eq!(middle("東京都港区", 6), "…港区");
        assert_eq!(middle("abc", 1), "…");
    }
}
