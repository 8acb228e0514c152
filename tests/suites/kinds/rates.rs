//! Rates on a real server: many clients, what is given up, and clocks.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use leasehold::store::redis::RedisStore;
use leasehold::store::rules::shadow::ShadowRate;
use leasehold::store::{Ask, NotAll, Take};
use leasehold::{LockError, Locks, Rate};
use leasehold_tests::requests::{self, redis_store};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::work_for;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// When a call was sent, and when its answer was there.
type Granted = (Instant, Instant);

/// In each stretch of time there are no more grants than the burst and the rate: all that were sent and
/// answered in it.
fn keep_to(rate: Rate, granted: &mut [Granted]) {
    granted.sort();
    for (at, (sent, _)) in granted.iter().enumerate() {
        let mut answers: Vec<_> = granted[at..].iter().map(|(_, answered)| *answered).collect();
        answers.sort();
        for (count, answered) in answers.iter().enumerate() {
            let micros = (*answered - *sent).as_micros() * u128::from(rate.count());
            let most = u128::from(rate.most_at_once()) + micros / rate.period().as_micros();
            assert!(count < usize::try_from(most).unwrap(), "{} are above {most}", count + 1);
        }
    }
}

/// Eight clients with four tasks each: some wait, some do not, some give up.
#[tokio::test]
async fn many_clients_keep_to_a_rate() {
    let server = Server::start();
    let rate = Rate::per_second(100).burst(10);
    let mut tasks = JoinSet::new();
    let begun = Instant::now();
    for client in 0..8 {
        let locks = Locks::connect(&server.url()).await.unwrap();
        for task in 0..4 {
            let limit = locks.rate("r", rate).wait(Duration::from_millis(50 * task));
            tasks.spawn(async move {
                let mut granted: Vec<Granted> = Vec::new();
                while begun.elapsed() < 3 * SECOND {
                    let sent = Instant::now();
                    let patience = Duration::from_millis(if client % 4 == 0 { 20 } else { 5000 });
                    match tokio::time::timeout(patience, limit.acquire()).await {
                        Ok(Ok(_)) => granted.push((sent, Instant::now())),
                        Ok(Err(LockError::RateLimited { retry_after, .. })) => {
                            work_for(retry_after.min(SECOND / 10)).await;
                        }
                        Ok(Err(error)) => panic!("{error}"),
                        Err(_) => {}
                    }
                }
                granted
            });
        }
    }
    let mut all: Vec<_> = tasks.join_all().await.concat();
    keep_to(rate, &mut all);
    let took = begun.elapsed().as_secs_f64();
    println!("{} grants in {took:.2} s", all.len());
    // What is given up is given back, and others take it.
    assert!(all.len() > 150, "only {} in {took} s", all.len());
}

/// The server remembers takes of which a copy may arrive, and not all of the last seconds.
#[tokio::test]
async fn a_rate_that_is_used_much_does_not_grow() {
    let server = Server::start();
    let (rate, mut tasks) = (Rate::per_second(10_000), JoinSet::new());
    for _ in 0..2 {
        let locks = Locks::connect(&server.url()).await.unwrap();
        for _ in 0..4 {
            let limit = locks.rate("r", rate);
            tasks.spawn(async move {
                for _ in 0..200 {
                    limit.acquire().await.unwrap();
                }
            });
        }
    }
    tasks.join_all().await;
    let mut count = redis::cmd("ZCARD");
    let mut redis = server.redis().await;
    let members: u64 = count.arg("leasehold:rate:{r}").query_async(&mut redis).await.unwrap();
    assert!(members < 60, "{members} of 1600 takes");
}

/// Each waits for several seconds, and another one asks meanwhile.
#[tokio::test(start_paused = true)]
async fn those_who_wait_for_a_slow_rate_are_served_in_their_order() {
    let limit = Locks::in_memory().rate("r", Rate::per_minute(20).burst(1)).wait(HOUR);
    let (mut tasks, served) = (JoinSet::new(), std::sync::Arc::new(std::sync::Mutex::new(vec![])));
    limit.acquire().await.unwrap();
    for nth in 0..20 {
        let (limit, served) = (limit.clone(), served.clone());
        tasks.spawn(async move {
            limit.acquire().await.unwrap();
            served.lock().unwrap().push(nth);
        });
        tokio::time::sleep(SECOND / 2).await;
    }
    tasks.join_all().await;
    assert_eq!(*served.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

/// Futures that wait and are not polled any more take their turns, and no others.
#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_polls_keeps_no_rate_from_others() {
    let limit = Locks::in_memory().rate("r", Rate::per_second(1).burst(1)).wait(HOUR);
    limit.acquire().await.unwrap();
    let mut asleep = std::pin::pin!(limit.acquire());
    assert!(futures_util::poll!(&mut asleep).is_pending(), "it sleeps until it can have one");
    let begun = tokio::time::Instant::now();
    for nth in 2..20 {
        limit.acquire().await.unwrap();
        assert!(begun.elapsed() < nth * SECOND + SECOND / 10, "{nth}: {:?}", begun.elapsed());
    }
    // Its turn was long ago, so it gets another one.
    asleep.await.unwrap();
    assert!(begun.elapsed() >= 20 * SECOND, "{:?}", begun.elapsed());
}

/// Each client takes as much as the others, in calls that are light and calls that are heavy.
#[tokio::test]
async fn clients_share_a_rate_by_their_order() {
    const CLIENTS: usize = 8;
    const WEIGHTS: [u32; 5] = [1, 1, 1, 1, 40];
    const ENOUGH: u64 = 5_000;
    let server = Server::start();
    let rate = Rate::per_second(1_500).burst(50);
    let (shares, mut tasks) = (Arc::new([const { AtomicU64::new(0) }; CLIENTS]), JoinSet::new());
    let total = |shares: &[AtomicU64]| shares.iter().map(|it| it.load(Relaxed)).sum::<u64>();
    // All of them before the first call.
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Locks::connect(&server.url()).await.unwrap());
    }
    for (client, locks) in clients.iter().enumerate() {
        for weight in WEIGHTS {
            let (limit, shares) = (locks.rate("r", rate).wait(HOUR), shares.clone());
            tasks.spawn(async move {
                while total(&*shares) < ENOUGH {
                    limit.acquire_many(weight).await.unwrap();
                    shares[client].fetch_add(u64::from(weight), Relaxed);
                }
            });
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let shares: Vec<_> = shares.iter().map(|it| it.load(Relaxed)).collect();
    let (least, most) = (*shares.iter().min().unwrap(), *shares.iter().max().unwrap());
    // Some are in the middle of a round.
    let round = u64::from(WEIGHTS.iter().sum::<u32>());
    assert!((least + round) * 10 >= most * 9, "{shares:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_be_served_in_time_fails_at_once() {
    let locks = Locks::in_memory();
    let limit = locks.rate("r", Rate::per_second(10).burst(1)).wait(Duration::from_millis(250));
    let begun = tokio::time::Instant::now();
    limit.acquire().await.unwrap();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let limit = limit.clone();
            tokio::spawn(async move { limit.acquire().await })
        })
        .collect();
    let mut results = Vec::new();
    for task in waiting {
        results.push(task.await.unwrap().is_ok());
    }
    assert_eq!(results, [true, true, false]);
    assert!(begun.elapsed() <= Duration::from_millis(260), "{:?}", begun.elapsed());
    let heavy = locks.rate("r", Rate::per_second(10).burst(5)).wait(Duration::from_millis(50));
    let begun = tokio::time::Instant::now();
    heavy.acquire_many(5).await.unwrap_err();
    assert!(begun.elapsed() <= Duration::from_millis(10), "it can't be served in time");
}

/// A call is told when its turn is, behind all that came before. If one of them gives up, the next call
/// has its turn.
#[tokio::test(start_paused = true)]
async fn a_call_behind_others_is_told_its_time() {
    let locks = Locks::in_memory();
    let limit = locks.rate("r", Rate::per_second(100));
    limit.acquire_many(10).await.unwrap();
    let heavy = limit.clone().wait(HOUR);
    let heavy = tokio::spawn(async move { heavy.acquire_many(100).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let soon = limit.clone().wait(Duration::from_millis(400));
    let error = soon.acquire_many(50).await.unwrap_err();
    let LockError::RateLimited { retry_after, .. } = error else { panic!("{error}") };
    let millis = retry_after.as_millis();
    assert!((570..=580).contains(&millis), "{retry_after:?}");
    heavy.abort();
    assert!(heavy.await.is_err());
    soon.acquire_many(50).await.unwrap();
}

/// Each call has a burst of its own: that of another, before it, is none of its business.
#[tokio::test(start_paused = true)]
async fn a_call_behind_others_is_refused_by_its_own_burst() {
    let locks = Locks::in_memory();
    let pro = locks.rate("r", Rate::per_second(1).burst(10));
    pro.acquire_many(10).await.unwrap();
    let free = locks.rate("r", Rate::per_second(1).burst(1)).wait(HOUR);
    let free = tokio::spawn(async move { free.acquire().await });
    tokio::time::sleep(2 * SECOND).await;
    let behind = pro.clone().wait(SECOND);
    let behind = tokio::spawn(async move { behind.acquire().await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    free.abort();
    behind.await.unwrap().unwrap();
}

fn part(rate: Rate, weight: u32) -> Take {
    requests::take("r", rate, weight)
}

/// For how long the rate is used up, or why the request may not begin.
async fn take(store: &RedisStore, take: &Take) -> Result<u64, NotAll> {
    let answer = store.acquire_all(&[], std::slice::from_ref(take)).unwrap().await.unwrap();
    answer.map(|used| used[0])
}

fn by_rules(shadow: &mut ShadowRate, take: &Take, now: Duration) -> Result<u64, NotAll> {
    let now_us = u64::try_from(now.as_micros()).unwrap();
    let at = shadow.begins(take, now_us, now).ok_or(NotAll::GivenBack)?;
    let after = Duration::from_micros(at - now_us);
    if after > take.wait && !shadow.is_known(take.id, now) {
        return Err(NotAll::UsedUp(0, after));
    }
    let used = shadow.take(take, at, now);
    if after.is_zero() { Ok(used) } else { Err(NotAll::Reserved(0, after)) }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_clock_that_goes_back_neither_opens_nor_closes_a_rate() {
    let server = Server::start_skewed();
    server.stop_clock();
    let (store, rate) = (redis_store(&server.url()).await, Rate::per_second(10));
    assert_eq!(take(&store, &part(rate, 10)).await, Ok(1_000_000));
    server.jump_back(HOUR);
    for _ in 0..3 {
        let short = take(&store, &part(rate, 1)).await;
        assert_eq!(short, Err(NotAll::UsedUp(0, SECOND / 10)), "no time has passed");
    }
    server.jump(SECOND / 10);
    assert!(take(&store, &part(rate, 1)).await.is_ok());
    assert!(take(&store, &part(rate, 1)).await.is_err());
    server.jump(HOUR);
    assert_eq!(take(&store, &part(rate, 10)).await, Ok(1_000_000), "a burst, and no more");
    assert!(take(&store, &part(rate, 1)).await.is_err());
}

/// Others lost a part of a rate to rounding, or let in one more than the burst after an idle time.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_rate_gives_all_that_it_says_and_after_an_idle_time_its_burst() {
    let server = Server::start_skewed();
    server.stop_clock();
    let (store, rate) = (redis_store(&server.url()).await, Rate::per_second(10).burst(3));
    for idle in [Duration::ZERO, SECOND, HOUR] {
        server.jump(idle);
        for _ in 0..3 {
            assert!(take(&store, &part(rate, 1)).await.is_ok());
        }
        assert!(take(&store, &part(rate, 1)).await.is_err(), "more than the burst after {idle:?}");
        for nth in 0..100 {
            server.jump(SECOND / 10);
            assert!(take(&store, &part(rate, 1)).await.is_ok(), "{nth} after {idle:?}");
            assert!(take(&store, &part(rate, 1)).await.is_err(), "{nth} after {idle:?}");
        }
    }
}

/// What happens to a rate on a server, and by the rules.
#[derive(Clone, Debug)]
enum Event {
    Jump(u64),
    Back(u64),
    /// By its weight, its burst and its wait, with so many that are settled.
    Take(u32, u32, u64, usize),
    Copy(usize),
    GiveBack(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (0..400_000u64).prop_map(Event::Jump),
        1 => (0..30_000_000u64).prop_map(Event::Jump),
        1 => (0..3_000_000u64).prop_map(Event::Back),
        4 => ((1..4u32), (4..20u32), (0..4usize)).prop_map(|(weight, burst, settled)| Event::Take(weight, burst, 0, settled)),
        8 => ((1..4u32), (4..8u32), (0..3_000_000u64)).prop_map(|(weight, burst, wait)| Event::Take(weight, burst, wait, 0)),
        2 => (0..8usize).prop_map(Event::Copy),
        3 => (0..8usize).prop_map(Event::GiveBack),
    ]
}

/// The scripts and the rules of the store in memory give the same answers to the microsecond.
#[cfg(target_os = "linux")]
#[test]
fn the_scripts_are_the_rules() {
    let runtime = Runtime::new().unwrap();
    let _inside = runtime.enter();
    let server = Server::start_skewed();
    server.stop_clock();
    let store = runtime.block_on(redis_store(&server.url()));
    let redis = runtime.block_on(server.redis());
    let time = |redis: &mut MultiplexedConnection| {
        let time = redis::cmd("TIME");
        let (secs, micros): (u64, u32) = runtime.block_on(time.query_async(redis)).unwrap();
        Duration::new(secs, micros * 1000)
    };
    let mut runner = TestRunner::new(Config { cases: 20, ..Config::default() });
    let ran = runner.run(&vec(event(), 1..80), |events| {
        let flush = redis::cmd("FLUSHALL");
        let () = runtime.block_on(flush.query_async(&mut redis.clone())).unwrap();
        let (mut shadow, mut taken) = (ShadowRate::default(), Vec::<Take>::new());
        for event in events {
            let now = time(&mut redis.clone());
            match event {
                Event::Jump(micros) => server.jump(Duration::from_micros(micros)),
                Event::Back(micros) => server.jump_back(Duration::from_micros(micros)),
                Event::Take(weight, burst, wait, settled) => {
                    let mut request = part(Rate::per_second(7).burst(burst), weight);
                    request.wait = Duration::from_micros(wait);
                    request.settled = taken.iter().rev().take(settled).map(|it| it.id).collect();
                    let said = runtime.block_on(take(&store, &request));
                    prop_assert_eq!(said, by_rules(&mut shadow, &request, now));
                    taken.push(request);
                }
                Event::Copy(back) => {
                    let Some(at) = taken.len().checked_sub(back + 1) else { continue };
                    let said = runtime.block_on(take(&store, &taken[at]));
                    prop_assert_eq!(said, by_rules(&mut shadow, &taken[at], now));
                }
                Event::GiveBack(back) => {
                    let Some(at) = taken.len().checked_sub(back + 1) else { continue };
                    let said = runtime.block_on(store.give_back(&taken[at])).unwrap();
                    prop_assert_eq!(said, shadow.give_back(&taken[at], now));
                }
            }
        }
        Ok(())
    });
    if let Err(error) = ran {
        panic!("{error}");
    }
}
