//! Processes whose sets of mutexes overlap.

use std::process::Command;

use leasehold::Locks;
use leasehold_tests::process::Process;
use leasehold_tests::server::Server;

/// Sixteen processes take five of twelve mutexes at random, again and again, for twenty seconds.
/// With its five, each counts itself in on the server, and must find nobody there. Tokens grow from
/// holder to holder, and nobody waits for ever.
#[tokio::test]
async fn random_sets_of_many_processes_overlap_nowhere_and_are_all_served() {
    let server = Server::start();
    let worker = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
        Process::start(command.args([&server.url(), "sets", "5", "12", "20"]))
    };
    let mut workers: Vec<_> = (0..16).map(|_| worker()).collect();
    let mut all = Vec::new();
    for worker in &mut workers {
        let line = worker.line().expect("it says how it went");
        assert!(worker.is_success(), "{line}");
        let counts: Vec<u32> = line.split(' ').map(|count| count.parse().unwrap()).collect();
        assert!(counts[0] > 0, "it is served: {line}");
        all.push(counts);
    }
    let of = |at: usize| all.iter().map(move |counts| counts[at]);
    let (sets, least) = (of(0).sum::<u32>(), of(0).min().unwrap());
    let (given_up, longest_ms) = (of(1).sum::<u32>(), of(2).max().unwrap());
    println!("{sets} served, of each process {least} or more; {given_up} gave up");
    println!("the longest wait was {longest_ms} ms");
    assert!(given_up > 0, "some gave up while they had some of their five");
    let locks = Locks::connect(&server.url()).await.unwrap();
    let names = (0..12).map(|n| format!("n:{n}"));
    locks.all(names).try_lock().await.unwrap().release().await.unwrap();
}
