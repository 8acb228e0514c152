//! What the checks of one server write.

use crate::store::{Diagnosis, Fact, Finding, Severity, short};

/// The facts and findings about one server.
#[derive(Debug)]
pub(super) struct Report {
    server: String,
    pub(super) diagnosis: Diagnosis,
}

impl Report {
    pub(super) fn new(server: &str) -> Self {
        Self { server: server.to_owned(), diagnosis: Diagnosis::default() }
    }

    pub(super) fn fact(&mut self, name: &'static str, value: impl AsRef<str>) {
        let (server, value) = (self.server.clone(), short(value.as_ref()));
        self.diagnosis.facts.push(Fact { name, server, value });
    }

    pub(super) fn problem(
        &mut self,
        check: &'static str,
        found: impl AsRef<str>,
        meaning: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(Severity::Problem, check, found.as_ref(), (meaning.into(), remedy.into()));
    }

    pub(super) fn warning(
        &mut self,
        check: &'static str,
        found: impl AsRef<str>,
        meaning: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(Severity::Warning, check, found.as_ref(), (meaning.into(), remedy.into()));
    }

    fn add(
        &mut self,
        severity: Severity,
        check: &'static str,
        found: &str,
        (meaning, remedy): (String, String),
    ) {
        let (server, found) = (self.server.clone(), short(found));
        let (meaning, remedy) = (sentence(&meaning), sentence(&remedy));
        let finding = Finding { severity, check, server, found, meaning, remedy };
        self.diagnosis.findings.push(finding);
    }
}

/// A text as a sentence: advice in an error message begins and ends in the middle of one.
pub(super) fn sentence(text: &str) -> String {
    let mut sentence: String = text.chars().take(1).flat_map(char::to_uppercase).collect();
    sentence.extend(text.chars().skip(1));
    if sentence.ends_with(|last: char| last.is_alphanumeric() || last == ')') {
        sentence.push('.');
    }
    sentence
}

/// A number of bytes, for people.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let (mut whole, mut tenths, mut unit) = (count, 0, "bytes");
    for next in UNITS {
        if whole < 1024 {
            break;
        }
        (tenths, unit) = (whole % 1024 * 10 / 1024, next);
        whole /= 1024;
    }
    if unit == "bytes" { format!("{count} bytes") } else { format!("{whole}.{tenths} {unit}") }
}

/// The setting in words that a remedy gives to `redis-cli`.
pub(super) fn config_set(setting: &str, value: &str) -> String {
    format!("`CONFIG SET {setting} {value}`, and the same in its configuration file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bytes_are_short() {
        for (count, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (1_600_000, "1.5 MiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn advice_becomes_a_sentence() {
        assert_eq!(sentence("is it full?"), "Is it full?");
        assert_eq!(sentence("raise maxmemory"), "Raise maxmemory.");
        assert_eq!(sentence("see `X`"), "See `X`");
        assert_eq!(sentence(""), "");
    }
}
