//! Arguments that are valid alone, but not together.

use proc_macro2::Ident;
use syn::{Error, LitInt};

use crate::args::CallOption;

/// The contradictions among the names that were `given`, and among the `options` whose
/// values are valid.
pub(crate) fn contradictions(
    given: &[Ident],
    options: &[CallOption],
) -> impl Iterator<Item = Error> {
    let name = |name: &str| given.iter().find(|given| *given == name);
    let (permits, mode) = (name("permits"), name("mode"));
    let both = permits.filter(|_| mode.is_some()).map(|permits| {
        let text = "`permits` makes the lock a semaphore, `mode` makes it a read-write lock: \
                    remove one of the two";
        Error::new(permits.span(), text)
    });
    let hold = name("hold_at_least").zip(permits.or(mode)).map(|(hold, other)| {
        let text =
            format!("only mutexes support `hold_at_least` (for scheduled jobs): remove `{other}`");
        Error::new(hold.span(), text)
    });
    let weight = name("weight").filter(|_| permits.is_none()).map(|weight| {
        let text = match mode {
            None => {
                "`weight` is the number of a semaphore's `permits` that a call takes: add \
                 `permits = ...`, or remove `weight`"
            }
            Some(_) => {
                "only semaphores support `weight`, and `mode` makes the lock a read-write lock: \
                 remove `weight`"
            }
        };
        Error::new(weight.span(), text)
    });
    let unrenewed =
        options.iter().find(|it| it.name == "auto_renew" && it.value.to_string() == "false");
    let ends_twice = name("max_hold").filter(|_| unrenewed.is_some()).map(|most| {
        let text = "with `auto_renew = false` the lease ends after its `ttl`: set `ttl` to that time, \
                    and remove `max_hold`";
        Error::new(most.span(), text)
    });
    let stays_twice = name("linger").filter(|_| name("hold_at_least").is_some()).map(|linger| {
        let text = "`linger` keeps a lock that is free for others on demand, and `hold_at_least` \
                    keeps it from everybody: remove one of them";
        Error::new(linger.span(), text)
    });
    let errors = both.into_iter().chain(hold).chain(weight).chain(ends_twice);
    let errors = errors.chain(stays_twice).chain(of_once(given)).chain(of_reentrant(given));
    errors.chain(overweight(options))
}

/// What goes with re-entry: a mutex, and no question that only the server can answer.
fn of_reentrant(given: &[Ident]) -> Option<Error> {
    let name = |name: &str| given.iter().find(|given| *given == name);
    let reentrant = name("reentrant")?;
    let text = if let Some(other) = name("permits").or(name("mode")) {
        format!("only mutexes support `reentrant`: remove `{other}`")
    } else {
        let once = name("once").or(name("once_per"))?;
        format!(
            "with `{once}` each call asks the server whether the work is done, and a nested call \
             of a `reentrant` function asks nothing: remove one of them"
        )
    };
    Some(Error::new(reentrant.span(), text))
}

/// What goes with work that is to succeed once: a mutex, and no other rule for its end.
fn of_once(given: &[Ident]) -> Option<Error> {
    let name = |name: &str| given.iter().find(|given| *given == name);
    let of = |name: &Ident, text: String| Some(Error::new(name.span(), text));
    let per = name("once_per");
    if let (Some(offset), None) = (name("offset"), per) {
        let text =
            "`offset` shifts the ticks of `once_per`: add `once_per = ...`, or remove `offset`";
        return of(offset, text.to_owned());
    }
    let once = name("once").or(per)?;
    if let (Some(once), Some(_)) = (name("once"), per) {
        let text = "`once` counts from the success, `once_per` from the beginning of a tick: remove \
                    one of them";
        return of(once, text.to_owned());
    }
    if let Some(other) = name("permits").or(name("mode")) {
        return of(once, format!("only mutexes support `{once}`: remove `{other}`"));
    }
    let other = name("hold_at_least").or(name("linger"))?;
    let text = format!(
        "after a success `{once}` refuses all calls, and after a failure the lock must be free at \
         once: remove `{other}`"
    );
    of(once, text)
}

/// A weight above the number of permits, if both are literals. The runtime compares
/// expressions when it evaluates them.
fn overweight(options: &[CallOption]) -> Option<Error> {
    let (_, permits) = number(options, "permits")?;
    let (literal, weight) = number(options, "weight")?;
    let text = format!(
        "`weight = {weight}` is more than `permits = {permits}`, so the call could never run: \
         write at most {permits}"
    );
    (weight > permits).then(|| Error::new(literal.span(), text))
}

/// The value of an option, if it is a literal.
fn number(options: &[CallOption], name: &str) -> Option<(LitInt, u32)> {
    let option = options.iter().find(|option| option.name == name)?;
    let literal: LitInt = syn::parse2(option.value.clone()).ok()?;
    let number = literal.base10_parse().ok()?;
    Some((literal, number))
}

#[cfg(test)]
mod tests {
    use crate::parser::tests::{mistakes, parse};

    #[test]
    fn contradictions_are_reported() {
        let told = mistakes(r#"key = "a", permits = 2, hold_at_least = "5m""#);
        assert_eq!(
            told,
            ["only mutexes support `hold_at_least` (for scheduled jobs): remove `permits`"]
        );
        let told = mistakes(r#"key = "a", weight = size(id)"#);
        assert_eq!(
            told,
            ["`weight` is the number of a semaphore's `permits` that a call takes: add \
              `permits = ...`, or remove `weight`"]
        );
    }

    #[test]
    fn max_hold_without_renewal_is_refused() {
        for args in
            ["auto_renew = false, max_hold = \"10m\"", "max_hold = MOST, auto_renew = false"]
        {
            let told = mistakes(&format!("key = \"a\", {args}"));
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(
                told[0].starts_with("with `auto_renew = false` the lease ends after its `ttl`")
            );
        }
        for args in
            ["auto_renew = true, max_hold = \"10m\"", "auto_renew = RENEW, max_hold = \"10m\""]
        {
            assert!(parse(&format!("key = \"a\", {args}")).is_ok(), "{args}");
        }
    }

    #[test]
    fn linger_goes_with_every_kind_but_not_with_hold_at_least() {
        for kind in ["", "permits = 2, weight = 2, ", "mode = \"read\", ", "mode = \"write\", "] {
            assert!(parse(&format!("key = \"a\", {kind}linger = \"2s\"")).is_ok(), "{kind}");
        }
        let told = mistakes("key = \"a\", hold_at_least = TIME, linger = \"2s\"");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].ends_with("and `hold_at_least` keeps it from everybody: remove one of them")
        );
        let told = mistakes("key = \"a\", permits = 2, hold_at_least = \"5m\", linger = LINGER");
        assert_eq!(told.len(), 2, "{told:?}");
    }

    #[test]
    fn once_goes_with_a_plain_mutex_only() {
        for args in ["once = \"1h\"", "once_per = \"1h\", offset = \"5m\", max_hold = \"1m\""] {
            assert!(parse(&format!("key = \"a\", if_held = \"skip\", {args}")).is_ok(), "{args}");
        }
        for (args, expected) in [
            ("once = TIME, permits = 2", "only mutexes support `once`: remove `permits`"),
            ("once_per = TIME, mode = \"read\"", "only mutexes support `once_per`: remove `mode`"),
            ("offset = TIME", "`offset` shifts the ticks of `once_per`: add `once_per = ...`"),
            ("offset = TIME, once = TIME", "`offset` shifts the ticks of `once_per`: add"),
            ("once = TIME, once_per = TIME", "`once` counts from the success, `once_per` from"),
            ("once = TIME, linger = TIME", "after a success `once` refuses all calls"),
            ("once_per = TIME, hold_at_least = TIME", "after a success `once_per` refuses"),
        ] {
            let told = mistakes(&format!("key = \"a\", {args}"));
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].starts_with(expected), "{told:?}");
        }
    }

    #[test]
    fn a_mode_goes_with_read_write_locks_only() {
        let semaphore = "`permits` makes the lock a semaphore, `mode` makes it a read-write lock: \
                         remove one of the two";
        let weight = "only semaphores support `weight`, and `mode` makes the lock a read-write lock: \
                      remove `weight`";
        let hold = "only mutexes support `hold_at_least` (for scheduled jobs): remove `mode`";
        for (args, expected) in [
            ("permits = 2", &[semaphore][..]),
            ("weight = 2", &[weight]),
            ("hold_at_least = \"5m\"", &[hold]),
            ("weight = 2, hold_at_least = \"5m\"", &[hold, weight]),
            // `weight` is valid once `mode` is removed, so it is not reported.
            ("permits = 2, weight = 2", &[semaphore]),
        ] {
            assert_eq!(mistakes(&format!("key = \"a\", mode = \"read\", {args}")), expected);
        }
    }

    #[test]
    fn only_mutexes_are_entered_again() {
        for (args, start) in [
            ("permits = 2", "only mutexes support `reentrant`: remove `permits`"),
            ("permits = 2, weight = 2", "only mutexes support `reentrant`: remove `permits`"),
            ("mode = \"read\"", "only mutexes support `reentrant`: remove `mode`"),
            ("mode = \"write\"", "only mutexes support `reentrant`: remove `mode`"),
            ("once = \"1h\"", "with `once` each call asks the server"),
            ("once_per = EACH", "with `once_per` each call asks the server"),
        ] {
            let told = mistakes(&format!("key = \"a\", reentrant, {args}"));
            assert!(told.len() == 1 && told[0].starts_with(start), "{args}: {told:?}");
        }
        for args in ["max_hold = \"1m\"", "linger = \"2s\"", "if_held = \"skip\""] {
            assert!(parse(&format!("key = \"a\", reentrant, {args}")).is_ok(), "{args}");
        }
    }

    #[test]
    fn a_weight_above_the_permits_is_refused() {
        for args in ["weight = 5, permits = 4", "permits = 0x4, weight = 5u32"] {
            let told = mistakes(&format!("key = \"a\", {args}"));
            assert_eq!(
                told,
                [
                    "`weight = 5` is more than `permits = 4`, so the call could never run: write at most 4"
                ],
                "{args}"
            );
        }
        for args in ["permits = 4, weight = 4", "permits = LIMIT, weight = 5"] {
            assert!(parse(&format!("key = \"a\", {args}")).is_ok(), "{args}");
        }
        assert!(parse("key = \"a\", permits = 4, weight = HALF").is_ok());
        let told = mistakes("key = \"a\", permits = 0, weight = 2, weight = 3");
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("`permits` is the number of holders"));
        assert_eq!(told[1], "`weight` is given twice");
    }
}
