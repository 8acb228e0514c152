//! Commands under a lock: their codes, arguments and environment.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::thread;

use leasehold_tests::server::{Server, free_port};

use super::{Folder, on, tell, told, tool, with};

#[test]
fn a_command_keeps_its_code() {
    let server = Server::start();
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)]
    {
        let told = tell(&server, &["run", "k", "--", "sh", "-c", script]);
        assert_eq!((told.code, &*told.err), (code, ""), "{script}");
        // Killed or not: the lock is free.
        assert_eq!(tell(&server, &["run", "k", "--", "true"]).code, 0, "{script}");
    }
}

#[test]
fn the_tool_has_codes_of_its_own() {
    let server = Server::start();
    let not_there = tell(&server, &["run", "k", "--", "/nowhere/at-all"]);
    assert_eq!(not_there.code, 127, "{not_there:?}");
    let no_program = tell(&server, &["run", "k", "--", env!("CARGO_MANIFEST_DIR")]);
    assert_eq!(no_program.code, 126, "{no_program:?}");
    assert_eq!(tell(&server, &["run", "k"]).code, 125, "without a command");
    assert_eq!(tell(&server, &["run", "k", "--ttl", "7", "--", "true"]).code, 125, "no unit");
    assert_eq!(tell(&server, &["run", "k", "--ttl", "1ms", "--", "true"]).code, 125, "too short");
    for option in ["--once-per", "--once", "--ttl", "--wait", "--max-hold", "--grace"] {
        let month = tell(&server, &["run", "k", option, "1M", "--", "true"]);
        assert!(month.code == 125 && month.err.contains("30days"), "{month:?}");
    }
    let too_long = ["run", "k", "--ttl", "18446744073709551615s 1000ms", "--", "true"];
    assert_eq!(tell(&server, &too_long).code, 125);

    // The inner one asks for the lock that the outer one has.
    let tool = std::env::current_exe().unwrap();
    let tool = tool.parent().and_then(std::path::Path::parent).unwrap().join("leasehold");
    let tool = tool.to_str().unwrap();
    let inner = ["run", "k", "--", tool, "run", "k", "--", "true"];
    let held = tell(&server, &inner);
    assert_eq!(held.code, 120, "{held:?}");
    assert!(held.err.contains("is held by others"), "{held:?}");
    let held = tell(&server, &["run", "k", "--", tool, "--json", "run", "k", "--", "true"]);
    let error: serde_json::Value = serde_json::from_str(&held.err).expect(&held.err);
    assert_eq!((&error["error"], &error["exit_code"]), (&"held".into(), &120.into()));
    let held = tell(&server, &["run", "k", "--", tool, "run", "-q", "k", "--", "true"]);
    assert_eq!((held.code, &*held.err), (120, ""));
    assert_eq!(tell(&server, &["run", "other", "--", tool, "run", "k", "--", "true"]).code, 0);

    let away = format!("redis://user:sesame@127.0.0.1:{}/", free_port());
    for arguments in [
        &["run", "k", "--", "true"][..],
        &["run", "k", "--wait", "1s", "--", "true"],
        &["ls"],
        &["show", "k"],
        &["force", "k", "--yes"],
        &["watch"],
    ] {
        let told = told(with(&server, arguments).args(&[] as &[&str]).env("REDIS_URL", &away));
        assert_eq!(told.code, 123, "{arguments:?}: {told:?}");
        assert!(told.err.contains("REDIS_URL"), "{arguments:?}: {told:?}");
        assert!(!told.err.contains("sesame") && !told.out.contains("sesame"), "{told:?}");
    }
}

#[test]
fn arguments_arrive_as_they_are() {
    let (server, folder) = (Server::start(), Folder::new());
    let hostile =
        ["a b", "", "'", "\"", "$(touch made)", "`touch made`", "; touch made", "*", "--ttl"];
    let mut command = with(&server, &["run", "k", "--"]);
    command.args(["sh", "-c", r#"for each; do printf '<%s>\n' "$each"; done"#, "sh"]);
    let told = told(command.args(hostile).current_dir(&folder.0));
    let expected: String = hostile.map(|each| format!("<{each}>\n")).concat();
    assert_eq!((told.code, told.out), (0, expected));
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0, "a shell has run");
    // Without a shell, this is the name of a program.
    assert_eq!(tell(&server, &["run", "k", "--", "true; true"]).code, 127);
}

#[test]
fn the_input_is_the_commands() {
    let server = Server::start();
    let mut child = with(&server, &["run", "k", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let child = child.as_mut().unwrap();
    child.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    let mut out = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut out).unwrap();
    assert_eq!((out.as_str(), child.wait().unwrap().code()), ("one\ntwo\n", Some(0)));
}

/// The command is in the foreground of the terminal, and whoever was there before is again.
#[cfg(target_os = "linux")]
#[test]
fn a_command_has_the_terminal() {
    const SCRIPT: &str = r#""$TOOL" run k -- sh -c 'echo ready; read x; echo one:$x';
        echo code:$?; read y; echo two:$y"#;
    let server = Server::start();
    let mut terminal = std::process::Command::new("script");
    terminal.args(["-qec", SCRIPT, "/dev/null"]).env("SHELL", "/bin/sh");
    terminal.env("TOOL", on(&server).get_program()).env("REDIS_URL", server.url());
    let mut terminal =
        terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("util-linux has it");
    let mut input = terminal.stdin.take().unwrap();
    let mut output = BufReader::new(terminal.stdout.take().unwrap()).lines();
    let mut said = |text: &str| output.find(|line| line.as_ref().unwrap().trim() == text).is_some();
    assert!(said("ready"));
    input.write_all(b"hello\n").unwrap();
    assert!(said("one:hello"));
    assert!(said("code:0"));
    input.write_all(b"world\n").unwrap();
    assert!(said("two:world"));
    drop(input);
    assert!(terminal.wait().unwrap().success());
}

#[test]
fn the_environment_says_what_is_held() {
    let server = Server::start();
    let of = |arguments: &[&str]| {
        let mut command = on(&server);
        command.env("LEASEHOLD_FENCE", "7").env("LEASEHOLD_TICK", "8").arg("run").args(arguments);
        let told = told(command.args(["--", "env"]));
        let line = |name: &str| {
            let name = format!("LEASEHOLD_{name}=");
            told.out.lines().find_map(|line| line.strip_prefix(&name)).map(str::to_owned)
        };
        ["KEY", "PREFIX", "FENCE", "TICK", "DEADLINE"].map(line)
    };
    let [key, prefix, fence, tick, deadline] = of(&["order 42", "--prefix", "shop"]);
    assert_eq!((key.as_deref(), prefix.as_deref()), (Some("order 42"), Some("shop")));
    let first: u64 = fence.unwrap().parse().unwrap();
    assert!(first > 7, "{first}");
    assert_eq!(tick, None);
    let deadline = deadline.unwrap();
    assert!(deadline.ends_with('Z') && deadline.contains('T'), "{deadline}");
    let [_, _, fence, ..] = of(&["order 42", "--prefix", "shop"]);
    assert!(fence.unwrap().parse::<u64>().unwrap() > first);
    let [_, _, fence, tick, _] = of(&["permit", "--permits", "2"]);
    assert_eq!((fence, tick), (None, None), "they were an outer lock's");
    let [_, _, _, tick, _] = of(&["job", "--once-per", "1h"]);
    assert!(tick.is_some_and(|tick| tick.ends_with(":00:00.000Z")));
}

/// Eight processes add one to a file's number ten times each. None gets lost; without the lock,
/// some do.
#[test]
fn eighty_increments_of_a_file_are_eighty() {
    const ADD: &str = "n=$(cat count); sleep 0.01; echo $((n + 1)) > count";
    let (server, folder) = (Server::start(), Folder::new());
    let count = |is_locked: bool| {
        std::fs::write(folder.0.join("count"), "0").unwrap();
        let add = || {
            for _ in 0..10 {
                let mut command = std::process::Command::new("sh");
                if is_locked {
                    command = with(&server, &["run", "count", "--wait", "2m", "--", "sh"]);
                }
                let told = told(command.args(["-c", ADD]).current_dir(&folder.0));
                assert!(!is_locked || told.code == 0, "{told:?}");
            }
        };
        thread::scope(|threads| (0..8).for_each(|_| drop(threads.spawn(add))));
        folder.read("count").trim().parse::<u32>().unwrap_or(0)
    };
    assert_eq!(count(true), 80);
    assert!(count(false) < 80, "the increments need no lock here");
}

#[test]
fn work_succeeds_once() {
    let server = Server::start();
    let once = |script| tell(&server, &["run", "mail", "--once", "1h", "--", "sh", "-c", script]);
    assert_eq!(once("exit 3").code, 3, "a failure marks nothing");
    assert_eq!(once("echo sent").out, "sent\n");
    let again = once("echo sent");
    assert_eq!((again.code, &*again.out), (122, ""));
    assert!(again.err.contains("has succeeded"), "{again:?}");

    let job = ["run", "job", "--once-per", "366days", "--", "true"];
    assert_eq!([tell(&server, &job).code, tell(&server, &job).code], [0, 122]);
    let year = ["run", "year", "--schedule", "yearly in Europe/Berlin", "--", "true"];
    assert_eq!([tell(&server, &year).code, tell(&server, &year).code], [0, 122]);
    let nowhere = tell(&server, &["run", "k", "--schedule", "daily in Berlin", "--", "true"]);
    assert!(nowhere.code == 125 && nowhere.err.contains("IANA"), "{nowhere:?}");
    assert_eq!(
        tell(&server, &["run", "k", "--once", "1h", "--permits", "2", "--", "true"]).code,
        125
    );
}

/// Whoever runs it again does the work twice.
#[test]
fn a_success_that_is_not_recorded_has_a_code_of_its_own() {
    for once in [["--once", "1h"], ["--once-per", "366days"]] {
        let server = Server::start();
        let script = format!("redis-cli -p {} shutdown nosave; exit 0", server.port());
        let run = ["run", "mail", once[0], once[1], "--", "sh", "-c", &script];
        let told = tell(&server, &run);
        assert_eq!(told.code, 121, "{told:?}");
        assert!(told.err.contains("but that does not count as done"), "{told:?}");
    }
}

#[test]
fn permits_are_counted() {
    let server = Server::start();
    let folder = Folder::new();
    let permit = |weight: &str, script: &str| {
        let mut command = with(&server, &["run", "p", "--permits", "3", "--weight", weight]);
        command.args(["--", "sh", "-c", script]).current_dir(&folder.0);
        command
    };
    let mut first = permit("2", "touch one; cat");
    let mut first = first.stdin(Stdio::piped()).spawn().unwrap();
    super::until("the first holds two permits", || folder.0.join("one").exists());
    assert_eq!(told(&mut permit("2", "true")).code, 120);
    assert_eq!(told(&mut permit("1", "true")).code, 0);
    drop(first.stdin.take());
    assert!(first.wait().unwrap().success());
    assert_eq!(told(&mut permit("2", "true")).code, 0);
    assert_eq!(told(&mut permit("4", "true")).code, 125);
}

#[test]
fn the_server_and_the_prefix_are_chosen() {
    let (server, other) = (Server::start(), Server::start());
    let show = ["show", "k"];
    let is_held = |url: &str, arguments: &[&str]| {
        // The command that has the lock looks at it.
        let mut command = with(&server, &["--url", url, "run", "k", "--", "sh", "-c"]);
        let tool = command.get_program().to_owned();
        let script = r#"unset LEASEHOLD_PREFIX; exec "$0" "$@""#;
        let told = told(command.arg(script).arg(tool).args(arguments).args(show));
        assert_eq!(told.code, 0, "{told:?}");
        told.out.contains("held by 1")
    };
    assert!(is_held(&server.url(), &[]));
    assert!(!is_held(&other.url(), &[]), "REDIS_URL is the first server's");
    assert!(is_held(&other.url(), &["--url", &other.url()]));
    assert!(!is_held(&server.url(), &["--prefix", "shop"]));
    let nowhere = told(with(&server, &["ls"]).env_remove("REDIS_URL"));
    assert_eq!(nowhere.code, 125);
    assert!(nowhere.err.contains("--url"), "{nowhere:?}");
}

/// With `--json`, each line on stderr is an object, also those of the log.
#[test]
fn each_line_for_programs_is_an_object() {
    let server = Server::start();
    let command = tool();
    let tool = command.get_program().to_str().unwrap();
    let command = format!("{tool} force k --yes >/dev/null 2>&1; exec sleep 30");
    let told = tell(&server, &["--json", "run", "k", "--ttl", "2s", "--", "sh", "-c", &command]);
    assert_eq!(told.code, 121, "{told:?}");
    let read = |line| serde_json::from_str::<serde_json::Value>(line).expect(&told.err);
    let lines: Vec<_> = told.err.lines().map(read).collect();
    assert!(lines.iter().any(|line| line["log"].is_string()), "{told:?}");
    assert!(lines.iter().any(|line| line["exit_code"] == 121), "{told:?}");
}
