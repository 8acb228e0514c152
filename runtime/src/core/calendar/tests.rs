//! Ticks beside the days, weeks and months of the calendar library, for ten years.

use jiff::ToSpan;
use jiff::civil::{Date, Weekday, date};

use super::*;

/// Clocks that change at midnight, by half an hour, on other days than others, and never.
const ZONES: [&str; 6] = [
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Africa/Cairo",
];

const FIRST: Date = date(2024, 1, 1);

fn calendar(pattern: &str, zone: &str) -> Calendar {
    Calendar::parse(&format!("{pattern} in {zone}")).unwrap()
}

/// When a day begins in a zone.
fn begins(day: Date, zone: &str) -> u64 {
    in_millis(&day.to_zoned(TimeZone::get(zone).unwrap()).unwrap()).unwrap()
}

/// Each tick lasts from one of these days to the next: at its first and its last millisecond.
fn ticks_are(calendar: &Calendar, zone: &str, days: impl Iterator<Item = Date>) -> usize {
    let days: Vec<_> = days.collect();
    for (at, pair) in days.windows(2).enumerate() {
        let (began, ends) = (begins(pair[0], zone), begins(pair[1], zone));
        for time in [began, ends - 1] {
            let tick = calendar.tick_at(time);
            assert_eq!(tick, Some(CalendarTick { began, ends }), "{zone}: {pair:?}, {time}");
        }
        if at % 50 == 0 {
            let (first, at) = (begins(days[0], zone), u64::try_from(at).unwrap());
            assert_eq!(calendar.ticks_between(first + 1, began), at.saturating_sub(1));
        }
    }
    days.len()
}

#[test]
fn days_weeks_and_months_are_those_of_the_calendar() {
    for zone in ZONES {
        let days = || FIRST.series(1.day()).take_while(|day| day.year() < 2028);
        assert_eq!(ticks_are(&calendar("daily", zone), zone, days()), 1461);
        let mondays = days().filter(|day| day.weekday() == Weekday::Monday);
        ticks_are(&calendar("weekly", zone), zone, mondays);
        let months = days().filter(|day| day.day() == 1);
        ticks_are(&calendar("monthly", zone), zone, months);
        let years = days().filter(|day| day.day_of_year() == 1);
        ticks_are(&calendar("yearly", zone), zone, years);
    }
}

/// When clocks change, whatever the hour: each day has one tick, and the next begins where it ends.
#[test]
fn each_day_has_one_tick_at_every_half_hour() {
    for zone in ZONES {
        for half_hour in (0..48).step_by(5) {
            let calendar =
                calendar(&format!("{} {} * * *", half_hour % 2 * 30, half_hour / 2), zone);
            let mut time = begins(date(2023, 12, 31), zone);
            let mut ticks = 0;
            let end = begins(date(2025, 1, 1), zone);
            let mut last: Option<CalendarTick> = None;
            while time < end {
                let tick = calendar.tick_at(time).unwrap();
                assert!(last.is_none_or(|last| last.ends == tick.began), "{zone}: {tick:?}");
                assert!(tick.began <= time && time < tick.ends, "{zone}: {tick:?}");
                let hours = tick.lasts().as_secs_f64() / 3600.0;
                assert!((22.0..=26.0).contains(&hours), "{zone}, {half_hour}: {hours} h");
                (last, time, ticks) = (Some(tick), tick.ends, ticks + 1);
            }
            assert!((366..=369).contains(&ticks), "{zone}, {half_hour}: {ticks} ticks");
        }
    }
}

/// Each hour of a pattern with several begins a tick as often as it comes.
#[test]
fn several_times_of_a_day_are_ticks_as_they_come() {
    let calendar = calendar("30 2,14 * * *", "Europe/Berlin");
    let zone = || TimeZone::get("Europe/Berlin").unwrap();
    let at = |month, day, hour| {
        let time = date(2026, month, day).at(hour, 0, 0, 0).to_zoned(zone()).unwrap();
        calendar.tick_at(in_millis(&time).unwrap()).unwrap().lasts().as_secs() / 3600
    };
    assert_eq!([at(3, 28, 10), at(3, 28, 20), at(3, 29, 20)], [12, 23, 12], "02:30 never comes");
    assert_eq!([at(10, 24, 20), at(10, 25, 10), at(10, 25, 20)], [12, 12, 12], "it comes twice");
}

/// A report of another scheduler: a job of each quarter of an hour stood still for the hour that came
/// twice.
#[test]
fn quarters_of_an_hour_go_on_through_the_hour_that_comes_twice() {
    let calendar = calendar("*/15 * * * *", "Europe/Berlin");
    for (month, day, hours) in [(10, 25, 25), (3, 29, 23)] {
        let mut time = begins(date(2026, month, day), "Europe/Berlin");
        let end = begins(date(2026, month, day + 1), "Europe/Berlin");
        let mut ticks = 0;
        while time < end {
            let tick = calendar.tick_at(time).unwrap();
            assert_eq!((tick.began, tick.lasts().as_secs()), (time, 15 * 60));
            (time, ticks) = (tick.ends, ticks + 1);
        }
        assert_eq!(ticks, hours * 4);
    }
}

/// A report of other schedulers: a daily job at 01:30 lost the Monday after the clocks went forward,
/// because both runs were in one day of UTC.
#[test]
fn the_monday_after_the_clocks_went_forward_has_its_run() {
    let calendar = calendar("daily", "Europe/Berlin");
    let runs = [29, 30, 31].map(|day| {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let time = date(2026, 3, day).at(1, 30, 0, 0).to_zoned(zone).unwrap();
        calendar.tick_at(in_millis(&time).unwrap()).unwrap()
    });
    assert_eq!(runs.map(|tick| tick.lasts().as_secs() / 3600), [23, 24, 24]);
    assert!(runs[0].ends == runs[1].began && runs[1].ends == runs[2].began);
}

#[test]
fn what_is_no_schedule_gets_words() {
    for (text, words) in [
        ("", "no time zone"),
        ("daily", "write `daily in UTC`"),
        ("30 1 * * *", "write `30 1 * * * in UTC`"),
        ("daily in Berlin", "`Berlin` is no time zone of the IANA database"),
        ("daily in ", "no time zone"),
        ("sometimes in UTC", "five fields of cron"),
        ("* * * * * * in UTC", "five fields of cron"),
        ("61 * * * * in UTC", "`61` is no minute in `61 * * * *`: field 1 of five takes 0 to 59"),
        ("0 2,24 * * * in UTC", "`24` is no hour in"),
        ("0 17-9 * * * in UTC", "`17-9` is no hour in"),
        ("*/90 * * * * in UTC", "`*/90` is no minute in"),
        ("0/10 * * * * in UTC", "`0/10` is no minute in"),
        ("0 0 32 * * in UTC", "`32` is no day of the month in"),
        (
            "0 0 1 MON * in UTC",
            "`MON` is no month in `0 0 1 MON *`: field 4 of five takes 1 to 12, JAN",
        ),
        ("0 9 * * 8 in UTC", "`8` is no weekday in"),
        ("0 9 * * FRI#6 in UTC", "`FRI#6` is no weekday in"),
        ("0 9 * * MO in UTC", "`MO` is no weekday in"),
        ("0 0 30 2 * in UTC", "never comes"),
        ("0 0 31 4,6,9,11 * in UTC", "never comes"),
        ("0 0 29 2 * in UTC", "does not come in each year"),
        ("*/5 * 29 2 * in UTC", "does not come in each year"),
        ("0 9 * 11 FRI#5 in UTC", "does not come in each year"),
    ] {
        let error = Calendar::parse(text).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
    for good in [
        "hourly in UTC",
        "@daily in UTC",
        "0 9-17 * * MON-FRI in America/New_York",
        "*/1 0,1-23/2 1,15,L jan,7-12 fri-sun in UTC",
        "0 9 LW * ? in UTC",
        "0 9 15W,l * +1-5 in UTC",
        "0 9 * * MON#1,friL in UTC",
        " daily  in  UTC ",
        // Their ticks last for 364 or 371 days, and for up to 366 days and an hour.
        "0 9 * 11 SUN#4 in UTC",
        "0 9 * 1 THU#1 in UTC",
        "0 3 30 10 * in Europe/Berlin",
    ] {
        assert!(Calendar::parse(good).is_ok(), "{good}");
    }
}

/// A server whose clock was lost says a time like these. It must not end a job.
#[test]
fn there_is_a_tick_when_a_clock_was_lost() {
    for (pattern, zone) in
        [("30 1 * * *", "UTC"), ("daily", "Europe/Berlin"), ("yearly", "Asia/Tokyo")]
    {
        for time in [0, 1, 600_000, 1_000_000_000] {
            let tick = calendar(pattern, zone).tick_at(time).unwrap();
            assert!(tick.began <= time && time < tick.ends, "{pattern} in {zone}: {tick:?}");
        }
    }
}
