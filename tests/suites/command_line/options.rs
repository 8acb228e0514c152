//! Which options of `run` exclude one another: the same as in the library.

use leasehold_tests::server::Server;

use super::tell;

#[allow(dead_code, reason = "the library reads the rest")]
#[path = "../../../runtime/src/core/option_rules.rs"]
mod option_rules;

/// What the library would refuse, the tool refuses before it connects.
#[test]
fn the_options_exclude_one_another_as_those_of_the_library() {
    let server = Server::start();
    let help = tell(&server, &["run", "--help"]).out;
    let flag = |option: &str| format!("--{}", option.replace('_', "-"));
    let has = |option: &str| help.contains(&format!("{} <", flag(option)));
    let mut runs = 0;
    let mut run = |options: &[&str]| {
        runs += 1;
        // Each has a lock of its own: some leave it done.
        let mut arguments = vec!["run".to_owned(), format!("key:{runs}")];
        for option in options {
            let value = match *option {
                "permits" => "2",
                "offset" => "1m",
                "schedule" => "daily in UTC",
                _ => "1h",
            };
            arguments.extend([flag(option), value.to_owned()]);
        }
        arguments.extend(["--", "true"].map(str::to_owned));
        tell(&server, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let mut seen = 0;
    for rule in option_rules::ALL.iter().filter(|rule| has(rule.option)) {
        let own = rule.option;
        let with_needed: Vec<_> =
            [own].into_iter().chain(rule.needs.map(|(other, _)| other)).collect();
        let told = run(&with_needed);
        assert_eq!(told.code, 0, "{own}: {told:?}");
        let others = rule.not_with.iter().map(|(other, _)| *other).filter(|it| has(it));
        let pairs = others.chain(rule.is_for_mutexes.then_some("permits"));
        let refused = pairs.map(|other| vec![own, other]).chain(rule.needs.map(|_| vec![own]));
        for options in refused {
            let told = run(&options);
            // In the words of the command line, and not of the library.
            let is_of_the_tool = told.err.contains("cannot be used with")
                || told.err.contains("required arguments were not provided");
            assert!(told.code == 125 && is_of_the_tool, "{options:?}: {told:?}");
            seen += 1;
        }
    }
    assert_eq!(seen, 8);
}
