//! From a lock to the clients that hold it, and from a client to its locks.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use leasehold::store::Store;
use leasehold::store::memory::MemoryStore;
use leasehold::{Fault, Locks, Wait};

use super::{app, client_on, get, lock_page};

const LONG: Duration = Duration::from_secs(600);

/// The link to the page of the client that holds a lock, as a page has it.
fn link_in(text: &str) -> String {
    let link = text.split("client?id=").nth(1).expect("a link").split('"').next().unwrap();
    format!("/locks/client?id={link}")
}

#[tokio::test]
async fn a_client_leads_to_what_it_holds_and_waits_for() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let locks = client_on(&store, "leasehold run backup.sh", "host-1").await;
    let other = client_on(&store, "orders", "host-2").await;
    let hold = async |locks: &Locks, name: &str| {
        locks.mutex(name.to_owned()).owner("cron").note("<b>").ttl(LONG).lock().await.unwrap()
    };
    let _held = [hold(&locks, "a").await, hold(&locks, "b").await];
    let _others = [hold(&other, "c").await, hold(&other, "d").await];
    let mutex = locks.mutex("c").wait(Wait::Forever);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    while locks.inspect("c").await.unwrap().waiting == 0 {
        tokio::task::yield_now().await;
    }
    let app = app(&locks);
    let from = [lock_page("a"), "/locks?sort=name".to_owned()];
    for page in from {
        let answer = get(&app, &link_in(&get(&app, &page).await.text)).await;
        assert_eq!(answer.status, StatusCode::OK, "{page}");
        let text = answer.text;
        let rows: Vec<_> = text.split("<tr>").skip(2).collect();
        assert_eq!(rows.len(), 3, "{text}");
        for (name, does) in [("a", "holds"), ("b", "holds"), ("c", "waits")] {
            let is_it = |row: &&&str| row.contains(&format!("class=\"name\">{name}<"));
            let row = rows.iter().find(is_it).unwrap_or_else(|| panic!("no {name}: {text}"));
            assert!(row.contains(&format!("data-label=\"Does\">{does}<")), "{row}");
            assert!(row.contains(&format!("./lock?name={name}")), "{row}");
        }
        assert!(rows[2].contains("waits"), "what it holds comes first: {text}");
        for wanted in ["host-1", "4242", "cron", "&#60;b&#62;", "kill 4242; kill -CONT 4242"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(!text.contains("host-2") && !text.contains("<b>"), "{text}");
    }
    // The list of the clients leads there, too.
    let clients = get(&app, "/locks/clients").await.text;
    assert_eq!(clients.matches("./client?id=").count(), 2, "{clients}");
    waiting.abort();
}

#[tokio::test]
async fn a_client_without_a_lock_has_a_page() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let _lease = locks.mutex("a").lock().await.unwrap();
    let app = app(&locks);
    for id in ["", "?id=", "?id=none", "?id=%3Cscript%3E"] {
        let answer = get(&app, &format!("/locks/client{id}")).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert!(answer.text.contains("holds no lock and waits for none"), "{}", answer.text);
        assert!(!answer.text.contains("<script>"), "{}", answer.text);
    }
    faults.always(Fault::Refuse);
    let answer = get(&app, "/locks/client?id=none").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.text.contains("The lock store failed"), "{}", answer.text);
}
