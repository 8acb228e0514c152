//! The lines of the scripts' files, each of which can be left out.

use std::fmt;
use std::path::{Path, PathBuf};

use leasehold::store::redis::scripts;
use mlua::Lua;

/// A line of code in a script's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptLine {
    /// In `runtime/lua`, without its extension.
    pub file: String,
    /// Its number in the file.
    pub number: usize,
    /// Without its indent.
    pub text: String,
    /// All code of the file as it is sent, and without this line.
    code: [String; 2],
}

impl ScriptLine {
    /// Those of all files, or of those whose names begin so.
    ///
    /// # Panics
    ///
    /// If the files are not where they were when this was built.
    pub fn all(files: &str) -> Vec<Self> {
        let mut names: Vec<_> = scripts()
            .flat_map(|it| it.includes.iter().map(|include| format!("include/{include}")))
            .collect();
        names.extend(scripts().map(|it| it.name.to_owned()));
        names.sort_unstable();
        names.dedup();
        names.retain(|name| name.starts_with(files));
        names.iter().flat_map(|name| lines(name)).collect()
    }

    /// The line of a name, as `include/queue:12`.
    pub fn named(name: &str) -> Option<Self> {
        let (file, number) = name.split_once(':')?;
        let number = number.parse::<usize>().ok()?;
        Self::all(file).into_iter().find(|it| it.file == file && it.number == number)
    }

    /// A text of the scripts, and the same without this line.
    pub fn deleted(&self) -> (String, String) {
        let [from, to] = self.code.clone();
        (from, to)
    }

    /// Returns true if each script with this file is still a program without this line.
    pub fn compiles(&self) -> bool {
        let lua = Lua::new();
        let [from, to] = &self.code;
        scripts().map(|script| script.bodies[0]).filter(|body| body.contains(from)).all(|body| {
            let (_, code) = body.split_once('\n').expect("a first line with flags");
            lua.load(code.replace(from, to)).into_function().is_ok()
        })
    }
}

impl fmt::Display for ScriptLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.number)
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/lua")
}

fn lines(file: &str) -> Vec<ScriptLine> {
    let path = folder().join(format!("{file}.lua"));
    let text = std::fs::read_to_string(&path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let is_code = |(_, line): &(usize, &str)| !line.is_empty() && !line.starts_with("--");
    let code: Vec<_> = text.lines().map(str::trim).enumerate().filter(is_code).collect();
    let joined = |left_out: Option<usize>| {
        let left = code.iter().filter(|(nth, _)| Some(*nth) != left_out).map(|(_, line)| *line);
        left.collect::<Vec<_>>().join("\n")
    };
    let line = |(nth, text): &(usize, &str)| ScriptLine {
        file: file.to_owned(),
        number: nth + 1,
        text: (*text).to_owned(),
        code: [joined(None), joined(Some(*nth))],
    };
    code.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise nothing would be left out.
    #[test]
    fn the_code_of_each_file_is_in_a_script() {
        for line in ScriptLine::all("") {
            let (from, to) = line.deleted();
            assert!(
                from != to && scripts().any(|it| it.bodies.iter().all(|body| body.contains(&from))),
                "{line}"
            );
        }
    }
}
