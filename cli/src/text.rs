//! Text for a terminal: names that can't harm it, times, and columns.

use std::io::Write as _;
use std::time::Duration;

use unicode_width::UnicodeWidthStr;

/// Names, notes and errors for a terminal, as the console writes them: anybody who may take a lock
/// chooses these texts.
pub(super) use leasehold_console::shown as plain;

/// A duration in at most six characters: `0.4s`, `12s`, `5m03s`, `2h05m`, `3d04h`.
pub(super) fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1}s", time.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

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

/// Writes a line to stderr. That it is closed is no failure of the command.
pub(super) fn tell(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// A number of things: `1 lock`, `2 locks`.
pub(super) fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
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
    fn times_are_short() {
        let shown = |millis| short(Duration::from_millis(millis));
        assert_eq!(shown(9_940), "9.9s");
        assert_eq!(shown(303_000), "5m03s");
        assert_eq!(shown(7_500_000), "2h05m");
        assert_eq!(shown(u64::from(u32::MAX)), "49d17h");
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(pad("東", 4), "東  ");
        assert_eq!(cut("東京都", 5), "東京…");
        assert_eq!(cut("abc", 3), "abc");
    }
}
