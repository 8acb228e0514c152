//! Readers and writers in loops: nobody starves, and two never write at once.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{LockError, Locks, Wait};
use leasehold_tests::backend::light_client;
use leasehold_tests::process::Process;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::work_for;
use tokio::task::JoinSet;

use super::until_waits;

const LOOPS: usize = 16;

/// The number of times that a task of the other mode must be served.
const TURNS: u32 = 20;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Read,
    Write,
}

/// The holders inside, by this process's own count. A writer counts as a thousand.
#[derive(Default)]
struct Inside(AtomicU32);

impl Inside {
    async fn work(&self, mode: Mode) {
        let weight = if mode == Mode::Read { 1 } else { 1000 };
        let before = self.0.fetch_add(weight, Ordering::SeqCst);
        let _leaves = Leaves(&self.0, weight);
        assert!(before == 0 || mode == Mode::Read && before < 1000, "beside {before}");
        work_for(Duration::from_millis(1)).await;
    }
}

/// Counts a holder out, also one whose task is aborted: before its lease is dropped.
struct Leaves<'a>(&'a AtomicU32, u32);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::SeqCst);
    }
}

/// One section. Its grant is counted first.
async fn section(locks: &Locks, mode: Mode, inside: &Inside, sections: &AtomicU32) {
    let lock = locks.rw_lock("a").wait(Wait::Forever);
    let lease = match mode {
        Mode::Read => lock.read().await,
        Mode::Write => lock.write().await,
    };
    let lease = lease.expect("it is served");
    sections.fetch_add(1, Ordering::SeqCst);
    inside.work(mode).await;
    // A busy machine may answer too late, which is not a loss.
    match lease.release().await {
        Ok(_) | Err(LockError::Store { .. }) => {}
        Err(other) => panic!("{other}"),
    }
}

/// Many tasks of one mode work in a loop, and one of the other mode comes now and then. While it
/// waits, each task of the loop has at most the section that it had when it came, and one whose
/// request was before it in the queue.
async fn is_served_among(crowd: Mode, one: Mode, clients: &[Locks], server: &Server) {
    let mut redis = server.redis().await;
    let inside = Arc::new(Inside::default());
    let sections: Arc<Vec<AtomicU32>> = Arc::new((0..LOOPS).map(|_| AtomicU32::new(0)).collect());
    let mut running = JoinSet::new();
    for number in 0..LOOPS {
        let locks = clients[number % clients.len()].clone();
        let (inside, sections) = (inside.clone(), sections.clone());
        running.spawn(async move {
            loop {
                section(&locks, crowd, &inside, &sections[number]).await;
            }
        });
    }
    let count = |sections: &[AtomicU32]| -> Vec<u32> {
        sections.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    };
    let locks = light_client(server).await;
    for _ in 0..TURNS {
        let before = count(&sections);
        // Each task has gone round.
        while count(&sections).iter().zip(&before).any(|(now, before)| now == before) {
            if let Some(ended) = running.try_join_next() {
                panic!("one of them goes round no more: {ended:?}");
            }
            tokio::task::yield_now().await;
        }
        let mine = AtomicU32::new(0);
        let mut turn = std::pin::pin!(section(&locks, one, &inside, &mine));
        let demand = if one == Mode::Read { "Rr" } else { "Rw" };
        let queued = async {
            tokio::select! {
                () = until_waits(&mut redis, "a", demand) => count(&sections),
                // It may be served before the test sees it in the queue.
                () = async { while mine.load(Ordering::SeqCst) == 0 {
                    tokio::task::yield_now().await;
                } } => count(&sections),
            }
        };
        let granted = async {
            while mine.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            count(&sections)
        };
        let (before, after) = tokio::select! {
            both = async { (queued.await, granted.await) } => both,
            () = &mut turn => unreachable!("its grant is counted first"),
        };
        for (before, after) in before.iter().zip(&after) {
            assert!(after - before <= 2, "from {before} to {after} while one waits");
        }
        turn.await;
    }
    running.abort_all();
    while let Some(ended) = running.join_next().await {
        assert!(ended.is_err_and(|error| error.is_cancelled()), "nobody was beside another");
    }
}

async fn of_their_own(server: &Server) -> Vec<Locks> {
    let mut clients = Vec::new();
    for _ in 0..LOOPS {
        clients.push(light_client(server).await);
    }
    clients
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_among_sixteen_readers_is_served() {
    let server = Server::start();
    is_served_among(Mode::Read, Mode::Write, &of_their_own(&server).await, &server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_among_sixteen_writers_is_served() {
    let server = Server::start();
    is_served_among(Mode::Write, Mode::Read, &of_their_own(&server).await, &server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_among_sixteen_readers_of_one_process_is_served() {
    let server = Server::start();
    is_served_among(Mode::Read, Mode::Write, &[light_client(&server).await], &server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_among_sixteen_writers_of_one_process_is_served() {
    let server = Server::start();
    is_served_among(Mode::Write, Mode::Read, &[light_client(&server).await], &server).await;
}

/// The client renews a live reader again and again. A dead reader beside it ends with its own TTL.
#[tokio::test]
async fn a_live_reader_does_not_prolong_a_dead_one() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut read = Command::new(env!("CARGO_BIN_EXE_worker"));
    let mut dead = Process::start(read.args([&server.url(), "read", "a", "900"]));
    assert_eq!(dead.line().as_deref(), Some("ready"));
    let live = locks.rw_lock("a").ttl(Duration::from_millis(900)).read().await.unwrap();
    dead.kill();
    assert_eq!(locks.inspect("a").await.unwrap().held, 2);
    while locks.inspect("a").await.unwrap().held == 2 {
        assert!(locks.rw_lock("a").try_write().await.is_err());
    }
    assert!(live.is_held());
    live.release().await.unwrap();
    locks.rw_lock("a").try_write().await.unwrap().release().await.unwrap();
}

/// A dropped lease is released in the background. Its owner asks to write right after that, and
/// does not wait for itself.
#[tokio::test]
async fn a_dropped_lease_does_not_block_its_owner() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mine = locks.rw_lock("a").owner("me");
    for number in 0..200 {
        drop(mine.read().await.unwrap());
        let write = mine.write().await;
        assert!(write.is_ok(), "after a reader, {number}: {write:?}");
        drop(write);
        mine.write().await.unwrap().release().await.unwrap();
    }
    let reader = mine.read().await.unwrap();
    assert!(matches!(mine.write().await, Err(LockError::WouldDeadlock { .. })));
    reader.release().await.unwrap();
}
