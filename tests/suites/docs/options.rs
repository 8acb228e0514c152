//! The options of locks are said in one place. What has to say it again is compared with it: the
//! copy of the macros, the tables, and the documentation of each setter.

#[allow(dead_code, reason = "the checks of values are for the library")]
#[path = "../../../runtime/src/core/option_rules.rs"]
mod option_rules;

use std::collections::BTreeMap;

use self::option_rules::{ALL, Rule};
use super::{quoted, read};

/// The page with the tables.
const PAGE: &str = "docs/guide/options.md";

/// The page of the attribute.
const MACRO: &str = "macros/src/distributed_lock.md";

/// Everything about one option, with no blanks and no marks of comments.
type Texts = BTreeMap<String, String>;

fn dense(text: &str) -> String {
    text.replace("///", "").split_whitespace().collect()
}

/// The rows of a table whose first cell names options.
fn rows(text: &str, head: &str) -> Texts {
    let table = text.split(head).nth(1).unwrap_or_else(|| panic!("no table {head}"));
    let lines = table.lines().map(|line| line.trim_start_matches("///").trim());
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    let named = rows.flat_map(|row| {
        let first = row.split('|').nth(1).unwrap_or_default();
        quoted(first).into_iter().map(move |name| (name, dense(row)))
    });
    named.collect()
}

/// The documentation of each setter that a file has in its lists.
fn setters(text: &str) -> Texts {
    let (mut found, mut above) = (Texts::new(), String::new());
    for line in text.lines().map(str::trim) {
        if line.starts_with("///") || line.starts_with("#[") {
            above.push_str(line);
            continue;
        }
        if let Some(name) =
            line.strip_suffix(';').filter(|name| ALL.iter().any(|it| it.option == *name))
        {
            found.insert(name.to_owned(), dense(&above));
        }
        above.clear();
    }
    found
}

fn says_range(text: &str, rule: &Rule) -> bool {
    let Some(range) = &rule.range else { return true };
    let (least, most) = (range.least.text, range.most.text);
    let mut ways = vec![format!("{least}to{most}"), format!("{least}|{most}")];
    if range.least.time.is_zero() {
        ways.extend(["atmost", "upto"].map(|word| format!("{word}{most}")));
    }
    ways.iter().any(|way| text.contains(way))
}

#[test]
fn the_macros_have_the_same_rules() {
    for file in ["option_rules.rs", "schedule_rules.rs"] {
        let (rules, copy) = (format!("runtime/src/core/{file}"), format!("macros/src/{file}"));
        if std::env::var_os("UPDATE_RULES").is_some() {
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
            std::fs::copy(root.join(&rules), root.join(&copy)).expect("the copy");
        }
        let is_same = read(&rules) == read(&copy);
        assert!(is_same, "copy {rules} to {copy}; or run this test with UPDATE_RULES=1");
    }
}

#[test]
fn each_table_has_the_ranges_and_the_exclusions() {
    let of_all = rows(&read(PAGE), "| option | what |");
    let of_macro = rows(&read(MACRO), "| argument | what |");
    for (page, table) in [(PAGE, &of_all), (MACRO, &of_macro)] {
        for rule in &ALL {
            let row = table.get(rule.option);
            let row = row.unwrap_or_else(|| panic!("{page} has no row for {}", rule.option));
            assert!(says_range(row, rule), "{page}, {}: {:?}", rule.option, rule.range);
        }
    }
    for rule in &ALL {
        let row = &of_all[rule.option];
        for (other, _) in rule.not_with.iter().chain(rule.needs.as_slice()) {
            let other = format!("`{other}`");
            assert!(row.contains(&other), "the row of {} does not name {other}", rule.option);
        }
        assert_eq!(row.contains("mutex"), rule.is_for_mutexes, "{}: {row}", rule.option);
    }
}

/// The table of the front doors says yes where the code has the option, and no elsewhere.
#[test]
fn the_table_of_doors_is_true() {
    let common = read("runtime/src/api/lock_options.rs");
    let common = common.split("macro_rules! common_setters").nth(1).expect("what all have");
    let by_hand = read("runtime/src/api/mutex.rs") + common;
    let set = read("runtime/src/api/multi_lock.rs") + common;
    let layer = ["lock_layer.rs", "options.rs", "succeeding.rs"];
    let layer: String =
        layer.iter().map(|file| read(&format!("runtime/src/layer/{file}"))).collect();
    let tool = read("cli/src/args/run.rs");
    // The lists of setters; what a function of the request gives; the tool's arguments.
    let has = |code: &str, option: &str| {
        let setter = format!("{option};");
        code.lines().any(|line| line.trim() == setter)
            || code.contains(&format!("pub fn {option}_by"))
            || code.contains(&format!("pub(crate) {option}: "))
    };
    let of_macro = rows(&read(MACRO), "| argument | what |");

    let page = read(PAGE);
    let doors = rows(&page, "| option | by hand |");
    let all: Vec<_> = rows(&page, "| option | what |").into_keys().collect();
    assert_eq!(all, doors.keys().cloned().collect::<Vec<_>>());
    for (option, row) in &doors {
        let says: Vec<_> = row.trim_matches('|').split('|').skip(1).collect();
        let is_there = [
            has(&by_hand, option),
            of_macro.contains_key(option),
            has(&layer, option),
            has(&set, option),
            has(&tool, option),
        ];
        let said: Vec<_> = says.iter().map(|cell| !cell.starts_with("no")).collect();
        assert_eq!(said, is_there, "{PAGE}: {row}");
    }
}

#[test]
fn each_setter_says_its_range() {
    let files = [
        "api/mutex.rs",
        "api/semaphore.rs",
        "api/rw_lock.rs",
        "api/reentrant_mutex.rs",
        "api/multi_lock.rs",
        "api/lock_options.rs",
        "layer/lock_layer.rs",
        "layer/options.rs",
    ];
    let mut seen = 0;
    for file in files {
        for (option, text) in setters(&read(&format!("runtime/src/{file}"))) {
            let rule = ALL.iter().find(|rule| rule.option == option).expect("it was looked for");
            assert!(says_range(&text, rule), "{file}, {option}: {:?}", rule.range);
            seen += 1;
        }
    }
    assert!(seen >= 15, "only {seen} setters were found");
}
