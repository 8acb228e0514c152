//! The commands on the page about schedulers, as cron and Kubernetes run them.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold_tests::process::tool;

use super::clocked::{Clocked, since_1970};

const PAGE: &str = include_str!("../../../docs/guide/schedulers.md");
const DAY: u64 = 24 * 60 * 60;
const PROGRAM: &str = "/usr/local/bin/report";

/// What the crontab has after the five fields.
fn in_crontab() -> String {
    let line = PAGE.lines().find_map(|line| line.strip_prefix("0 2 * * * ")).expect("a line");
    line.to_owned()
}

/// The container's command.
fn in_container() -> Vec<String> {
    let line = PAGE.lines().find_map(|line| line.trim().strip_prefix("command: ")).expect("YAML");
    serde_json::from_str(line).expect("a list")
}

/// A command in the environment of a host that has the tool on its path.
fn on_path(clocked: &Clocked, program: &str) -> Command {
    let mut path = OsString::from(Path::new(tool().get_program()).parent().expect("a folder"));
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    let mut command = Command::new(program);
    command.env("REDIS_URL", clocked.server.url()).env("PATH", path);
    command.env_remove("LEASEHOLD_PREFIX").stdin(Stdio::null());
    command
}

/// Shortly after two o'clock in Berlin, or three, of a day in which it has no midnight nearby.
fn called_at() -> Duration {
    Duration::from_secs(since_1970().as_secs() / DAY * DAY + 60 * 60)
}

/// Each server has the line. The first one's report fails, the second one's succeeds, and the third
/// one's has nothing to do.
#[test]
fn the_line_for_cron_succeeds_once_a_day() {
    let mut clocked = Clocked::start();
    let line = in_crontab();
    assert!(line.ends_with(PROGRAM) && line.contains(" --quiet "), "{line}");
    let cron = |clocked: &Clocked, script: &str| {
        let line = line.replace(PROGRAM, &format!("sh -c '{script}'"));
        let told = clocked.told(on_path(clocked, "sh").args(["-c", &line]));
        (told.code, told.out, told.err)
    };
    let said = |code, out: &str| (code, out.to_owned(), String::new());
    let day = Duration::from_secs(DAY);
    for at in [called_at(), called_at() + day] {
        clocked.set(at, at);
        assert_eq!(cron(&clocked, "exit 7"), said(7, ""));
        assert_eq!(cron(&clocked, "echo report"), said(0, "report\n"));
        assert_eq!(cron(&clocked, "echo report"), said(122, ""));
    }
}

/// Two clusters have the job, and the controller of one of them starts it twice.
#[test]
fn the_command_of_the_cronjob_succeeds_once_a_day() {
    let mut clocked = Clocked::start();
    clocked.set(called_at(), called_at());
    let command = in_container();
    let [program, arguments @ .., report] = &command[..] else { panic!("{command:?}") };
    assert_eq!((&**program, &**report), ("leasehold", PROGRAM));
    let pod = || {
        let mut pod = on_path(&clocked, program);
        let told = clocked.told(pod.args(arguments).args(["sh", "-c", "echo $LEASEHOLD_KEY"]));
        (told.code, told.out)
    };
    assert_eq!(pod(), (0, "nightly-report\n".to_owned()));
    assert_eq!([pod(), pod()], [(122, String::new()), (122, String::new())]);
    assert!(PAGE.contains("values: [122]"), "the rule of the page is for this code");
}
