//! What a client does about each message that it listens to, whoever has sent it: it asks the server, and
//! nothing else. The table is in docs/keys.md.

mod jobs;
mod lost;

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::time::Duration;

use futures_util::StreamExt;
use leasehold::store::Hint;
use leasehold::{
    ElectionHandle, ElectionState, Lease, LockError, Locks, LossReason, Released, Wait,
};
use leasehold_tests::backend::light_client;
use leasehold_tests::kinds::{EVERY_KIND, Guard};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::forged::{forger, publish};

const LONG: Duration = Duration::from_secs(60);

const EMPTY: &str = "an empty message";

/// Its row in the table.
fn row(hint: &Hint) -> Option<&'static str> {
    match hint {
        Hint::Offered { .. } => Some("an offer"),
        Hint::Free { .. } => Some("a request id"),
        Hint::Forced { .. } => Some("a request id and `F`"),
        Hint::Recalled { .. } => Some("a request id, `R` and a key"),
        Hint::RunAgain { .. } => Some("`again ` and a key"),
        Hint::LimitsChanged => Some("`limits`"),
        // No server sends it.
        Hint::Missed => None,
    }
}

/// The rows of the table.
fn rows() -> Vec<&'static str> {
    let page = include_str!("../../../docs/keys.md");
    let (_, table) = page.split_once("| message | who listens |").expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| "));
    rows.map(|line| line[2..].split(" | ").next().unwrap()).collect()
}

/// A message of this row about a request and a lock's record, as the scripts make it, but for the proof.
fn message(row: &str, id: &str, record: &str) -> String {
    match row {
        "an offer" => {
            let proof: String = (0..20).map(|_| fastrand::digit(16)).collect();
            format!("{id}{:016}9999999999999{:05}{proof}", fastrand::u64(..1 << 50), 0)
        }
        "a request id" => id.to_owned(),
        "a request id and `F`" => format!("{id}F"),
        "a request id, `R` and a key" => format!("{id}R{record}"),
        "`again ` and a key" => format!("again {record}"),
        "`limits`" => "limits".to_owned(),
        EMPTY => String::new(),
        other => panic!("docs/keys.md has a row that no test knows: {other}"),
    }
}

/// The same with one thing about it that is wrong.
fn spoiled(message: &str) -> Vec<u8> {
    let mut bytes = message.as_bytes().to_vec();
    let at = fastrand::usize(..=bytes.len());
    match fastrand::u8(..4) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, fastrand::u8(..)),
        2 if at < bytes.len() => bytes[at] = fastrand::u8(..),
        _ => bytes.extend_from_within(..at),
    }
    bytes
}

async fn ask(redis: &mut MultiplexedConnection, words: &[&str]) -> Vec<String> {
    redis::cmd(words[0]).arg(&words[1..]).query_async(redis).await.unwrap()
}

/// What the server has noted that a grant, a loss, a run or a changed limit would change.
async fn stored(server: &Server) -> BTreeMap<String, String> {
    let (mut redis, mut stored) = (server.redis().await, BTreeMap::new());
    for key in ask(&mut redis, &["KEYS", "leasehold:*"]).await {
        let role = key.split(':').nth(1).unwrap();
        let mut seen = match role {
            "lock" | "done" | "runs" | "again" | "freed" => {
                let value: String =
                    redis::cmd("GET").arg(&key).query_async(&mut redis).await.unwrap();
                // Behind the request are the token and the marks of a lease that lingers.
                vec![if role == "lock" { value[..36].to_owned() } else { value }]
            }
            "holders" => ask(&mut redis, &["ZRANGEBYSCORE", &key, "0", "+inf"]).await,
            "queue" => ask(&mut redis, &["ZRANGE", &key, "0", "-1"]).await,
            "limits" => ask(&mut redis, &["HGETALL", &key]).await,
            _ => continue,
        };
        seen.sort();
        stored.insert(key, seen.join(" "));
    }
    stored
}

/// Publishes messages of all rows to all channels, some as they should be and some not.
async fn forge(server: &Server, forger: &mut MultiplexedConnection) {
    let channels = ask(forger, &["PUBSUB", "CHANNELS", "*"]).await;
    let mut ids = BTreeSet::new();
    let stored = stored(server).await;
    for seen in stored.values() {
        let words = seen.split(' ').filter(|it| it.len() >= 34 && it.is_ascii());
        ids.extend(words.flat_map(|it| [it[..34].to_owned(), it[it.len() - 34..].to_owned()]));
    }
    for client in channels.iter().filter_map(|channel| channel.rsplit(':').next()) {
        ids.extend((0..8).map(|number| format!("{client}{number:012x}")));
    }
    let ids: Vec<_> = ids.into_iter().filter(|id| id.len() == 34).collect();
    let records: Vec<_> = stored.keys().filter(|key| key.contains(":lock:")).collect();
    for row in rows() {
        for id in &ids {
            let message = message(row, id, fastrand::choice(&records).unwrap());
            for channel in &channels {
                let mut both = redis::cmd("PUBLISH");
                both.arg(channel).arg(&message).exec_async(forger).await.unwrap();
                let mut spoils = redis::cmd("PUBLISH");
                spoils.arg(channel).arg(spoiled(&message)).exec_async(forger).await.unwrap();
            }
        }
        // Each lock has its turn.
        for record in &records {
            for channel in &channels {
                publish(forger, channel, &message(row, &ids[0], record)).await;
            }
        }
    }
}

/// A client that holds, waits, lets leases linger, and takes part in elections; and another.
struct World {
    server: Server,
    here: Locks,
    elsewhere: Locks,
    held: Vec<Guard>,
    replaceable: Lease,
    in_the_way: Vec<Guard>,
    waiting: Vec<JoinHandle<Guard>>,
    elections: Vec<(ElectionHandle, JoinHandle<Result<(), LockError>>)>,
}

fn campaign(locks: &Locks, name: &str) -> (ElectionHandle, JoinHandle<Result<(), LockError>>) {
    let mut election = locks.mutex(name).ttl(LONG).election();
    let handle = election.handle();
    (handle, tokio::spawn(async move { election.lead(|_| pending::<()>()).await }))
}

/// The names of the locks that linger, and how they are taken.
async fn idle(locks: &Locks) -> Vec<Lease> {
    let rw = |name| locks.rw_lock(name).ttl(LONG).linger(LONG);
    vec![
        locks.mutex("idle:m").ttl(LONG).linger(LONG).lock().await.unwrap(),
        locks.semaphore("idle:s", 2).ttl(LONG).linger(LONG).acquire().await.unwrap(),
        rw("idle:r").read().await.unwrap(),
        rw("idle:w").write().await.unwrap(),
    ]
}

impl World {
    async fn new() -> Self {
        let server = Server::start();
        let (here, elsewhere) = (light_client(&server).await, light_client(&server).await);
        let (mut held, mut in_the_way, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        for (nth, kind) in EVERY_KIND.into_iter().enumerate() {
            held.push(kind.lock(&here, &format!("held:{nth}"), LONG).await.unwrap());
            let name = format!("waited:{nth}");
            in_the_way.push(kind.rival().lock(&elsewhere, &name, LONG).await.unwrap());
            let waits = kind.lock(&here, &name, LONG);
            waiting.push(tokio::spawn(async move { waits.await.unwrap() }));
            until("it waits", async || elsewhere.inspect(&*name).await.unwrap().waiting > 0).await;
        }
        let replaceable = here.mutex("replaceable").ttl(LONG).replace(true).lock().await.unwrap();
        for lease in idle(&here).await {
            assert_eq!(lease.release().await.unwrap(), Released::Lingers);
        }
        elsewhere.limits().name("pool").set(2).await.unwrap();
        until("it hears of the limit", async || {
            here.semaphore("pool", 9).acquire_many(3).await.is_err()
        })
        .await;
        held.push(Guard::One(here.semaphore("pool", 9).ttl(LONG).acquire_many(2).await.unwrap()));
        let mut elections = vec![campaign(&here, "led"), campaign(&elsewhere, "followed")];
        for (handle, _) in &mut elections {
            let leads = async {
                while !handle.is_leader() {
                    handle.changed().await;
                }
            };
            timeout(LONG, leads).await.expect("it leads");
        }
        elections.push(campaign(&here, "followed"));
        until("it follows", async || elsewhere.inspect("followed").await.unwrap().waiting > 0)
            .await;
        Self { server, here, elsewhere, held, replaceable, in_the_way, waiting, elections }
    }

    /// Nothing has changed since `before`, on the server and here.
    async fn assert_unchanged(&self, before: &BTreeMap<String, String>) {
        // Whatever was published before has been read by then, and its questions are answered.
        for _ in 0..3 {
            for locks in [&self.here, &self.elsewhere] {
                locks.inspect("led").await.unwrap();
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(stored(&self.server).await, *before);
        assert!(self.held.iter().chain(&self.in_the_way).all(Guard::is_held));
        assert!(self.replaceable.is_held());
        assert!(self.waiting.iter().all(|waits| !waits.is_finished()));
        let leads: Vec<_> = self.elections.iter().map(|(handle, _)| handle.is_leader()).collect();
        assert_eq!(leads, [true, true, false]);
        let follows = self.elections[2].0.state();
        assert!(matches!(follows, ElectionState::Following { .. }), "{follows:?}");
        // A limit that the client had forgotten would let this one in.
        assert!(self.here.semaphore("pool", 9).try_acquire().await.is_err());
    }
}

#[test]
fn the_table_has_a_row_for_each_message() {
    let id = leasehold::store::RequestId::read(&[b'a'; 34]).unwrap();
    let key = leasehold::LockKey::new("a").unwrap();
    let until = leasehold::store::Stamp::default();
    let hints = [
        Hint::Offered { id, token: 0, until, early: Duration::ZERO },
        Hint::Free { id },
        Hint::Forced { id },
        Hint::Recalled { key: key.clone() },
        Hint::RunAgain { key },
        Hint::LimitsChanged,
        Hint::Missed,
    ];
    let mut known: Vec<_> = hints.iter().filter_map(row).collect();
    known.push(EMPTY);
    assert_eq!(rows(), known);
}

/// Forged ones first; then those that the scripts have sent, once more each, and late.
#[tokio::test]
async fn no_message_changes_what_is_held_waited_for_or_limited() {
    let mut world = World::new().await;
    let client = redis::Client::open(world.server.url()).unwrap();
    let mut overheard = client.get_async_pubsub().await.unwrap();
    overheard.psubscribe("leasehold:wake:*").await.unwrap();
    let mut overheard = overheard.into_on_message();
    let mut forger = forger(&world.server).await;
    let before = stored(&world.server).await;
    world.server.forget_stats().await;
    forge(&world.server, &mut forger).await;
    until("it asks", async || world.server.stats("evalsha").await.0 > 0).await;
    world.assert_unchanged(&before).await;

    // Each true message has its effect.
    for guard in std::mem::take(&mut world.in_the_way) {
        guard.release().await.unwrap();
    }
    for waits in std::mem::take(&mut world.waiting) {
        world.held.push(timeout(LONG, waits).await.expect("it is handed over").unwrap());
    }
    drop(world.elsewhere.mutex("idle:m").try_lock().await.unwrap());
    drop(world.elsewhere.semaphore("idle:s", 2).try_acquire_many(2).await.unwrap());
    drop(world.elsewhere.rw_lock("idle:r").try_write().await.unwrap());
    drop(world.elsewhere.rw_lock("idle:w").try_read().await.unwrap());
    let forced = world.here.mutex("forced").ttl(LONG).lock().await.unwrap();
    let _ = world.elsewhere.force_release("forced").await.unwrap();
    assert_eq!(timeout(LONG, forced.lost()).await.expect("it hears"), LossReason::Forced);
    world.elsewhere.limits().name("other").set(0).await.unwrap();
    let wants = world.elsewhere.mutex("replaceable").ttl(LONG).replace(true).wait(Wait::Forever);
    let newer = tokio::spawn(async move { wants.lock().await.unwrap() });
    let lost = timeout(LONG, world.replaceable.lost()).await.expect("it gives way");
    assert_eq!(lost, LossReason::Replaced);
    let again = world.here.mutex("another").ttl(LONG).replace(true).lock().await.unwrap();
    let lost = std::mem::replace(&mut world.replaceable, again);
    lost.release().await.unwrap_err();
    world.held.push(Guard::One(timeout(LONG, newer).await.expect("it gets it").unwrap()));
    for lease in idle(&world.here).await {
        let _ = lease.release().await.unwrap();
    }

    let mut messages = Vec::new();
    publish(&mut forger, "leasehold:wake:end", "end").await;
    loop {
        let message = overheard.next().await.unwrap();
        let text: Vec<u8> = message.get_payload().unwrap();
        if text == b"end" && message.get_channel_name().ends_with(":end") {
            break;
        }
        messages.push((message.get_channel_name().to_owned(), text));
    }
    let before = stored(&world.server).await;
    for (channel, message) in messages.iter().chain(messages.iter().rev()) {
        redis::cmd("PUBLISH").arg(channel).arg(message).exec_async(&mut forger).await.unwrap();
    }
    world.assert_unchanged(&before).await;
}
