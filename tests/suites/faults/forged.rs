//! Messages that somebody without the right to read the keys has made: none is believed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt;
use leasehold::{Lease, Locks, Released, Wait};
use leasehold_tests::backend::light_client;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{until, until_some};
use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(60);

/// The greatest token there can be: it would shut everybody out of the data.
const TOKEN: &str = "9999999999999999";

/// A connection that may publish and look at channels, and that may use no key.
pub(super) async fn forger(server: &Server) -> MultiplexedConnection {
    let rights = "SETUSER forger on >p resetkeys resetchannels &leasehold:wake:* -@all \
                  +publish +pubsub|channels +client|setinfo";
    // Servers before 7.2 do not know the last one.
    for rights in [rights, rights.trim_end_matches(" +client|setinfo")] {
        let mut acl = redis::cmd("ACL");
        acl.arg(rights.split_whitespace().collect::<Vec<_>>());
        if acl.exec_async(&mut server.redis().await).await.is_ok() {
            break;
        }
    }
    server.redis_of("forger", "p").await
}

pub(super) async fn publish(
    redis: &mut MultiplexedConnection,
    channel: &str,
    message: &str,
) -> u64 {
    redis::cmd("PUBLISH").arg(channel).arg(message).query_async(redis).await.unwrap()
}

async fn ask(redis: &mut MultiplexedConnection, command: &[&str]) -> Vec<String> {
    redis::cmd(command[0]).arg(&command[1..]).query_async(redis).await.unwrap()
}

/// Waits for the lock in the queue of the server, and says how long that took.
async fn waiter(server: &Server, name: &'static str) -> (String, JoinHandle<(u64, Locks)>) {
    let locks = light_client(server).await;
    let taker = locks.clone();
    let waiting = tokio::spawn(async move {
        let lease = taker.mutex(name).ttl(LONG).wait(Wait::Forever).lock().await.unwrap();
        assert!(lease.is_held());
        let fence = lease.fence().unwrap().get();
        lease.release().await.unwrap();
        (fence, locks)
    });
    let mut redis = server.redis().await;
    let queue = format!("leasehold:queue:{{{name}}}");
    (first_of(&queue, &mut redis).await, waiting)
}

/// Waits for the first request in a queue.
async fn first_of(queue: &str, redis: &mut MultiplexedConnection) -> String {
    until_some("one waits", async || {
        ask(&mut redis.clone(), &["ZRANGE", queue, "0", "-1"]).await.into_iter().next()
    })
    .await
}

/// An offer without a proof, for longer than any heartbeat of the waiter.
fn offer(id: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let until = (now + Duration::from_secs(9)).as_millis();
    format!("{id}{TOKEN}{until:013}00000")
}

/// Makes the waiter ask. Its ask comes after it has read all messages before.
async fn until_it_asks(server: &Server, forger: &mut MultiplexedConnection, id: &str) {
    server.forget_stats().await;
    publish(forger, &format!("leasehold:wake:{}", &id[..22]), id).await;
    until("the waiter still waits", async || server.stats("hset").await.0 > 0).await;
}

#[tokio::test]
async fn an_offer_that_no_script_made_is_not_believed() {
    let server = Server::start();
    let holder = light_client(&server).await;
    let lease = holder.mutex("a").ttl(LONG).lock().await.unwrap();
    let (id, waiting) = waiter(&server, "a").await;
    let mut forger = forger(&server).await;
    let channels = ask(&mut forger, &["PUBSUB", "CHANNELS", "*"]).await;
    assert!(channels.contains(&format!("leasehold:wake:{}", &id[..22])), "{channels:?}");
    for channel in &channels {
        let client = channel.rsplit(':').next().unwrap();
        // The numbers of the client's first requests.
        for id in (0..16).map(|number| format!("{client}{number:012x}")) {
            for proof in ["", &"0".repeat(20)] {
                publish(&mut forger, channel, &(offer(&id) + proof)).await;
            }
        }
    }
    until_it_asks(&server, &mut forger, &id).await;
    let mut redis = server.redis().await;
    assert!(!waiting.is_finished() && lease.is_held());
    let record: String =
        redis::cmd("GET").arg("leasehold:lock:{a}").query_async(&mut redis).await.unwrap();
    assert!(record.starts_with("MH"));
    let fence = lease.fence().unwrap().get();
    lease.release().await.unwrap();
    let (next, _) = timeout(LONG, waiting).await.unwrap().unwrap();
    assert!(next > fence && next < TOKEN.parse().unwrap());
}

/// Who may also read the channels knows true offers. It can make none of them into another.
#[tokio::test]
async fn an_offer_that_was_overheard_is_good_for_nothing_else() {
    let server = Server::start();
    let client = redis::Client::open(server.url()).unwrap();
    let mut overheard = client.get_async_pubsub().await.unwrap();
    overheard.psubscribe("leasehold:wake:*").await.unwrap();
    let mut overheard = overheard.into_on_message();
    let mut forger = forger(&server).await;
    let holder = light_client(&server).await;
    let lease = holder.mutex("a").ttl(LONG).lock().await.unwrap();
    let (id, waiting) = waiter(&server, "a").await;
    lease.release().await.unwrap();
    let heard = timeout(LONG, async {
        loop {
            let message: String = overheard.next().await.unwrap().get_payload().unwrap();
            if message.len() == 88 {
                break message;
            }
        }
    });
    let heard = heard.await.expect("the waiter gets an offer");
    assert_eq!(heard[..34], id);
    let (_, client) = waiting.await.unwrap();
    // The same client waits again, with the next request.
    let lease = holder.mutex("a").ttl(LONG).lock().await.unwrap();
    let taker = client.mutex("a").ttl(LONG).wait(Wait::Forever);
    let waiting = tokio::spawn(async move { taker.lock().await.unwrap().fence().unwrap().get() });
    let mut redis = server.redis().await;
    let id = first_of("leasehold:queue:{a}", &mut redis).await;
    let channel = format!("leasehold:wake:{}", &id[..22]);
    let with_its_proof = offer(&id) + &heard[68..];
    for forged in [&heard, &(id.clone() + &heard[34..]), &with_its_proof] {
        publish(&mut forger, &channel, forged).await;
    }
    until_it_asks(&server, &mut forger, &id).await;
    assert!(!waiting.is_finished() && lease.is_held());
    lease.release().await.unwrap();
    assert!(timeout(LONG, waiting).await.unwrap().unwrap() < TOKEN.parse().unwrap());
}

/// No renewal extends a lease with such a short `max_hold`. The offer is confirmed all the same:
/// otherwise the server would give the lock to the next after a second, whatever the TTL.
#[tokio::test]
async fn an_offer_is_confirmed_also_if_its_lease_is_final() {
    let server = Server::start();
    let (holder, locks) = (light_client(&server).await, light_client(&server).await);
    let lease = holder.mutex("a").ttl(LONG).lock().await.unwrap();
    let taker = locks.mutex("a").max_hold(Duration::from_millis(900)).wait(Wait::Forever);
    let waiting = tokio::spawn(async move { taker.lock().await.unwrap() });
    let mut redis = server.redis().await;
    first_of("leasehold:queue:{a}", &mut redis).await;
    lease.release().await.unwrap();
    let lease = timeout(LONG, waiting).await.unwrap().unwrap();
    until("it is confirmed", async || {
        let record: Option<String> =
            redis::cmd("GET").arg("leasehold:lock:{a}").query_async(&mut redis).await.unwrap();
        let is_confirmed = record.is_some_and(|record| record.starts_with("MH"));
        assert!(is_confirmed || lease.is_held(), "it was not confirmed in its time");
        is_confirmed
    })
    .await;
}

/// The requests that hold a lock.
async fn holders(server: &Server, name: &str) -> Vec<String> {
    let mut redis = server.redis().await;
    let lock = format!("leasehold:lock:{{{name}}}");
    let record: Option<String> = redis::cmd("GET").arg(lock).query_async(&mut redis).await.unwrap();
    match record {
        Some(record) if record.starts_with("MH") => vec![record[2..36].to_owned()],
        Some(record) if !record.starts_with('M') => {
            let set = format!("leasehold:holders:{{{name}}}");
            ask(&mut redis, &["ZRANGEBYSCORE", &set, "0", "+inf"]).await
        }
        _ => Vec::new(),
    }
}

/// One lease of each kind that can linger, and the name of its lock.
async fn one_of_each(locks: &Locks) -> Vec<(&'static str, Lease)> {
    let rw = |name| locks.rw_lock(name).ttl(LONG).linger(LONG);
    vec![
        ("a", locks.mutex("a").ttl(LONG).linger(LONG).lock().await.unwrap()),
        ("s", locks.semaphore("s", 2).ttl(LONG).linger(LONG).acquire().await.unwrap()),
        ("r", rw("r").read().await.unwrap()),
        ("w", rw("w").write().await.unwrap()),
    ]
}

/// Says in the server's name that others want the lock of this request, and that it was forced.
async fn forge_recalls(server: &Server, forger: &mut MultiplexedConnection, name: &str, id: &str) {
    server.forget_stats().await;
    let channel = format!("leasehold:wake:{}", &id[..22]);
    let lock = format!("leasehold:lock:{{{name}}}");
    for _ in 0..20 {
        for message in
            [format!("{id}R{lock}"), format!("{}000000000000R{lock}", &id[..22]), format!("{id}F")]
        {
            assert_eq!(publish(forger, &channel, &message).await, 1);
        }
    }
    until("the client asks the server", async || server.stats("evalsha").await.0 > 0).await;
}

/// The server says that nobody wants the lock, so the lease stays, idle or in use.
#[tokio::test]
async fn a_recall_that_no_script_made_ends_no_lease() {
    let server = Server::start();
    let (locks, elsewhere) = (light_client(&server).await, light_client(&server).await);
    let mut forger = forger(&server).await;
    let mut ids = Vec::new();
    for (name, lease) in one_of_each(&locks).await {
        assert_eq!(lease.release().await.unwrap(), Released::Lingers, "{name}");
        ids.push((name, holders(&server, name).await));
    }
    for (name, held) in &ids {
        forge_recalls(&server, &mut forger, name, &held[0]).await;
    }
    // They are taken up, and the recalls come while they are in use.
    let leases = one_of_each(&locks).await;
    for ((name, held), (_, lease)) in ids.iter().zip(&leases) {
        assert!(lease.is_held());
        assert_eq!(holders(&server, name).await, *held, "{name}");
        forge_recalls(&server, &mut forger, name, &held[0]).await;
    }
    for (name, lease) in leases {
        assert_eq!(lease.release().await.unwrap(), Released::Lingers, "{name}");
    }
    for (name, held) in &ids {
        assert_eq!(holders(&server, name).await, *held, "{name}");
    }
    // A true recall ends them.
    drop(elsewhere.mutex("a").try_lock().await.unwrap());
    drop(elsewhere.semaphore("s", 1).try_acquire().await.unwrap());
    drop(elsewhere.rw_lock("r").try_write().await.unwrap());
    drop(elsewhere.rw_lock("w").try_read().await.unwrap());
}

/// Whoever publishes without a pause has at most one question of a lease under way.
#[tokio::test]
async fn a_flood_of_recalls_causes_one_question_at_a_time() {
    let server = Server::start();
    let locks = light_client(&server).await;
    let mutex = locks.mutex("a").ttl(LONG).linger(LONG);
    assert_eq!(mutex.lock().await.unwrap().release().await.unwrap(), Released::Lingers);
    let [id] = &holders(&server, "a").await[..] else { panic!("it is idle") };
    let mut forger = forger(&server).await;
    server.forget_stats().await;
    let (channel, message) =
        (format!("leasehold:wake:{}", &id[..22]), format!("{id}Rleasehold:lock:{{a}}"));
    let mut pipe = redis::pipe();
    for _ in 0..1_000 {
        pipe.publish(&channel, &message).ignore();
    }
    pipe.exec_async(&mut forger).await.unwrap();
    // The answer comes after all messages, and the question after it.
    locks.inspect("a").await.unwrap();
    assert_eq!(mutex.lock().await.unwrap().release().await.unwrap(), Released::Lingers);
    let (questions, _) = server.stats("evalsha").await;
    assert!((1..500).contains(&questions), "{questions} questions");
    // On a busy machine an answer may come too late for the idle lease: then the client has a new one.
    let [holder] = &holders(&server, "a").await[..] else { panic!("it is idle") };
    assert_eq!(holder[..22], id[..22]);
}
