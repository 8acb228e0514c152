//! Rates: so many in a time and so many at once, alone and together with locks.

use std::time::Duration;

use leasehold::store::{All, Ask, Attempt, Ended, Kind, NotAll, Request, RequestId, Take};
use leasehold::{LockKey, Rate};
use leasehold_tests::backend::Backend;

use super::{Client, LONG, acquire, answered, cancelled, granted, released};

macro_rules! cases {
    ($case:path) => {
        $case! {
            rates:
            a_burst_is_taken_and_no_more,
            time_gives_back_what_was_taken,
            the_time_of_a_refusal_is_true,
            weights_count,
            weights_may_be_large,
            each_request_brings_its_own_rate,
            a_request_sent_twice_takes_once,
            what_is_given_back_can_be_taken,
            nothing_is_given_back_twice,
            time_and_a_cancel_give_nothing_back_twice,
            a_late_copy_after_a_cancel_is_refused,
            a_lock_of_the_same_name_is_something_else,
            locks_and_rates_are_taken_together,
            a_rate_that_is_used_up_refuses_all,
            a_lock_that_is_not_free_takes_nothing,
            a_set_sent_twice_takes_once,
            several_rates_are_taken_together,
            what_is_settled_is_forgotten_and_stays_used,
            of_a_set_also_a_settled_take_is_forgotten,
            a_request_that_may_wait_is_told_its_time,
            the_turn_of_one_that_gave_up_is_taken_next,
            a_set_that_waits_for_a_rate_takes_no_lock,
            rates_that_are_waited_for_begin_together,
        }
    };
}
pub(super) use cases;

/// So slow that no time passes.
const HOURLY: Rate = Rate::per_hour(4);

/// All keys of a script are in one slot of a cluster.
fn key(name: &str) -> LockKey {
    LockKey::new(format!("of:{{one}}:{name}")).unwrap()
}

fn part(client: &Client, name: &str, rate: Rate, weight: u32) -> Take {
    Take { key: key(name), ..client.requests.take(name, rate, weight) }
}

fn one(client: &Client, rate: Rate) -> Take {
    part(client, "rate", rate, 1)
}

fn permit(client: &Client, limit: u32) -> Request {
    Request { key: key("permit"), ..client.request(Kind::Semaphore { limit, weight: 1 }, LONG) }
}

fn mutex(client: &Client) -> Request {
    Request { key: key("mutex"), ..client.request(Kind::Mutex, LONG) }
}

async fn ask(backend: &dyn Backend, locks: &[Request], takes: &[Take]) -> All {
    let send = || backend.store().acquire_all(locks, takes).expect("it grants them together");
    answered(send).await
}

async fn given_back(backend: &dyn Backend, take: &Take) -> bool {
    backend.store().give_back(take).await.unwrap()
}

/// Not more, and hardly less: the machine may be busy.
fn is_about(time: Duration, most: Duration) -> bool {
    time <= most && time + LONG > most
}

/// For how long the rate is used up by a request that must be granted.
async fn takes(backend: &dyn Backend, take: &Take) -> Duration {
    let used = ask(backend, &[], std::slice::from_ref(take)).await.expect("there is enough");
    Duration::from_micros(used[0])
}

/// After how long a request would be granted that must be refused.
async fn refused(backend: &dyn Backend, take: &Take) -> Duration {
    match ask(backend, &[], std::slice::from_ref(take)).await {
        Err(NotAll::UsedUp(0, short)) => short,
        other => panic!("{other:?}"),
    }
}

/// How much of a rate that hardly grows is left.
async fn left(backend: &dyn Backend, rate: Rate) -> u32 {
    let client = Client::new();
    let mut taken = Vec::new();
    loop {
        let more = one(&client, rate);
        match ask(backend, &[], std::slice::from_ref(&more)).await {
            Ok(_) => taken.push(more),
            Err(NotAll::UsedUp(0, _)) => break,
            other => panic!("{other:?}"),
        }
    }
    for part in taken.iter().rev() {
        assert!(given_back(backend, part).await);
    }
    u32::try_from(taken.len()).unwrap()
}

pub(super) async fn a_burst_is_taken_and_no_more(backend: &dyn Backend) {
    let (client, rate) = (Client::new(), Rate::per_hour(4).burst(3));
    let quarter = Duration::from_secs(15 * 60);
    for nth in 1..=3 {
        let used = takes(backend, &one(&client, rate)).await;
        assert!(is_about(used, quarter * nth), "{used:?}");
    }
    let short = refused(backend, &one(&client, rate)).await;
    assert!(is_about(short, quarter), "{short:?}");
}

pub(super) async fn time_gives_back_what_was_taken(backend: &dyn Backend) {
    let (client, rate) = (Client::new(), Rate::per_second(2).burst(2));
    takes(backend, &part(&client, "rate", rate, 2)).await;
    refused(backend, &one(&client, rate)).await;
    backend.pass(Duration::from_millis(1100)).await;
    takes(backend, &part(&client, "rate", rate, 2)).await;
    // However long the pause was: no more than the burst.
    backend.pass(Duration::from_secs(2)).await;
    takes(backend, &part(&client, "rate", rate, 2)).await;
    refused(backend, &one(&client, rate)).await;
}

pub(super) async fn the_time_of_a_refusal_is_true(backend: &dyn Backend) {
    let (client, rate) = (Client::new(), Rate::per_second(4).burst(1));
    takes(backend, &one(&client, rate)).await;
    for _ in 0..3 {
        let next = one(&client, rate);
        let short = refused(backend, &next).await;
        assert!(short <= Duration::from_millis(250), "{short:?}");
        backend.pass(short).await;
        takes(backend, &next).await;
    }
}

pub(super) async fn weights_count(backend: &dyn Backend) {
    let client = Client::new();
    takes(backend, &part(&client, "rate", HOURLY, 3)).await;
    refused(backend, &part(&client, "rate", HOURLY, 2)).await;
    takes(backend, &one(&client, HOURLY)).await;
    refused(backend, &one(&client, HOURLY)).await;
}

/// A report of another limiter: a weight above 8,000 was more than its script could unpack.
pub(super) async fn weights_may_be_large(backend: &dyn Backend) {
    let (client, rate) = (Client::new(), Rate::per_hour(1_000_000).burst(50_000));
    let heavy = || part(&client, "rate", rate, 20_000);
    let first = heavy();
    takes(backend, &first).await;
    takes(backend, &heavy()).await;
    refused(backend, &heavy()).await;
    assert!(given_back(backend, &first).await);
    takes(backend, &heavy()).await;
    refused(backend, &heavy()).await;
}

pub(super) async fn each_request_brings_its_own_rate(backend: &dyn Backend) {
    let client = Client::new();
    takes(backend, &part(&client, "rate", HOURLY, 4)).await;
    refused(backend, &one(&client, HOURLY)).await;
    takes(backend, &part(&client, "rate", HOURLY.burst(7), 3)).await;
    refused(backend, &one(&client, HOURLY.burst(7))).await;
    let short = refused(backend, &one(&client, HOURLY)).await;
    let hour = Duration::from_secs(60 * 60);
    assert!(is_about(short, hour), "{short:?}");
}

pub(super) async fn a_request_sent_twice_takes_once(backend: &dyn Backend) {
    let client = Client::new();
    let part = part(&client, "rate", HOURLY, 3);
    let first = takes(backend, &part).await;
    let again = takes(backend, &part).await;
    assert!(is_about(again, first), "{again:?} after {first:?}");
    assert_eq!(left(backend, HOURLY).await, 1);
    takes(backend, &one(&client, HOURLY)).await;
    takes(backend, &part).await;
    refused(backend, &one(&client, HOURLY)).await;
}

pub(super) async fn what_is_given_back_can_be_taken(backend: &dyn Backend) {
    let client = Client::new();
    let (first, second) = (part(&client, "rate", HOURLY, 2), part(&client, "rate", HOURLY, 2));
    takes(backend, &first).await;
    takes(backend, &second).await;
    assert_eq!(left(backend, HOURLY).await, 0);
    assert!(given_back(backend, &first).await);
    assert_eq!(left(backend, HOURLY).await, 2);
    assert!(given_back(backend, &second).await);
    assert_eq!(left(backend, HOURLY).await, 4);
}

pub(super) async fn nothing_is_given_back_twice(backend: &dyn Backend) {
    let client = Client::new();
    let (first, second) = (one(&client, HOURLY), part(&client, "rate", HOURLY, 3));
    takes(backend, &first).await;
    takes(backend, &second).await;
    assert!(given_back(backend, &first).await);
    assert!(!given_back(backend, &first).await);
    assert_eq!(left(backend, HOURLY).await, 1);
    assert!(!given_back(backend, &one(&client, HOURLY)).await, "it has taken nothing");
    assert_eq!(left(backend, HOURLY).await, 1);
}

pub(super) async fn time_and_a_cancel_give_nothing_back_twice(backend: &dyn Backend) {
    let (client, rate) = (Client::new(), Rate::per_second(5).burst(2));
    let (first, second) = (one(&client, rate), one(&client, rate));
    takes(backend, &first).await;
    backend.pass(Duration::from_millis(300)).await;
    takes(backend, &second).await;
    assert!(!given_back(backend, &first).await, "time has given it back");
    let slow = Rate::per_hour(1).burst(1);
    refused(backend, &one(&client, slow)).await;
}

pub(super) async fn a_late_copy_after_a_cancel_is_refused(backend: &dyn Backend) {
    let client = Client::new();
    let (early, late) = (one(&client, HOURLY), one(&client, HOURLY));
    takes(backend, &early).await;
    given_back(backend, &early).await;
    given_back(backend, &late).await;
    for copy in [&early, &late] {
        let refused = ask(backend, &[], std::slice::from_ref(copy)).await;
        assert_eq!(refused, Err(NotAll::GivenBack), "it would count as granted");
    }
    assert_eq!(left(backend, HOURLY).await, 4);
}

pub(super) async fn a_lock_of_the_same_name_is_something_else(backend: &dyn Backend) {
    let client = Client::new();
    let lock = Request { key: key("rate"), ..mutex(&client) };
    let rate = one(&client, HOURLY);
    granted(backend, &lock).await;
    takes(backend, &rate).await;
    assert!(given_back(backend, &rate).await);
    assert_eq!(released(backend, &lock).await, Ended::Released);
}

pub(super) async fn locks_and_rates_are_taken_together(backend: &dyn Backend) {
    let client = Client::new();
    let set = [permit(&client, 2), mutex(&client)];
    let answer = ask(backend, &set, &[one(&client, HOURLY)]).await.expect("all are free");
    assert_eq!(answer[0], 0);
    assert_eq!(granted(backend, &set[1]).await, answer[1], "it is a lease like any other");
    assert!(is_about(Duration::from_micros(answer[2]), Duration::from_secs(15 * 60)));
    assert_eq!(left(backend, HOURLY).await, 3);
    assert_eq!(released(backend, &set[0]).await, Ended::Released);
    assert_eq!(left(backend, HOURLY).await, 3, "time gives it back, and no release");
}

pub(super) async fn a_rate_that_is_used_up_refuses_all(backend: &dyn Backend) {
    let client = Client::new();
    takes(backend, &part(&client, "rate", HOURLY, 4)).await;
    let set = [mutex(&client), permit(&client, 1)];
    let answer = ask(backend, &set, &[one(&client, HOURLY)]).await;
    assert!(matches!(answer, Err(NotAll::UsedUp(0, _))), "{answer:?}");
    granted(backend, &mutex(&client)).await;
    granted(backend, &permit(&client, 1)).await;
}

pub(super) async fn a_lock_that_is_not_free_takes_nothing(backend: &dyn Backend) {
    let client = Client::new();
    granted(backend, &permit(&client, 1)).await;
    let set = [mutex(&client), permit(&client, 1)];
    let answer = ask(backend, &set, &[one(&client, HOURLY)]).await;
    assert_eq!(answer, Err(NotAll::Busy(1)));
    assert_eq!(left(backend, HOURLY).await, 4);
    assert!(matches!(acquire(backend, &mutex(&client)).await, Attempt::Granted { .. }));
}

pub(super) async fn a_set_sent_twice_takes_once(backend: &dyn Backend) {
    let client = Client::new();
    let (set, all) = ([mutex(&client), permit(&client, 1)], [part(&client, "rate", HOURLY, 4)]);
    let first = ask(backend, &set, &all).await.expect("all are free");
    let again = ask(backend, &set, &all).await.expect("it has them");
    assert_eq!(first[..2], again[..2]);
    assert_eq!(left(backend, HOURLY).await, 0);
    for request in &set {
        assert!(cancelled(backend, request).await);
    }
    assert!(given_back(backend, &all[0]).await);
    assert_eq!(left(backend, HOURLY).await, 4);
}

pub(super) async fn several_rates_are_taken_together(backend: &dyn Backend) {
    let client = Client::new();
    let set = || [one(&client, HOURLY), part(&client, "total", Rate::per_hour(2), 1)];
    for _ in 0..2 {
        ask(backend, &[], &set()).await.expect("both have enough");
    }
    let answer = ask(backend, &[], &set()).await;
    assert!(matches!(answer, Err(NotAll::UsedUp(1, _))), "{answer:?}");
    assert_eq!(left(backend, HOURLY).await, 2);
}

/// A take that says which ones are settled.
fn after(client: &Client, settled: &[&Take]) -> Take {
    let ids: Vec<RequestId> = settled.iter().map(|take| take.id).collect();
    Take { settled: ids, ..one(client, HOURLY) }
}

pub(super) async fn what_is_settled_is_forgotten_and_stays_used(backend: &dyn Backend) {
    let client = Client::new();
    let (first, second) = (one(&client, HOURLY), one(&client, HOURLY));
    takes(backend, &first).await;
    takes(backend, &second).await;
    takes(backend, &after(&client, &[&first, &second])).await;
    assert!(!given_back(backend, &first).await, "it is used");
    assert_eq!(left(backend, HOURLY).await, 1);
    takes(backend, &one(&client, HOURLY)).await;
    // One that is refused says it, too.
    let third = one(&client, HOURLY.burst(5));
    takes(backend, &third).await;
    refused(backend, &after(&client, &[&third])).await;
    assert!(!given_back(backend, &third).await, "it is used");
    refused(backend, &one(&client, HOURLY.burst(5))).await;
}

pub(super) async fn of_a_set_also_a_settled_take_is_forgotten(backend: &dyn Backend) {
    let client = Client::new();
    let first = one(&client, HOURLY);
    takes(backend, &first).await;
    ask(backend, &[mutex(&client)], &[after(&client, &[&first])]).await.expect("all are free");
    assert!(!given_back(backend, &first).await, "it is used");
    assert_eq!(left(backend, HOURLY).await, 2);
}

/// After how long a request may begin that waits.
async fn waits(backend: &dyn Backend, locks: &[Request], takes: &[Take]) -> Duration {
    match ask(backend, locks, takes).await {
        Err(NotAll::Reserved(_, after)) => after,
        other => panic!("{other:?}"),
    }
}

/// The same request, which may wait.
fn waiting(take: Take) -> Take {
    Take { wait: Duration::from_secs(24 * 60 * 60), ..take }
}

pub(super) async fn a_request_that_may_wait_is_told_its_time(backend: &dyn Backend) {
    let (client, rate) = (Client::new(), Rate::per_second(2).burst(1));
    let interval = Duration::from_millis(500);
    takes(backend, &one(&client, rate)).await;
    let (first, second) = (waiting(one(&client, rate)), waiting(one(&client, rate)));
    let after = waits(backend, &[], std::slice::from_ref(&first)).await;
    assert!(after <= interval, "{after:?}");
    let later = waits(backend, &[], std::slice::from_ref(&second)).await;
    assert!(is_about(later, 2 * interval), "{later:?}");
    // Nobody overtakes them.
    let third = refused(backend, &one(&client, rate)).await;
    assert!(third <= 3 * interval, "{third:?}");
    // Asked too early, it keeps its time.
    let still = waits(backend, &[], std::slice::from_ref(&second)).await;
    assert!(still <= later, "{still:?} after {later:?}");
    backend.pass(still).await;
    for take in [&first, &second] {
        takes(backend, take).await;
    }
    // One that may not wait so long has taken nothing.
    let slow = || part(&client, "total", HOURLY.burst(1), 1);
    takes(backend, &slow()).await;
    let short = Take { wait: Duration::from_millis(1), ..slow() };
    refused(backend, &short).await;
    assert!(!given_back(backend, &short).await);
}

pub(super) async fn the_turn_of_one_that_gave_up_is_taken_next(backend: &dyn Backend) {
    let (client, rate) = (Client::new(), HOURLY.burst(1));
    let quarter = Duration::from_secs(15 * 60);
    takes(backend, &one(&client, rate)).await;
    let all: Vec<_> = (0..4).map(|_| waiting(one(&client, rate))).collect();
    for (nth, take) in (1..).zip(&all) {
        let after = waits(backend, &[], std::slice::from_ref(take)).await;
        assert!(is_about(after, quarter * nth), "{after:?}");
    }
    for take in &all[1..3] {
        assert!(given_back(backend, take).await);
    }
    // A heavy one has room for two between the others, and nobody's time changes.
    let heavy = waiting(part(&client, "rate", HOURLY.burst(2), 2));
    let after = waits(backend, &[], std::slice::from_ref(&heavy)).await;
    assert!(is_about(after, quarter * 2), "{after:?}");
    let after = waits(backend, &[], std::slice::from_ref(&all[3])).await;
    assert!(is_about(after, quarter * 4), "{after:?}");
    let last = waits(backend, &[], &[waiting(one(&client, rate))]).await;
    assert!(is_about(last, quarter * 5), "{last:?}");
}

pub(super) async fn a_set_that_waits_for_a_rate_takes_no_lock(backend: &dyn Backend) {
    let (client, rate) = (Client::new(), Rate::per_second(4).burst(1));
    takes(backend, &one(&client, rate)).await;
    let (set, take) = ([mutex(&client), permit(&client, 1)], waiting(one(&client, rate)));
    let after = waits(backend, &set, std::slice::from_ref(&take)).await;
    let other = mutex(&client);
    granted(backend, &other).await;
    backend.pass(after).await;
    let busy = ask(backend, &set, std::slice::from_ref(&take)).await;
    assert_eq!(busy, Err(NotAll::Busy(0)), "the mutex is another's");
    assert_eq!(released(backend, &other).await, Ended::Released);
    ask(backend, &set, std::slice::from_ref(&take)).await.expect("it is its turn");
    assert_eq!(released(backend, &set[0]).await, Ended::Released);
}

pub(super) async fn rates_that_are_waited_for_begin_together(backend: &dyn Backend) {
    let (client, quarter) = (Client::new(), Duration::from_secs(15 * 60));
    let total = Rate::per_hour(2).burst(1);
    let both =
        || [waiting(one(&client, HOURLY.burst(1))), waiting(part(&client, "total", total, 1))];
    ask(backend, &[], &both()).await.expect("both have enough");
    let after = waits(backend, &[], &both()).await;
    assert!(is_about(after, quarter * 2), "{after:?}");
    // The faster one has room before that, and is used up at that time.
    let before = waits(backend, &[], &[waiting(one(&client, HOURLY.burst(1)))]).await;
    assert!(is_about(before, quarter), "{before:?}");
    let behind = waits(backend, &[], &[waiting(one(&client, HOURLY.burst(1)))]).await;
    assert!(is_about(behind, quarter * 3), "{behind:?}");
}
