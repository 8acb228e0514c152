use std::fs;
use std::path::{Path, PathBuf};

use super::{super::args::TOKENS_KEY, *};

fn lua() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("lua")
}

/// The names that a header's section declares, in order.
fn names<'a>(header: &'a str, section: &str) -> Vec<&'a str> {
    header
        .lines()
        .skip_while(|line| line.split(',').next() != Some(&format!("--- {section}")))
        .skip(1)
        .take_while(|line| line.starts_with("---   "))
        .map(|line| line.split_whitespace().nth(2).expect("a number and a name"))
        .collect()
}

/// The highest n of all `KEYS[n]` or `ARGV[n]`. A computed index belongs to a list.
fn used(body: &str, list: &str) -> usize {
    let start = format!("{list}[");
    let numbers = body.split(&start).skip(1);
    numbers.filter_map(|rest| rest.split(']').next()?.parse().ok()).max().unwrap_or(0)
}

#[test]
fn headers_match_the_bodies() {
    for script in ALL {
        let file = lua().join(script.name).with_extension("lua");
        let text = fs::read_to_string(file).unwrap();
        let (header, body) = text.split_once("\n\n").expect("a header, then an empty line");
        let name = script.name;
        assert!(header.starts_with(&format!("--- {name}: ")), "{name}");
        assert_eq!(names(header, "KEYS"), script.keys, "{name}");
        assert_eq!(names(header, "ARGV"), script.args, "{name}");
        for (list, names) in [("KEYS", script.keys), ("ARGV", script.args)] {
            // A list for each request has computed indexes.
            let is_single = !header.contains(&format!("--- {list}, for each "));
            // Includes use the last key, by `KEYS[#KEYS]`.
            let own = names.iter().filter(|name| **name != TOKENS_KEY).count();
            assert_eq!(used(body, list), if is_single { own } else { 0 }, "{name}");
        }
        assert_eq!(header.contains("--- ARGV, for each request\n"), script.takes_several);
        assert!(header.contains("\n--- RETURN") && header.contains("\n--- COST  "), "{name}");
        let includes = header.lines().find_map(|line| line.strip_prefix("--- INCLUDE "));
        let includes: Vec<_> = includes.unwrap_or_default().split_whitespace().collect();
        // `rule_*` is one of them: a file that is the same for several kinds.
        let rule = script.includes.iter().find(|include| include.starts_with("rule_"));
        let rule = |include: &str| include.replace("rule_*", rule.unwrap_or(&"rule_*"));
        let includes: Vec<_> = includes.into_iter().map(rule).collect();
        assert_eq!(includes, script.includes, "{name}");
        assert!(body.lines().count() <= 50, "{name} is too long");
    }
}

#[test]
fn every_file_is_declared() {
    let mut declared: Vec<_> = ALL.iter().map(|script| script.name.to_owned()).collect();
    declared.extend(ALL.iter().flat_map(|s| s.includes).map(|name| format!("include/{name}")));
    for folder in fs::read_dir(lua()).unwrap().map(Result::unwrap) {
        for file in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
            let path = file.path().with_extension("");
            let name = path.strip_prefix(lua()).unwrap().to_str().unwrap().to_owned();
            assert!(declared.contains(&name), "{name}.lua is used by no script");
            let text = fs::read_to_string(file.path()).unwrap();
            assert!(text.lines().count() <= 70, "{name}.lua is too long");
        }
    }
}

/// Only comments, indents and empty lines are left out.
#[test]
fn only_comments_are_left_out() {
    for Script { name, source, flagged, plain, .. } in ALL {
        let (first_line, body) = flagged.body.split_once('\n').expect("several lines");
        assert!(first_line.starts_with("#!lua"), "{name}");
        assert!(plain.body.ends_with(body) && !plain.body.contains("#!"), "{name}");
        let mut left = body.lines().peekable();
        for line in source.lines() {
            if left.next_if(|sent| *sent == line.trim()).is_none() {
                let is_for_readers = line.trim().is_empty() || line.trim().starts_with("--");
                assert!(is_for_readers, "{name} is sent without {line:?}");
            }
        }
        assert_eq!(left.next(), None, "{name}");
        // These would carry code or a comment over several lines.
        for several in ["[[", "[=", "\\\n"] {
            assert!(!source.contains(several), "{name} has a string or a comment of several lines");
        }
        for line in plain.body.lines() {
            let code: String = line.split('\'').step_by(2).collect();
            assert!(!code.contains("--"), "{name} has a comment beside code: {line}");
        }
    }
}

#[test]
fn the_stored_format_is_written_down() {
    // FNV-1a of all bodies, as they are sent. When it differs: is docs/keys.md still true, and
    // can clients with the old scripts work beside those with the new ones? Answer that in
    // CHANGELOG.md, then put the new number into docs/keys.md.
    let hash = ALL
        .iter()
        .flat_map(|script| script.body(Form::Flagged).bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/keys.md");
    let written = format!("scripts: {hash:016x}");
    assert!(fs::read_to_string(page).unwrap().contains(&written), "docs/keys.md lacks `{written}`");
}
