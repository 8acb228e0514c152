//! Tips for arguments that are another tool's.

use std::ffi::OsString;

/// What somebody may have meant whose arguments are wrong.
pub(super) fn tip(arguments: &[OsString]) -> Option<&'static str> {
    let texts: Vec<_> = arguments.iter().skip(1).filter_map(|argument| argument.to_str()).collect();
    let ours = texts.split(|text| *text == "--").next().unwrap_or_default();
    if let Some(word) = ours.iter().find_map(|text| of_word(text)) {
        return Some(word);
    }
    if !ours.contains(&"run") {
        return None;
    }
    if ours.iter().any(|text| ["-w", "-n", "-x", "-E"].contains(text) || text.starts_with("-w")) {
        return Some(
            "the options of flock have other names here: `-w 10` is `--wait 10s`; without `--wait` \
             a call does not wait, as with `-n`",
        );
    }
    (ours.len() == texts.len())
        .then_some("put `--` before the command: leasehold run KEY [OPTIONS] -- COMMAND")
}

/// Names of other tools for what a command does here.
fn of_word(word: &str) -> Option<&'static str> {
    Some(match word {
        "unlock" | "release" | "free" | "kill" => {
            "`leasehold force KEY` takes a lock from its holders"
        }
        "status" | "list" | "info" | "get" | "inspect" => {
            "`leasehold ls` lists locks, and `leasehold show KEY` shows one"
        }
        "lock" | "exec" | "acquire" => "`leasehold run KEY -- COMMAND` runs a command under a lock",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<&'static str> {
        let arguments: Vec<_> = line.split(' ').map(OsString::from).collect();
        tip(&arguments)
    }

    #[test]
    fn who_knows_another_tool_is_told_the_name_here() {
        for (line, said) in [
            ("leasehold run backup pg_dump", Some("put `--` before")),
            ("leasehold run backup -w 10 -- pg_dump", Some("--wait 10s")),
            ("leasehold run -n backup -- pg_dump", Some("does not wait")),
            ("leasehold unlock backup", Some("force KEY")),
            ("leasehold status", Some("leasehold ls")),
            ("leasehold run backup --wait 10 -- pg_dump -w", None),
            ("leasehold show", None),
        ] {
            let told = of(line);
            assert_eq!(told.is_some(), said.is_some(), "{line}: {told:?}");
            assert!(told.unwrap_or_default().contains(said.unwrap_or_default()), "{line}");
        }
    }
}
