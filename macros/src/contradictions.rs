//! Arguments that are right one by one, but not together.

use proc_macro2::Ident;
use syn::{Error, LitInt};

use crate::args::CallOption;

/// What cannot be together, of the names that were `given`, and of the `options`
/// among them whose values are right.
pub(crate) fn contradictions(
    given: &[Ident],
    options: &[CallOption],
) -> impl Iterator<Item = Error> {
    let name = |name: &str| given.iter().find(|given| *given == name);
    let (permits, mode) = (name("permits"), name("mode"));
    let both = permits.filter(|_| mode.is_some()).map(|permits| {
        let text = "`permits` makes the lock a semaphore, `mode` a read-write lock: remove one of \
                    the two";
        Error::new(permits.span(), text)
    });
    let hold = name("hold_at_least").zip(permits.or(mode)).map(|(hold, other)| {
        let text = format!("`hold_at_least` is for mutexes (scheduled jobs); remove `{other}`");
        Error::new(hold.span(), text)
    });
    let weight = name("weight").filter(|_| permits.is_none()).map(|weight| {
        let text = match mode {
            None => {
                "`weight` is how much of a semaphore's `permits` a call takes: add `permits = \
                 ...`, or remove `weight`"
            }
            Some(_) => {
                "`weight` is for semaphores, and `mode` makes the lock a read-write lock: remove \
                 `weight`"
            }
        };
        Error::new(weight.span(), text)
    });
    let unrenewed =
        options.iter().find(|it| it.name == "auto_renew" && it.value.to_string() == "false");
    let ends_twice = name("max_hold").filter(|_| unrenewed.is_some()).map(|most| {
        let text = "with `auto_renew = false` the lease ends with its `ttl`: write that time as `ttl`, \
                    and remove `max_hold`";
        Error::new(most.span(), text)
    });
    both.into_iter().chain(hold).chain(weight).chain(ends_twice).chain(overweight(options))
}

/// A weight that never fits, where both are literals; expressions are
/// compared when they are evaluated.
fn overweight(options: &[CallOption]) -> Option<Error> {
    let (_, permits) = number(options, "permits")?;
    let (literal, weight) = number(options, "weight")?;
    let text = format!(
        "`weight = {weight}` never fits into `permits = {permits}`: write at most {permits}"
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
    use crate::args::tests::{mistakes, parse};

    #[test]
    fn what_cannot_be_together_is_told() {
        let told = mistakes(r#"key = "a", permits = 2, hold_at_least = "5m""#);
        assert_eq!(told, ["`hold_at_least` is for mutexes (scheduled jobs); remove `permits`"]);
        let told = mistakes(r#"key = "a", weight = size(id)"#);
        assert_eq!(
            told,
            ["`weight` is how much of a semaphore's `permits` a call takes: add `permits = ...`, \
              or remove `weight`"]
        );
    }

    #[test]
    fn what_is_not_renewed_has_one_end() {
        for args in
            ["auto_renew = false, max_hold = \"10m\"", "max_hold = MOST, auto_renew = false"]
        {
            let told = mistakes(&format!("key = \"a\", {args}"));
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].starts_with("with `auto_renew = false` the lease ends with its `ttl`"));
        }
        for args in
            ["auto_renew = true, max_hold = \"10m\"", "auto_renew = RENEW, max_hold = \"10m\""]
        {
            assert!(parse(&format!("key = \"a\", {args}")).is_ok(), "{args}");
        }
    }

    #[test]
    fn a_mode_is_of_read_write_locks_alone() {
        let semaphore = "`permits` makes the lock a semaphore, `mode` a read-write lock: remove \
                         one of the two";
        let weight = "`weight` is for semaphores, and `mode` makes the lock a read-write lock: \
                      remove `weight`";
        let hold = "`hold_at_least` is for mutexes (scheduled jobs); remove `mode`";
        for (args, expected) in [
            ("permits = 2", &[semaphore][..]),
            ("weight = 2", &[weight]),
            ("hold_at_least = \"5m\"", &[hold]),
            ("weight = 2, hold_at_least = \"5m\"", &[hold, weight]),
            // Without `mode`, the weight is right.
            ("permits = 2, weight = 2", &[semaphore]),
        ] {
            assert_eq!(mistakes(&format!("key = \"a\", mode = \"read\", {args}")), expected);
        }
    }

    #[test]
    fn a_weight_that_never_fits_is_told() {
        for args in ["weight = 5, permits = 4", "permits = 0x4, weight = 5u32"] {
            let told = mistakes(&format!("key = \"a\", {args}"));
            assert_eq!(
                told,
                ["`weight = 5` never fits into `permits = 4`: write at most 4"],
                "{args}"
            );
        }
        for args in ["permits = 4, weight = 4", "permits = LIMIT, weight = 5"] {
            assert!(parse(&format!("key = \"a\", {args}")).is_ok(), "{args}");
        }
        assert!(parse("key = \"a\", permits = 4, weight = HALF").is_ok());
        let told = mistakes("key = \"a\", permits = 0, weight = 2, weight = 3");
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("`permits` is how many"));
        assert_eq!(told[1], "`weight` is given twice");
    }
}
