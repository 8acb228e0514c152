//! The list: what is wrong first, by a column, and what a search finds.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::future::join_all;
use http::StatusCode;
use leasehold::store::memory::MemoryStore;
use leasehold::store::{Ask, ClientId, ClientInfo, Store};
use leasehold::{Lease, Locks, Wait};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{app, get, parameter};

const LONG: Duration = Duration::from_secs(6_000);

async fn names(app: &Router, query: &str) -> Vec<String> {
    let answer = get(app, &format!("/locks{query}")).await;
    assert_eq!(answer.status, StatusCode::OK, "{query}");
    let rows = answer.text.split("<tr data-key=\"").skip(1);
    rows.map(|row| row.split('"').next().unwrap().to_owned()).collect()
}

async fn client(store: &Arc<dyn Store>, service: &str, host: &str, process: u32) -> Locks {
    let id = ClientId::random();
    let info = ClientInfo::new(id, service.to_owned(), host.to_owned(), process);
    store.introduce(&info, Duration::MAX).await.unwrap();
    Locks::over_as(store.clone(), id)
}

async fn hold(locks: &Locks, name: &str) -> Lease {
    locks.mutex(name.to_owned()).ttl(LONG).lock().await.unwrap()
}

async fn wait(locks: &Locks, name: &str, waiting: u64) -> JoinHandle<()> {
    let mutex = locks.mutex(name.to_owned()).owner("patient").wait(Wait::Forever);
    let task = tokio::spawn(async move { drop(mutex.lock().await) });
    while locks.inspect(name.to_owned()).await.unwrap().waiting < waiting {
        tokio::task::yield_now().await;
    }
    task
}

const SECOND: Duration = Duration::from_secs(1);

/// Locks of three clients: in `queue` two have waited for a short time, in `wait` one for a long
/// time; `old` is held for the longest time, and `calm` was just acquired.
async fn troubled() -> (Router, Vec<Lease>, Vec<JoinHandle<()>>) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let first = client(&store, "billing", "host-1", 4_242).await;
    let second = client(&store, "orders", "host-2", 777).await;
    let third = client(&store, "search", "", 9).await;
    let old = hold(&first, "old").await;
    sleep(400 * SECOND).await;
    let leases = vec![old, hold(&second, "wait").await, hold(&first, "queue").await];
    let patient = wait(&third, "wait", 1).await;
    sleep(100 * SECOND).await;
    let waiting = vec![patient, wait(&second, "queue", 1).await, wait(&third, "queue", 2).await];
    sleep(10 * SECOND).await;
    let permits = third.semaphore("calm", 9).ttl(LONG);
    let mut leases = leases;
    leases.push(permits.acquire().await.unwrap());
    sleep(SECOND).await;
    leases.push(first.semaphore("calm", 9).ttl(LONG).acquire().await.unwrap());
    (app(&first), leases, waiting)
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_comes_first() {
    let (app, _leases, waiting) = troubled().await;
    assert_eq!(names(&app, "").await, ["wait", "queue", "old", "calm"]);
    for (sort, wanted) in [
        ("name", ["calm", "old", "queue", "wait"]),
        ("kind", ["old", "queue", "wait", "calm"]),
        ("holders", ["calm", "old", "queue", "wait"]),
        ("by", ["old", "queue", "wait", "calm"]),
        ("for", ["old", "queue", "wait", "calm"]),
        ("waiting", ["queue", "wait", "calm", "old"]),
        ("wait", ["wait", "queue", "calm", "old"]),
    ] {
        assert_eq!(names(&app, &format!("?sort={sort}")).await, wanted, "{sort}");
        let reversed = names(&app, &format!("?sort=-{sort}")).await;
        assert_ne!(reversed, wanted, "{sort}");
        // Two that are equal in it are in the order of their names.
        assert!(sort != "name" || reversed.iter().rev().eq(wanted), "{reversed:?}");
        // The title of the column is a link that turns it round. The search stays.
        let text = get(&app, &format!("/locks?q=a&kind=mutex&sort={sort}")).await.text;
        let link = format!("?q=a&#38;kind=mutex&#38;sort=-{sort}\"");
        assert!(text.contains(&link), "{link}: {text}");
        assert_eq!(text.matches("aria-sort=").count(), 1, "{text}");
        assert!(text.contains(&format!("name=\"sort\" value=\"{sort}\"")), "{text}");
        assert!(text.contains("Show what is wrong first"), "{text}");
    }
    let text = get(&app, "/locks").await.text;
    assert!(!text.contains("aria-sort=") && text.contains("?sort=for\""), "{text}");
    waiting.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn the_head_has_totals() {
    let (app, leases, waiting) = troubled().await;
    for (query, held, waits, oldest, longest) in [
        ("", 4, 3, "8m31s", "1m51s"),
        // They are of what is found, and of all pages.
        ("?q=que", 1, 2, "1m51s", "11s"),
        ("?q=calm", 1, 0, "1.0s", "–"),
        ("?q=none", 0, 0, "–", "–"),
    ] {
        let text = get(&app, &format!("/locks{query}")).await.text;
        let facts = text.split("<dl class=\"facts\"").nth(1).unwrap();
        let facts: Vec<_> = facts.split("</dl>").next().unwrap().split("<dd>").skip(1).collect();
        assert!(facts[0].starts_with(&format!("{held}<")), "{query}: {facts:?}");
        assert!(facts[1].starts_with(&format!("{waits}<")), "{query}: {facts:?}");
        assert!(facts[2].contains(oldest), "{query}: {facts:?}");
        assert!(facts[3].contains(longest), "{query}: {facts:?}");
        assert_eq!(facts[2].contains("lock?name=old\""), query.is_empty(), "{facts:?}");
        assert_eq!(facts[3].contains("lock?name=wait\""), query.is_empty(), "{facts:?}");
    }
    drop(leases);
    waiting.iter().for_each(JoinHandle::abort);
}

/// The search finds who holds and who waits, not only names.
#[tokio::test(start_paused = true)]
async fn a_search_finds_clients_too() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let first = client(&store, "billing", "host-1", 4_242).await;
    let second = client(&store, "orders", "host-2", 777).await;
    let a = first.mutex("a").owner("ann").note("TICKET-7 by hand").ttl(LONG);
    let _leases = [a.lock().await.unwrap(), hold(&second, "b").await, hold(&second, "ann").await];
    let waiting = wait(&first, "b", 1).await;
    let app = app(&first);
    let id = first.inspect("a").await.unwrap().holders[0].client.as_ref().unwrap().id.to_string();
    for (text, wanted) in [
        ("4242", &["a", "b"][..]),
        ("424", &[]),
        ("777", &["ann", "b"]),
        ("billing", &["a", "b"]),
        ("host-2", &["ann", "b"]),
        ("billing@host-1:4242", &["a", "b"]),
        ("@host-1", &["a", "b"]),
        ("ann", &["a", "ann"]),
        ("TICKET", &["a"]),
        ("patient", &["b"]),
        (&id[..8], &["a", "b"]),
        // A pattern is one of names.
        ("bill*", &[]),
        ("*n*", &["ann"]),
        ("none", &[]),
    ] {
        let found = names(&app, &format!("?sort=name&{}", parameter("q", text))).await;
        assert_eq!(found, wanted, "{text}");
    }
    assert!(names(&app, "?q=777&kind=semaphore").await.is_empty());
    waiting.abort();
}

/// Few rows are kept, and they are the right ones.
#[tokio::test(start_paused = true)]
async fn the_worst_of_many_are_on_the_first_page() {
    let locks = Locks::in_memory();
    let hold = async |n: u32| locks.mutex(format!("lock:{n:03}")).ttl(LONG).try_lock().await;
    let mut leases = join_all((100..350).map(hold)).await;
    sleep(50 * SECOND).await;
    leases.extend(join_all((0..100).chain(350..450).map(hold)).await);
    let waiting = wait(&locks, "lock:449", 1).await;
    sleep(2 * SECOND).await;
    let app = app(&locks);
    let mut expected = vec![449];
    expected.extend((100..350).chain(0..100).chain(350..449));
    let expected: Vec<_> = expected.into_iter().map(|n| format!("lock:{n:03}")).collect();
    for (page, rows) in [(1, 0..200), (2, 200..400), (3, 400..450)] {
        assert_eq!(names(&app, &format!("?page={page}")).await, expected[rows], "page {page}");
    }
    waiting.abort();
}

/// However many locks there are, 10,000 are looked at, and the page says so.
#[tokio::test(start_paused = true)]
async fn a_list_looks_at_so_many_locks() {
    let locks = Locks::in_memory();
    let hold = async |n: u32| locks.mutex(format!("lock:{n}")).ttl(LONG).try_lock().await;
    let _leases = join_all((0..10_100).map(hold)).await;
    let app = app(&locks);
    let text = get(&app, "/locks").await.text;
    assert!(text.contains("it has looked at 10000."), "{}", &text[..4_000]);
    assert_eq!(text.matches("<tr data-key").count(), 200);
    // A name is found among all.
    for n in [0, 5_000, 10_099] {
        let found = names(&app, &format!("?q=lock:{n}&sort=name")).await;
        assert!(found.contains(&format!("lock:{n}")), "{n}: {found:?}");
    }
}
