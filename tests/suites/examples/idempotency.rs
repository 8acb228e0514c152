//! The example of payments that a client may send again: one payment and one answer, whatever becomes
//! of the lock or the process.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::Locks;
use leasehold_tests::process::{Process, example};
use leasehold_tests::server::{Server, free_port};
use leasehold_tests::waiting::until;
use reqwest::{Client, RequestBuilder, Response};
use rusqlite::{Connection, TransactionBehavior};

const BODY: &str = r#"{"amount": 500}"#;

/// A database of a test's own, deleted when it is dropped.
struct Database(PathBuf);

impl Database {
    fn new() -> Self {
        let name = format!("leasehold-payments-{}-{}", std::process::id(), free_port());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("payments.db")
    }

    fn open(&self) -> Connection {
        Connection::open(self.file()).unwrap()
    }

    fn count(&self, table: &str) -> i64 {
        let count = format!("SELECT count(*) FROM {table}");
        self.open().query_row(&count, [], |row| row.get(0)).unwrap()
    }

    fn execute(&self, statements: &str) {
        let database = self.open();
        database.busy_timeout(Duration::from_secs(10)).unwrap();
        database.execute_batch(statements).unwrap();
    }

    /// Waits until a transaction that writes stands still. One that is committed is not seen so often.
    async fn is_stuck(&self) {
        let mut database = self.open();
        database.busy_timeout(Duration::ZERO).unwrap();
        let mut in_a_row = 0;
        until("a transaction stands still", async || {
            let begun = database.transaction_with_behavior(TransactionBehavior::Immediate);
            in_a_row = if begun.is_err() { in_a_row + 1 } else { 0 };
            in_a_row == 50
        })
        .await;
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process of the example.
struct App {
    process: Process,
    url: String,
}

impl App {
    /// With locks on this server, or in its own memory.
    fn start(database: &Database, server: Option<&Server>) -> Self {
        let mut app = example("idempotency");
        app.env_remove("REDIS_URL").env("ADDR", "127.0.0.1:0").env("DATABASE", database.file());
        if let Some(server) = server {
            app.env("REDIS_URL", server.url());
        }
        let mut process = Process::start(&mut app);
        let line = process.line().expect("it says where it listens");
        let url = line.strip_prefix("listening on ").expect("an address").to_owned();
        Self { process, url: format!("{url}/payments") }
    }

    fn pay(&self, caller: &str, key: &str) -> RequestBuilder {
        let request = Client::new().post(&self.url).bearer_auth(caller);
        request.header("idempotency-key", key).body(BODY)
    }

    async fn answer(&self, caller: &str, key: &str) -> Answer {
        answer(self.pay(caller, key).send().await.unwrap()).await
    }

    /// Sends a request until it has another answer than that its first one runs.
    async fn final_answer(&self, caller: &str, key: &str) -> Answer {
        let mut last = None;
        until("there is another answer", async || {
            let response = self.pay(caller, key).send().await.unwrap();
            if response.status() == 409 {
                assert_eq!(response.headers()["retry-after"], "1");
            } else {
                last = Some(answer(response).await);
            }
            last.is_some()
        })
        .await;
        last.unwrap()
    }
}

/// A status, a body, and whether it was given before.
type Answer = (u16, String, bool);

async fn answer(response: Response) -> Answer {
    let is_repeat = response.headers().contains_key("idempotent-replayed");
    (response.status().as_u16(), response.text().await.unwrap(), is_repeat)
}

/// Many clients send the same request to these apps at the same time. All get one answer, which one of
/// them gets first, and one payment is made.
async fn pay_once_at(apps: &[App], database: &Database) {
    let answers = join_all((0..24).map(|n| apps[n % apps.len()].final_answer("ann", "1"))).await;
    let first: Vec<_> = answers.iter().filter(|(.., is_repeat)| !is_repeat).collect();
    assert_eq!(first.len(), 1, "{first:?}");
    let expected = (201, r#"{"amount":500,"payment":1}"#);
    for (status, body, _) in &answers {
        assert_eq!((*status, body.as_str()), expected);
    }
    assert_eq!((database.count("payments"), database.count("first_answers")), (1, 1));
}

#[tokio::test]
async fn repeats_at_the_same_time_are_one_payment_with_one_answer() {
    let (server, database) = (Server::start(), Database::new());
    let apps = [(); 2].map(|()| App::start(&database, Some(&server)));
    pay_once_at(&apps, &database).await;
}

/// Each app has locks of its own: that is a lock which a failover has lost, and another holder got.
#[tokio::test]
async fn a_lost_lock_costs_no_second_payment() {
    let database = Database::new();
    let apps = [(); 4].map(|()| App::start(&database, None));
    pay_once_at(&apps, &database).await;
}

#[tokio::test]
async fn a_repeat_during_the_first_request_is_409_until_there_is_an_answer() {
    let (server, database) = (Server::start(), Database::new());
    let app = App::start(&database, Some(&server));
    let locks = Locks::connect(&server.url()).await.unwrap();
    // The first request has its lock, and waits for the database.
    let mut other = database.open();
    let busy = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let first = tokio::spawn(app.pay("ann", "1").send());
    until("it is held", async || locks.inspect("payment:ann:1").await.unwrap().held == 1).await;

    let repeat = app.pay("ann", "1").send().await.unwrap();
    assert_eq!(
        (repeat.status().as_u16(), &repeat.headers()["retry-after"]),
        (409, &"1".parse().unwrap())
    );
    assert!(repeat.text().await.unwrap().contains("problem=held"));

    drop(busy);
    let (status, body, is_repeat) = answer(first.await.unwrap().unwrap()).await;
    assert_eq!((status, is_repeat), (201, false));
    assert_eq!(app.answer("ann", "1").await, (201, body, true));
    assert_eq!(database.count("payments"), 1);
}

#[tokio::test]
async fn a_key_is_bound_to_its_caller_and_its_request() {
    let database = Database::new();
    let app = App::start(&database, None);
    let (_, of_ann, _) = app.answer("ann", "1").await;
    let (status, of_bob, is_repeat) = app.answer("bob", "1").await;
    assert_eq!((status, is_repeat), (201, false), "bob's first");
    assert_ne!(of_ann, of_bob);
    assert_eq!(app.answer("eve", "1").await.0, 401, "she is nobody's caller");

    let other_body = app.pay("ann", "1").body(r#"{"amount": 900}"#).send().await.unwrap();
    let other_path = Client::new().post(format!("{}?to=eve", app.url)).bearer_auth("ann");
    let other_path = other_path.header("idempotency-key", "1").body(BODY).send().await.unwrap();
    for response in [other_body, other_path] {
        let (status, body, _) = answer(response).await;
        assert_eq!(status, 422);
        assert!(!body.contains("payment\""), "{body}");
    }
    assert_eq!(app.answer("ann", "1").await, (201, of_ann, true));
    assert_eq!(database.count("payments"), 2);

    let without_key = Client::new().post(&app.url).bearer_auth("ann").body(BODY);
    assert_eq!(without_key.send().await.unwrap().status(), 400);
}

/// A decision is an answer, although it is no success. What says that nothing was decided is none.
#[tokio::test]
async fn a_declined_payment_is_declined_again_and_a_failed_one_is_made() {
    let database = Database::new();
    let app = App::start(&database, None);
    let declined = || app.pay("ann", "1").body(r#"{"amount": 5000}"#).send();
    for is_repeat in [false, true] {
        let (status, body, was_given) = answer(declined().await.unwrap()).await;
        assert_eq!((status, was_given), (402, is_repeat), "{body}");
    }
    let malformed = app.pay("ann", "2").body("500").send().await.unwrap();
    assert_eq!(malformed.status(), 400);
    database.execute(
        "CREATE TRIGGER fails BEFORE UPDATE ON first_answers BEGIN SELECT RAISE(ABORT, 'full'); END",
    );
    assert_eq!(app.answer("ann", "2").await.0, 500);
    assert_eq!((database.count("payments"), database.count("first_answers")), (0, 1));
    database.execute("DROP TRIGGER fails");
    let (status, _, is_repeat) = app.answer("ann", "2").await;
    assert_eq!((status, is_repeat), (201, false));
    assert_eq!(database.count("payments"), 1);
}

/// It has paid, and stands still before the commit.
#[tokio::test]
async fn a_payment_whose_process_is_killed_is_made_by_the_repeat() {
    let database = Database::new();
    let mut app = App::start(&database, None);
    database.execute(
        "CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
             SELECT max(i) AS i FROM n;
         CREATE TRIGGER stuck BEFORE UPDATE ON first_answers BEGIN SELECT i FROM endless; END;",
    );
    let first = tokio::spawn(app.pay("ann", "1").send());
    database.is_stuck().await;
    app.process.kill();
    assert!(first.await.unwrap().is_err(), "its client has no answer");
    database.execute("DROP TRIGGER stuck");
    assert_eq!((database.count("payments"), database.count("first_answers")), (0, 0));

    let app = App::start(&database, None);
    let (status, body, is_repeat) = app.answer("ann", "1").await;
    assert_eq!((status, is_repeat), (201, false));
    assert_eq!(app.answer("ann", "1").await, (201, body, true));
    assert_eq!(database.count("payments"), 1);
}

/// The lock store is away or has forgotten everything: the row is there.
#[tokio::test]
async fn the_first_answer_needs_no_lock_store() {
    let (server, database) = (Server::start(), Database::new());
    let app = App::start(&database, Some(&server));
    let (status, body, _) = app.answer("ann", "1").await;
    assert_eq!(status, 201);
    assert_eq!(app.answer("ann", "1").await, (201, body.clone(), true), "it is done");
    let forget = redis::cmd("FLUSHALL");
    forget.query_async::<()>(&mut server.redis().await).await.unwrap();
    assert_eq!(app.answer("ann", "1").await, (201, body.clone(), true), "the handler finds it");

    drop(server);
    assert_eq!(app.answer("ann", "1").await, (201, body, true));
    let (status, body, _) = app.answer("ann", "2").await;
    assert_eq!(status, 503, "{body}");
    assert_eq!(database.count("payments"), 1);
}

/// A backup was restored: the payment and its answer are gone, and the lock store knows nothing else.
#[tokio::test]
async fn a_repeat_pays_again_if_the_row_is_gone() {
    let (server, database) = (Server::start(), Database::new());
    let app = App::start(&database, Some(&server));
    assert_eq!(app.answer("ann", "1").await.0, 201);
    database.execute("DELETE FROM payments; DELETE FROM first_answers");
    let (status, _, is_repeat) = app.answer("ann", "1").await;
    assert_eq!((status, is_repeat), (201, false));
    assert_eq!((database.count("payments"), database.count("first_answers")), (1, 1));
}
