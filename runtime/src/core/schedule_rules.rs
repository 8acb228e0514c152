//! How a schedule is written: a pattern of cron or a word for one, and a time zone.
//!
//! The runtime checks a schedule by these rules before its library of cron reads it, and the attribute
//! its literals. A crate of macros can't use the runtime, so `macros/src/schedule_rules.rs` is a copy of
//! this file. A test compares the two.

use std::ops::RangeInclusive;

/// What may stand for a pattern.
const NAMES: [(&str, &str); 5] = [
    ("hourly", "0 * * * *"),
    ("daily", "0 0 * * *"),
    ("weekly", "0 0 * * 1"),
    ("monthly", "0 0 1 * *"),
    ("yearly", "0 0 1 1 *"),
];

/// One of the five fields of a pattern.
struct Field {
    name: &'static str,
    takes: RangeInclusive<u32>,
    /// Names of its numbers, from the least one on.
    words: &'static [&'static str],
    /// What else it takes, for people.
    also: &'static str,
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 8] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];

const FIELDS: [Field; 5] = [
    Field { name: "minute", takes: 0..=59, words: &[], also: "" },
    Field { name: "hour", takes: 0..=23, words: &[], also: "" },
    Field { name: "day of the month", takes: 1..=31, words: &[], also: ", `L` for the last one" },
    Field { name: "month", takes: 1..=12, words: &MONTHS, also: ", JAN to DEC" },
    Field {
        name: "weekday",
        takes: 0..=7,
        words: &WEEKDAYS,
        also: ", SUN to SAT, `FRI#2`, `FRIL`",
    },
];

/// How many days each month has.
const DAYS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// The pattern of cron and the zone that a text names, such as `daily in Europe/Berlin` or
/// `30 1 * * * in UTC`. The error says what to write instead. Nobody has looked for the zone yet.
pub(crate) fn parse(text: &str) -> Result<(&str, &str), String> {
    let parts = text.rsplit_once(" in ").map(|(pattern, zone)| (pattern.trim(), zone.trim()));
    let Some((pattern, zone)) = parts.filter(|(_, zone)| !zone.is_empty()) else {
        let text = text.trim();
        return Err(format!(
            "`{text}` has no time zone; write `{text} in UTC`, or a zone such as `Europe/Berlin`"
        ));
    };
    if let Some((_, pattern)) = NAMES.iter().find(|(name, _)| *name == pattern) {
        return Ok((pattern, zone));
    }
    let nickname = pattern.strip_prefix('@').unwrap_or_default();
    if nickname != "annually" && !NAMES.iter().any(|(name, _)| *name == nickname) {
        check(pattern)?;
    }
    Ok((pattern, zone))
}

/// Checks each field of a pattern, and whether its days come in each year.
fn check(pattern: &str) -> Result<(), String> {
    let given: Vec<_> = pattern.split_whitespace().collect();
    if given.len() != FIELDS.len() {
        return Err(format!(
            "`{pattern}` is neither `hourly`, `daily`, `weekly`, `monthly` or `yearly` nor five \
             fields of cron, such as `30 1 * * *`, which are minute, hour, day of the month, month and \
             weekday"
        ));
    }
    let mut sets = [0; 5];
    for (nth, (field, text)) in FIELDS.iter().zip(&given).enumerate() {
        sets[nth] = field.read(text).map_err(|item| {
            let Field { name, takes, also, .. } = field;
            let (least, most) = (takes.start(), takes.end());
            format!(
                "`{item}` is no {name} in `{pattern}`: field {nth} of five takes {least} to {most}{also}, \
                 a range such as `2-5`, steps such as `*/2`, or a list of these with commas",
                nth = nth + 1
            )
        })?;
    }
    // A weekday comes in each month, and one of both is enough.
    if given[4] != "*" && given[4] != "?" {
        return Ok(());
    }
    let comes = |february: u32| {
        let days = |month: u32| if month == 2 { february } else { DAYS[month as usize - 1] };
        (1..=12).any(|month| sets[3] & 1 << month != 0 && sets[2] & ((2 << days(month)) - 1) != 0)
    };
    match (comes(29), comes(28)) {
        (false, _) => Err(format!("`{pattern}` names a time that never comes")),
        (true, false) => Err(format!("`{pattern}` does not come in each year")),
        (true, true) => Ok(()),
    }
}

impl Field {
    /// The set of the numbers that a field names, or which part of it names none.
    fn read<'a>(&self, text: &'a str) -> Result<u64, &'a str> {
        let is_of_days = !matches!(self.name, "minute" | "hour" | "month");
        if text == "*" || is_of_days && text == "?" {
            return Ok(set(&self.takes, 1));
        }
        // This one asks that the day of the month is right, too.
        let both = text.strip_prefix('+').filter(|_| self.name == "weekday");
        let items = both.unwrap_or(text).split(',');
        items.map(|item| self.item(item).ok_or(item)).try_fold(0, |all, item| Ok(all | item?))
    }

    fn item(&self, item: &str) -> Option<u64> {
        if self.is_special(item) {
            // It comes in each month, as the first does.
            return Some(2);
        }
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(number(step)?)),
            None => (item, None),
        };
        let range = match range.split_once('-') {
            Some((first, last)) => self.number(first)?..=self.last(last)?,
            None if step.is_some() => (range == "*").then(|| self.takes.clone())?,
            None => self.number(range).map(|number| number..=number)?,
        };
        let (step, most) = (step.unwrap_or(1), self.takes.end() - self.takes.start() + 1);
        (!range.is_empty() && (1..=most).contains(&step)).then(|| set(&range, step))
    }

    /// Returns true for what only fields of days take: `L`, `LW`, `15W`; `FRI#2`, `FRIL`.
    fn is_special(&self, item: &str) -> bool {
        let item = item.to_ascii_uppercase();
        match self.name {
            "day of the month" => {
                let workday = item.strip_suffix('W');
                item == "L" || workday.is_some_and(|day| day == "L" || self.number(day).is_some())
            }
            "weekday" => {
                let last = item.strip_suffix('L').map(|day| (day.trim_end_matches('#'), "1"));
                last.or_else(|| item.split_once('#')).is_some_and(|(day, nth)| {
                    self.number(day).is_some() && ["1", "2", "3", "4", "5"].contains(&nth)
                })
            }
            _ => false,
        }
    }

    /// A number of the field, or a word for one.
    fn number(&self, text: &str) -> Option<u32> {
        let mut words = self.words.iter().zip(self.takes.clone());
        let word = words.find(|(word, _)| word.eq_ignore_ascii_case(text));
        let in_range = || number(text).filter(|number| self.takes.contains(number));
        word.map(|(_, number)| number).or_else(in_range)
    }

    /// The same at the end of a range, where Sunday ends a week.
    fn last(&self, text: &str) -> Option<u32> {
        if text.eq_ignore_ascii_case("SUN") { self.number("7") } else { self.number(text) }
    }
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Each so many of a range.
fn set(range: &RangeInclusive<u32>, step: u32) -> u64 {
    let each = usize::try_from(step).unwrap_or(1);
    range.clone().step_by(each).fold(0, |all, number| all | 1 << number)
}
