//! Mistakes that can be planted in the client: the simulation must find each of them, too. This
//! project made and mended most of them, or found them in others. A copy of the client is built with
//! all of them, each behind a switch.

mod list;
#[path = "../../../harness/planting.rs"]
mod planting;

pub use self::list::CLIENT_MISTAKES;
use self::planting::Mistake;
use super::faults::Fault;
use super::plan::{Deployment, Only};

/// A mistake in the client.
#[derive(Debug)]
pub struct ClientMistake {
    planted: Mistake,
    /// Within so many seeds of 30 s it is found; 0: no world is known to find it.
    pub within: u64,
    /// So many times 30 s a world must last that finds it.
    pub times: u64,
    /// Where it is looked for.
    pub only: Only,
}

const fn mistake(
    name: &'static str,
    within: u64,
    file: &'static str,
    code: &'static str,
    wrong: &'static str,
) -> ClientMistake {
    ClientMistake {
        planted: Mistake { name, file, code, wrong },
        within,
        times: 1,
        only: Only::ANY,
    }
}

/// Added to the client's root: says which mistake is switched on.
const SWITCH: &str = "
pub(crate) fn is_planted(mistake: &str) -> bool {
    static PLANTED: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var(\"LEASEHOLD_PLANTED\").unwrap_or_default());
    *PLANTED == mistake
}
";

impl ClientMistake {
    /// The same, in worlds that last twice as long.
    const fn in_long_worlds(self) -> Self {
        Self { times: 2, ..self }
    }

    /// The same, on these servers.
    const fn on(self, deployment: Deployment) -> Self {
        Self { only: Only { deployment: Some(deployment), ..self.only }, ..self }
    }

    /// The same, where these faults happen and no others.
    const fn among(self, faults: &'static [Fault]) -> Self {
        Self { only: Only { faults: Some(faults), ..self.only }, ..self }
    }

    /// The same, where what was sent on a connection arrives even after its client has left it.
    const fn without_kills(self) -> Self {
        Self { only: Only { may_kill: Some(false), ..self.only }, ..self }
    }

    /// The same, with so many processes at a time.
    const fn with_processes(self, count: usize) -> Self {
        Self { only: Only { processes: Some(count), ..self.only }, ..self }
    }

    pub fn name(&self) -> &'static str {
        self.planted.name
    }

    /// The mistake of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        CLIENT_MISTAKES.iter().find(|mistake| mistake.planted.name == name)
    }

    /// A file of `runtime/src` with all mistakes in it, each behind its switch.
    ///
    /// # Panics
    ///
    /// If the code of a mistake does not occur exactly once.
    pub fn plant_all(file: &str, text: String) -> String {
        let text = if file == "lib.rs" { text + SWITCH } else { text };
        let here = CLIENT_MISTAKES.iter().filter(|mistake| mistake.planted.file == file);
        here.fold(text, |text, mistake| mistake.planted.plant(&text))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_code_is_in_its_file_once() {
        for ClientMistake { planted: Mistake { name, file, code, wrong }, .. } in CLIENT_MISTAKES {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/src").join(file);
            let text = std::fs::read_to_string(path).unwrap();
            assert!(code != wrong && text.matches(code).count() == 1, "{name}");
            assert!(ClientMistake::plant_all(file, text).contains(wrong), "{name}");
            // Each is put into braces.
            for text in [code, wrong] {
                for (opens, closes) in [('{', '}'), ('(', ')'), ('[', ']')] {
                    let count = |bracket| text.matches(bracket).count();
                    assert_eq!(count(opens), count(closes), "{name}: {text}");
                }
            }
        }
    }
}
