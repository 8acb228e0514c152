//! The diagnosis of servers: each fault that was planted on a real one is found, and its remedy
//! mends it; on good servers nothing is found.

mod page;

#[cfg(feature = "servers")]
mod faults;
#[cfg(feature = "servers")]
mod good;
#[cfg(feature = "servers")]
mod replicas;
#[cfg(feature = "servers")]
mod rights;
#[cfg(feature = "servers")]
mod unreachable;

use leasehold::{Diagnosis, Finding, Locks, Severity};

/// What was found, apart from the time that this machine takes for an answer.
fn but_latency(diagnosis: &Diagnosis) -> Vec<&Finding> {
    diagnosis.findings.iter().filter(|it| it.check != "latency").collect()
}

/// Checks that nothing was found.
fn nothing(diagnosis: &Diagnosis) {
    assert!(but_latency(diagnosis).is_empty(), "{:#?}", diagnosis.findings);
}

/// The one finding.
fn only(diagnosis: &Diagnosis, check: &str, severity: Severity) -> Finding {
    let found = match check {
        "latency" => diagnosis.findings.iter().collect(),
        _ => but_latency(diagnosis),
    };
    let [finding] = found[..] else {
        panic!("{check}: {:#?}", diagnosis.findings);
    };
    assert_eq!((finding.check, finding.severity), (check, severity), "{finding:#?}");
    for text in [&finding.found, &finding.meaning, &finding.remedy] {
        assert!(!text.is_empty(), "{finding:#?}");
    }
    finding.clone()
}

#[tokio::test]
async fn nothing_is_found_in_memory() {
    let diagnosis = Locks::in_memory().diagnose().await;
    nothing(&diagnosis);
    assert!(diagnosis.facts.is_empty(), "{diagnosis:?}");
}

#[cfg(feature = "servers")]
mod server {
    use std::time::Duration;

    use leasehold::{Diagnosis, Finding, Locks};
    use leasehold_tests::sentinel::until_linked;
    use leasehold_tests::server::Server;
    use leasehold_tests::waiting::until_some;
    use redis::aio::MultiplexedConnection;
    use tokio::time::timeout;

    /// Much longer than anything here takes.
    pub(super) const SOON: Duration = Duration::from_secs(30);

    /// A server that is configured as the guide says.
    pub(super) fn good() -> Server {
        good_with(&[])
    }

    pub(super) fn good_with(arguments: &[&str]) -> Server {
        Server::start_with(&[&["--appendonly", "yes"], arguments].concat())
    }

    /// A good replica of a server, once it is linked to it.
    pub(super) async fn replica_of(server: &Server) -> Server {
        let replica = good_with(&["--replicaof", "127.0.0.1", &server.port().to_string()]);
        until_linked(&replica).await;
        replica
    }

    /// The words of a command; quotes keep several together.
    fn words(command: &str) -> Vec<String> {
        let quoted = command.split('"').enumerate();
        let words = quoted.flat_map(|(nth, part)| {
            if nth % 2 == 1 { vec![part] } else { part.split_whitespace().collect() }
        });
        words.map(str::to_owned).collect()
    }

    /// Runs a command.
    pub(super) async fn run(redis: &mut MultiplexedConnection, command: &str) {
        let words = words(command);
        redis::cmd(&words[0]).arg(&words[1..]).exec_async(redis).await.expect(command);
    }

    /// Runs the commands of a remedy, of which some only look, or are for another case.
    pub(super) async fn mend(redis: &mut MultiplexedConnection, finding: &Finding) {
        let commands: Vec<_> = finding.remedy.split('`').skip(1).step_by(2).collect();
        assert!(!commands.is_empty(), "{finding:#?}");
        let mut ran = 0;
        for command in commands {
            let words = words(command);
            let answer = redis::cmd(&words[0]).arg(&words[1..]).exec_async(redis).await;
            ran += usize::from(answer.is_ok());
        }
        assert!(ran > 0, "{finding:#?}");
    }

    /// Diagnoses until there are this many findings.
    pub(super) async fn until(locks: &Locks, findings: usize) -> Diagnosis {
        let found = until_some("so many findings", async || {
            let diagnosis = locks.diagnose().await;
            (diagnosis.findings.len() == findings).then_some(diagnosis)
        });
        if let Ok(diagnosis) = timeout(SOON, found).await {
            return diagnosis;
        }
        panic!("not {findings}: {:#?}", locks.diagnose().await.findings);
    }

    /// Diagnoses until there are this many findings, all of this check.
    pub(super) async fn until_all(locks: &Locks, check: &str, count: usize) -> Vec<Finding> {
        let found = until_some("so many findings", async || {
            let found = locks.diagnose().await.findings;
            let is_it = found.len() == count && found.iter().all(|it| it.check == check);
            is_it.then_some(found)
        });
        if let Ok(found) = timeout(SOON, found).await {
            return found;
        }
        panic!("not {count} {check}: {:#?}", locks.diagnose().await.findings);
    }
}
