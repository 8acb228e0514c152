//! Patterns that look like those of cron.

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(5_000)))]

    /// The library of cron refuses no pattern that the rules let pass: it would not name the field.
    #[test]
    fn cron_reads_whatever_the_rules_let_pass(
        nth in 0..5_usize,
        field in r"[+]?(\*|\?|[0-9]|[1-6][0-9]|MON|sun|JAN)(|-[0-9]|-[1-6][0-9]|-SUN)(||/[0-9]{1,2}|W|L|#[0-6])(|||,L|,LW|,[0-9])",
    ) {
        let fields: Vec<_> = (0..5).map(|at| if at == nth { &*field } else { "*" }).collect();
        let pattern = fields.join(" ");
        if schedule_rules::parse(&format!("{pattern} in UTC")).is_ok() {
            prop_assert!(read(&pattern).is_ok(), "{pattern}");
        }
    }
}
