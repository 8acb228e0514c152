//! What may not grow unless a commit says what pays for it: `tests/ratchet.txt`.

use std::collections::BTreeMap;
use std::process::Command;

use super::{FLOORS, code, files, project, source};

const FILE: &str = "tests/ratchet.txt";

/// The line of a commit's message that says what pays for a figure that rises.
const PAID: &str = "Paid for by: ";

/// The figures of a text, by their names.
pub(super) fn figures(text: &str) -> BTreeMap<&str, u64> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (name, figure) = line.rsplit_once(": ").expect("a name and a figure");
            (name, figure.parse().expect("a number"))
        })
        .collect()
}

/// Fails if a measured figure is above the one in the file, or so far below that the file should go down.
pub(super) fn keep(name: &str, measured: u64, slack: u64) {
    let text = std::fs::read_to_string(project().join(FILE)).expect("the file is there");
    let most = *figures(&text).get(name).unwrap_or_else(|| panic!("{FILE} has no `{name}`"));
    println!("{name}: {measured}, at most {most}");
    assert!(
        measured <= most,
        "{name}: {measured}, and {FILE} allows {most}. Take away as much elsewhere; or raise the figure \
         in a commit whose message has a line `{PAID}…`"
    );
    assert!(measured + slack >= most, "{name}: {measured}. Lower the {most} in {FILE}");
}

/// The floor's folder that a file belongs to, or the file itself.
fn room(path: &str) -> &str {
    let name = path.strip_suffix(".rs").expect("a source file");
    let rooms = FLOORS.iter().copied().flatten().copied();
    let around = rooms.filter(|room| name == *room || name.starts_with(&format!("{room}/")));
    around.max_by_key(|room| room.len()).unwrap_or(name)
}

/// Lines of code: no comments, no blank lines, no unit tests.
#[test]
fn the_library_does_not_grow() {
    let mut rooms: BTreeMap<String, u64> = BTreeMap::new();
    for (path, text) in files(&source()) {
        if !path.ends_with("tests.rs") {
            let lines = code(&text).filter(|line| !line.is_empty()).count() as u64;
            *rooms.entry(room(&path).to_owned()).or_default() += lines;
        }
    }
    for (room, lines) in &rooms {
        println!("{lines:6} {room}");
    }
    keep("lines of runtime/src", rooms.values().sum(), 30);
}

/// A request under a layer that is never full, in memory. Instructions of the build that the tests use, so
/// the figure is far above that of a release. Both grow with what a call does.
#[cfg(feature = "servers")]
#[test]
fn a_call_of_the_layer_does_no_more() {
    let of = |calls: u64| {
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
        let file = folder.join(format!("calls-{}-{calls}", std::process::id()));
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", &format!("--callgrind-out-file={}", file.display())])
            .args([env!("CARGO_BIN_EXE_worker"), "-", "calls", &calls.to_string()])
            .output();
        let output = output.expect("there is valgrind; `./tests/run` installs it");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let profile = std::fs::read_to_string(&file).expect("callgrind writes it");
        std::fs::remove_file(&file).expect("it is there");
        let total = profile.lines().find_map(|line| line.strip_prefix("totals: "));
        total.expect("callgrind says the total").trim().parse::<u64>().expect("a number")
    };
    let measured = (of(1_000) - of(500)) / 500;
    keep("instructions of a call under the layer", measured, measured / 20);
}

/// A figure that rises has been paid for.
#[test]
fn each_raise_is_paid_for() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(project()).args(arguments).output();
        let output = output.expect("git is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    if !project().join(".git").exists() {
        return; // a package has no history
    }
    let commits = git(&["log", "--reverse", "--format=%H", "--", FILE]);
    let mut before = String::new();
    for commit in commits.lines() {
        let now = git(&["show", &format!("{commit}:{FILE}")]);
        let (old, new) = (figures(&before), figures(&now));
        let risen: Vec<_> = old.iter().filter(|(name, most)| new.get(*name) > Some(most)).collect();
        let message = git(&["show", "-s", "--format=%B", commit]);
        let is_paid = message.lines().any(|line| line.starts_with(PAID) && line.len() > PAID.len());
        assert!(
            risen.is_empty() || is_paid,
            "{commit} raises {risen:?}, and its message has no line `{PAID}…`"
        );
        before = now;
    }
}
