//! Durations. Literals are checked here, at compile time; any other expression is left to
//! rustc.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Error, Expr, ExprLit, Lit, Result};

use crate::option_rules::{self, Rule};

/// A rate allows one more each time that this has passed, at the most. The runtime has the same.
pub(crate) const SHORTEST_INTERVAL: Duration = Duration::from_micros(100);

/// Returns true if the value of an option is a time.
pub(crate) fn is_option(name: &str) -> bool {
    name == "wait" || rule(name).is_some()
}

fn rule(option: &str) -> Option<&'static Rule> {
    const ALL: &[Rule] = &option_rules::ALL;
    ALL.iter().find(|rule| rule.option == option)
}

/// Reads the time of an option.
pub(crate) fn read(option: &str, value: &Expr) -> Result<TokenStream> {
    if let Some(text) = without_end(option).filter(|_| is_word(value)) {
        return Err(Error::new_spanned(value, text));
    }
    let Expr::Lit(ExprLit { lit, .. }) = value else {
        return Ok(value.into_token_stream());
    };
    let duration = literal(lit)?;
    if let Some(range) = rule(option).and_then(|rule| rule.out_of_range(duration)) {
        return Err(Error::new(lit.span(), format!("`{option}` must be {range}")));
    }
    Ok(tokens(duration))
}

/// The expression of a time.
pub(crate) fn tokens(time: Duration) -> TokenStream {
    let (secs, nanos) = (time.as_secs(), time.subsec_nanos());
    quote!(::core::time::Duration::new(#secs, #nanos))
}

/// How to say that there is no limit, where users look for a word.
fn without_end(option: &str) -> Option<&'static str> {
    match option {
        "wait" => Some(
            "`wait` is a duration such as \"10s\"; to wait for ever, write \
             `wait = leasehold::Wait::Forever`, without quotes",
        ),
        "max_hold" => Some(
            "`max_hold` is a duration such as \"10m\"; for no limit, which is the default, remove \
             `max_hold`",
        ),
        _ => None,
    }
}

/// Reads a literal.
pub(crate) fn literal(literal: &Lit) -> Result<Duration> {
    let text = match literal {
        Lit::Str(text) if is_number(text.value().trim()) => unit_missing(text.value().trim()),
        Lit::Str(text) if is_beyond_all(&text.value()) => {
            format!("{} is not a duration such as \"10s\": it is too long", text.token())
        }
        Lit::Str(text) => {
            match (of_a_calendar(&text.value()), humantime::parse_duration(&text.value())) {
                (Some(why), _) => format!("{}: {why}", text.token()),
                (None, Ok(duration)) => return Ok(duration),
                (None, Err(error)) => {
                    format!("{} is not a duration such as \"10s\": {error}", text.token())
                }
            }
        }
        Lit::Int(number) => unit_missing_or_unquoted(number.base10_digits(), number.suffix()),
        Lit::Float(number) => unit_missing_or_unquoted(number.base10_digits(), number.suffix()),
        _ => "a duration is a string such as \"10s\", or an expression".to_owned(),
    };
    Err(Error::new(literal.span(), text))
}

/// What is wrong with a text that names a unit of the calendar, if it does. humantime takes them
/// for 30.44 and 365.25 days, so a job "of each month" would follow no calendar. And `M` is one
/// letter from a minute. The tool `leasehold` says the same.
fn of_a_calendar(text: &str) -> Option<&'static str> {
    text.split(|char: char| !char.is_alphabetic()).find_map(|unit| match unit {
        "M" => Some(
            "`M` is a month, which has no fixed length: write \"1m\" for a minute, or \"30days\"; \
             for a job of each month, write `schedule = \"monthly in UTC\"`",
        ),
        "month" | "months" => Some(
            "a month has no fixed length: write \"30days\"; for a job of each month, write \
             `schedule = \"monthly in UTC\"`",
        ),
        "y" | "yr" | "yrs" | "year" | "years" => Some(
            "a year has no fixed length: write \"365days\"; for a job of each year, write \
             `schedule = \"yearly in UTC\"`",
        ),
        _ => None,
    })
}

/// Returns true for a string without a digit, such as "forever". A user who writes that wants no
/// limit.
fn is_word(value: &Expr) -> bool {
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = value else { return false };
    !text.value().contains(|char: char| char.is_ascii_digit())
}

fn is_number(text: &str) -> bool {
    text.starts_with(|char: char| char.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Returns true if a text may be so long a time that humantime 2.4 panics: 2^64 seconds. Five numbers
/// of eleven digits are less, in years.
fn is_beyond_all(text: &str) -> bool {
    text.len() > 64 || text.split(|char: char| !char.is_ascii_digit()).any(|it| it.len() > 11)
}

fn unit_missing(number: &str) -> String {
    format!("a duration needs a unit: write \"{number}s\"")
}

/// The message for `10s`, which Rust reads as a number with a suffix, or for `10`.
fn unit_missing_or_unquoted(number: &str, suffix: &str) -> String {
    let text = format!("{number}{suffix}");
    if let Some(why) = of_a_calendar(suffix) {
        return format!("{text}: {why}");
    }
    match humantime::parse_duration(&text) {
        Ok(_) if !suffix.is_empty() => format!("a duration is a string: write \"{text}\""),
        _ => unit_missing(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens that `value` becomes, or the error message.
    fn read(option: &str, value: &str) -> String {
        let value = syn::parse_str(value).unwrap();
        let read = super::read(option, &value);
        read.map_or_else(|error| error.to_string(), |tokens| tokens.to_string())
    }

    fn duration(secs: u64, nanos: u32) -> String {
        quote!(::core::time::Duration::new(#secs, #nanos)).to_string()
    }

    #[test]
    fn no_time_is_too_long_for_an_error() {
        for text in ["18446744073709551615s 1000ms", "584542046090y 27015615s 1000ms"] {
            let said = read("ttl", &format!("{text:?}"));
            assert!(said.ends_with("it is too long"), "{said}");
        }
        let most = "99999999999w".repeat(5);
        assert!(read("ttl", &format!("{most:?}")).starts_with("`ttl` must be"));
    }

    #[test]
    fn units_of_the_calendar_are_refused() {
        for option in option_rules::ALL.map(|rule| rule.option).into_iter().chain(["wait"]) {
            for (text, better) in [
                ("1M", "`M` is a month, which has no fixed length: write \"1m\" for a minute"),
                ("1 month", "a month has no fixed length: write \"30days\""),
                ("2months", "a month has"),
                ("1day 1M", "`M` is a month"),
                ("1y", "a year has no fixed length: write \"365days\""),
                ("1yr", "a year has"),
                ("2yrs", "a year has"),
                ("1year", "a year has"),
                ("2 years 1s", "a year has"),
            ] {
                let said = read(option, &format!("{text:?}"));
                assert!(said.starts_with(&format!("{text:?}: {better}")), "{said}");
            }
            for unquoted in ["1M", "1y", "1month"] {
                let said = read(option, unquoted);
                assert!(said.contains("has no fixed length"), "{said}");
            }
        }
        for text in ["1m", "1min", "1minute", "1ms", "1d", "1day", "2w", "1week"] {
            assert!(!read("offset", &format!("{text:?}")).contains("length"), "{text}");
        }
    }

    #[test]
    fn literals_become_seconds_and_nanoseconds() {
        assert_eq!(read("ttl", "\"10s\""), duration(10, 0));
        assert_eq!(read("ttl", "\"1m 30s\""), duration(90, 0));
        assert_eq!(read("ttl", "\"1500ms\""), duration(1, 500_000_000));
        assert_eq!(read("wait", "\"0s\""), duration(0, 0));
        assert_eq!(read("wait", "\"2days\""), duration(2 * 24 * 60 * 60, 0));
    }

    #[test]
    fn expressions_pass() {
        assert_eq!(read("ttl", "TTL"), "TTL");
        assert_eq!(read("wait", "self . wait ()"), "self . wait ()");
    }

    #[test]
    fn a_missing_unit_is_reported() {
        for (value, better) in [
            ("\"10\"", "10s"),
            ("\" 0 \"", "0s"),
            ("10", "10s"),
            ("10u64", "10s"),
            ("1.5", "1.5s"),
            ("\"1.5\"", "1.5s"),
        ] {
            let text = format!("a duration needs a unit: write \"{better}\"");
            assert_eq!(read("ttl", value), text, "{value}");
        }
    }

    #[test]
    fn other_values_are_refused() {
        assert_eq!(read("wait", "10s"), "a duration is a string: write \"10s\"");
        assert_eq!(read("wait", "5.0s"), "a duration is a string: write \"5.0s\"");
        let text = "\"soon\" is not a duration such as \"10s\": expected number at 0";
        assert_eq!(read("ttl", "\"soon\""), text);
        let text = "a duration is a string such as \"10s\", or an expression";
        assert_eq!(read("wait", "true"), text);
    }

    #[test]
    fn forever_is_answered_with_the_right_way() {
        for word in ["forever", "Wait::Forever", "infinite", ""] {
            let word = format!("\"{word}\"");
            let told = read("wait", &word);
            assert!(told.contains("write `wait = leasehold::Wait::Forever`, without"), "{told}");
            let told = read("max_hold", &word);
            assert!(told.contains("remove `max_hold`"), "{told}");
        }
        assert_eq!(read("wait", "Wait::Forever"), "Wait :: Forever");
    }

    #[test]
    fn the_rules_say_the_same_in_words_and_in_time() {
        for range in option_rules::ALL.iter().filter_map(|rule| rule.range.as_ref()) {
            for bound in [&range.least, &range.most] {
                assert_eq!(humantime::parse_duration(bound.text), Ok(bound.time), "{bound:?}");
            }
        }
    }

    #[test]
    fn literals_are_in_the_range_of_their_option() {
        assert_eq!(read("ttl", "\"100ms\""), duration(0, 100_000_000));
        assert_eq!(read("ttl", "\"24h\""), duration(86_400, 0));
        assert_eq!(read("ttl", "\"99ms\""), "`ttl` must be from 100ms to 24h");
        let outside = read("linger", "\"1h 1ms\"");
        assert_eq!(outside, "`linger` must be at most 1h");
        assert_eq!(read("offset", "\"900days\""), duration(900 * 86_400, 0));
        for rule in &option_rules::ALL {
            let Some(range) = &rule.range else { continue };
            let (option, most) = (rule.option, range.most.time);
            assert_eq!(
                read(option, &format!("{:?}", range.most.text)),
                duration(most.as_secs(), 0)
            );
            let above = format!("\"{}s 1ms\"", most.as_secs());
            assert!(read(option, &above).starts_with(&format!("`{option}` must be")));
            if !range.least.time.is_zero() {
                assert!(read(option, "\"99ms\"").starts_with(&format!("`{option}` must be")));
            }
        }
    }
}
