//! A client whose own thread is missing, or does not answer.

use leasehold_tests::server::Server;

use super::worker;

/// A wait of a second lasts no longer than that and the time of an answer, even if the thread that
/// times commands out is blocked.
#[test]
fn a_blocked_client_delays_no_caller_beyond_its_wait() {
    let server = Server::start();
    let mut worker = worker(&server, &["blocked"]);
    let said = worker.rest();
    let ways = ["lock", "try_lock", "acquire", "all", "adopt"];
    assert_eq!(said.len(), ways.len() + 1, "{said:#?}");
    for (way, line) in ways.iter().zip(&said) {
        let (told, rest) = line.split_once(' ').unwrap();
        let (millis, error) = rest.split_once(' ').unwrap();
        assert_eq!(told, *way, "{line}");
        assert!(error.contains("own thread") && error.contains("blocks"), "{line}");
        // A second, and one for the last answer; the rest is for a busy machine.
        assert!(millis.parse::<u64>().unwrap() < 10_000, "{line}");
    }
    assert_eq!(said.last().unwrap(), "free", "and nothing of it stays held");
    assert!(worker.is_success());
}

/// The child has copies of its parent's client and leases, but not the thread that works for them.
/// Every call that needs the thread is refused at once, and changes nothing of the parent's.
#[cfg(target_os = "linux")]
#[test]
fn a_forked_process_learns_that_its_client_is_gone() {
    use leasehold_tests::process::Process;
    use leasehold_tests::shim::let_fork;

    let server = Server::start();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_worker"));
    let_fork(&mut command);
    let mut worker = Process::start(command.arg(server.url()).arg("fork"));
    let said = worker.rest();
    let ways = [
        "lock",
        "waiting",
        "try",
        "permit",
        "all",
        "inspect",
        "force",
        "forked",
        "renew",
        "release",
        "idle",
        "release of a lease that lingers",
        "detach",
        "release now",
    ];
    for (way, line) in ways.iter().zip(&said) {
        assert!(line.starts_with(&format!("child {way}: ")), "{line}");
        assert!(line.contains("this process was forked"), "{line}");
    }
    let rest: Vec<_> = said[ways.len()..].iter().map(String::as_str).collect();
    let [shut_down, connected, ends, ended, leases @ ..] = &rest[..] else { panic!("{said:#?}") };
    assert_eq!(*shut_down, "child shutdown: 0 0", "the leases are its parent's");
    assert_eq!(*connected, "child connected");
    let at = |line: &str, what: &str| -> u64 {
        line.strip_prefix(what).unwrap_or_else(|| panic!("{said:#?}")).parse().unwrap()
    };
    // The end of the child waits for no release. A wait would take two seconds.
    let took = at(ended, "ended ").saturating_sub(at(ends, "child ends "));
    assert!(took < 1_800, "{took} ms");
    assert_eq!(leases, ["parent true true"; 5]);
    assert!(worker.is_success());
}
