//! Arguments that are valid alone, but not together.

use proc_macro2::Ident;
use syn::{Error, LitInt};

use crate::{
    args::CallOption,
    option_rules::{self, Rule, rule},
};

const ASKS: &str = "each call asks the server whether the work is done, and a nested call of a \
                    `reentrant` function asks nothing";

const OF_ONE: &str = "only a function with one lock has it";

const BESIDE: &str = "a call takes a rate beside a lock by \
                      `all(lock(key = \"...\", permits = 3), lock(key = \"...\", rate = \"10/s\"))`";

pub(crate) const NO_LEASE: &str =
    "what is taken from a rate is no lease, because time gives it back";

/// The rules of what only the attribute has.
const OWN: [Rule; 6] = [
    Rule {
        not_with: &[
            ("key", "each lock of the set has its own `key`"),
            ("permits", "each lock of the set has its own `permits`"),
            ("weight", "each lock of the set has its own `weight`"),
            ("mode", "each lock of the set has its own `mode`"),
            ("rate", "each rate of the set has its own `rate`"),
            ("once", OF_ONE),
            ("once_per", OF_ONE),
            ("offset", OF_ONE),
            ("schedule", OF_ONE),
            ("success", OF_ONE),
            ("hold_at_least", OF_ONE),
            ("linger", OF_ONE),
            ("replace", OF_ONE),
            ("reentrant", OF_ONE),
        ],
        ..rule("all")
    },
    Rule {
        not_with: &[(
            "mode",
            "`permits` makes the lock a semaphore, and `mode` makes it a read-write lock",
        )],
        ..rule("permits")
    },
    Rule {
        not_with: &[("mode", "only semaphores have permits")],
        needs: Some(("permits", "`weight` is how many of a semaphore's permits a call takes")),
        ..rule("weight")
    },
    Rule {
        not_with: &[("on_lost", "a body whose place a newer call takes is cancelled")],
        ..rule("replace")
    },
    Rule {
        is_for_mutexes: true,
        not_with: &[("once", ASKS), ("once_per", ASKS), ("schedule", ASKS)],
        ..rule("reentrant")
    },
    Rule {
        not_with: &[
            ("permits", BESIDE),
            ("mode", BESIDE),
            ("ttl", NO_LEASE),
            ("max_hold", NO_LEASE),
            ("hold_at_least", NO_LEASE),
            ("linger", NO_LEASE),
            ("replace", NO_LEASE),
            ("auto_renew", NO_LEASE),
            ("on_lost", NO_LEASE),
            ("lease", NO_LEASE),
            ("owner", NO_LEASE),
            ("note", NO_LEASE),
            ("reentrant", NO_LEASE),
            ("once", NO_LEASE),
            ("once_per", NO_LEASE),
            ("offset", NO_LEASE),
            ("schedule", NO_LEASE),
            ("success", NO_LEASE),
        ],
        ..rule("rate")
    },
];

/// Why an argument does not go with `all`, if it does not.
pub(crate) fn excluded_by_all(name: &Ident) -> Option<&'static str> {
    let all = OWN.iter().find(|rule| rule.option == "all")?;
    all.not_with.iter().find(|(other, _)| name == other).map(|(_, why)| *why)
}

/// Returns true if an argument means nothing without a lease.
pub(crate) fn needs_lease(name: &Ident) -> bool {
    let rate = OWN.iter().find(|rule| rule.option == "rate");
    rate.is_some_and(|rule| rule.not_with.iter().any(|(it, why)| name == it && *why == NO_LEASE))
}

/// The contradictions among the names that were `given`, and among the `options` whose
/// values are valid.
pub(crate) fn contradictions(given: &[Ident], options: &[CallOption]) -> Vec<Error> {
    let given_name = |name: &str| given.iter().find(|given| *given == name);
    let mut errors: Vec<_> = OWN
        .iter()
        .chain(&option_rules::ALL)
        .filter_map(|rule| {
            let text = problem(rule, |name| given_name(name).is_some());
            Some(Error::new(given_name(rule.option)?.span(), text?))
        })
        .collect();
    let is_unrenewed = |it: &CallOption| it.name == "auto_renew" && it.value.to_string() == "false";
    if let Some(most) = given_name("max_hold").filter(|_| options.iter().any(is_unrenewed)) {
        let text = "with `auto_renew = false` the lease ends after its `ttl`: set `ttl` to that time, \
                    and remove `max_hold`";
        errors.push(Error::new(most.span(), text));
    }
    if let Some(success) = given_name("success")
        && !["once", "once_per", "schedule", "all", "rate"]
            .iter()
            .any(|it| given_name(it).is_some())
    {
        let text = "`success` says which results count as done: add `once`, `once_per` or `schedule`, or \
                    remove it";
        errors.push(Error::new(success.span(), text));
    }
    errors.extend(overweight(options));
    errors
}

/// What an option's rule has against the others.
fn problem(rule: &Rule, is_given: impl Fn(&str) -> bool) -> Option<String> {
    let option = rule.option;
    let other_kind = ["permits", "mode"].into_iter().find(|kind| is_given(kind));
    if let Some(kind) = other_kind.filter(|_| rule.is_for_mutexes) {
        return Some(format!("only mutexes support `{option}`: remove `{kind}`"));
    }
    if let Some((other, why)) = rule.not_with.iter().find(|(other, _)| is_given(other)) {
        return Some(format!(
            "`{option}` can't be combined with `{other}`: {why}; remove one of them"
        ));
    }
    // A set says it with `all`.
    // A rate has weights, too.
    let is_there = |other: &str| is_given(other) || other == "permits" && is_given("rate");
    let (other, why) = rule.needs.filter(|(other, _)| !is_there(other) && !is_given("all"))?;
    Some(format!("{why}: add `{other} = ...`, or remove `{option}`"))
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
        assert_eq!(told, ["only mutexes support `hold_at_least`: remove `permits`"]);
        let told = mistakes(r#"key = "a", weight = size(id)"#);
        assert_eq!(
            told,
            [
                "`weight` is how many of a semaphore's permits a call takes: add `permits = ...`, or \
              remove `weight`"
            ]
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
            told[0].starts_with("`linger` can't be combined with `hold_at_least`: "),
            "{told:?}"
        );
        assert!(told[0].ends_with("; remove one of them"), "{told:?}");
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
            (
                "once = TIME, once_per = TIME",
                "`once` can't be combined with `once_per`: `once` counts",
            ),
            ("once = TIME, linger = TIME", "`once` can't be combined with `linger`: a success"),
            (
                "once_per = TIME, hold_at_least = TIME",
                "`once_per` can't be combined with `hold_at_least`: a success refuses",
            ),
        ] {
            let told = mistakes(&format!("key = \"a\", {args}"));
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].starts_with(expected), "{told:?}");
        }
    }

    #[test]
    fn a_mode_goes_with_read_write_locks_only() {
        let semaphore = "`permits` can't be combined with `mode`: `permits` makes the lock a \
                         semaphore, and `mode` makes it a read-write lock; remove one of them";
        let weight = "`weight` can't be combined with `mode`: only semaphores have permits; remove \
                      one of them";
        let hold = "only mutexes support `hold_at_least`: remove `mode`";
        for (args, expected) in [
            ("permits = 2", &[semaphore][..]),
            ("weight = 2", &[weight]),
            ("hold_at_least = \"5m\"", &[hold]),
            ("weight = 2, hold_at_least = \"5m\"", &[weight, hold]),
            ("permits = 2, weight = 2", &[semaphore, weight]),
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
            ("once = \"1h\"", "`reentrant` can't be combined with `once`: each call asks"),
            ("once_per = EACH", "`reentrant` can't be combined with `once_per`: each call asks"),
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
