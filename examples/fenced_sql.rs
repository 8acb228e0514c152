//! A row of a database that many holders change in turn. Some are stopped past the end of their
//! leases, and go on as if nothing had happened.
//!
//! ```sh
//! cargo run --example fenced_sql
//! ```
//!
//! The row keeps the greatest fencing token that it has seen, and refuses older ones, on reads as
//! well as on writes. So no addition is lost. The same without that check loses some: no lock can
//! prevent it, because a stopped holder does not know that its lease has ended.
//!
//! With `REDIS_URL` set, the locks are on that server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leasehold::{Locks, Wait};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use tokio::sync::watch;
use tokio::task::JoinSet;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Holders that are stopped now and then. One more is never stopped.
const STOPPED: usize = 3;

/// How often each of them adds 1. It is stopped at every third time.
const TIMES: usize = 6;

const ORDER: i64 = 42;

/// The database, as all holders see it.
struct Orders {
    file: PathBuf,
    /// False in the control: the row takes every write.
    checks_tokens: bool,
    /// The number of additions that were committed.
    added: watch::Sender<i64>,
    /// The number of transactions that the row has refused.
    refused: watch::Sender<i64>,
}

impl Orders {
    fn create(file: PathBuf, checks_tokens: bool) -> Result<Self, Failure> {
        let database = open(&file)?;
        database.execute_batch(
            "CREATE TABLE orders (
                 id INTEGER PRIMARY KEY,
                 amount INTEGER NOT NULL,
                 fence INTEGER NOT NULL DEFAULT 0
             );
             INSERT INTO orders (id, amount) VALUES (42, 0);",
        )?;
        let (added, refused) = (watch::Sender::new(0), watch::Sender::new(0));
        Ok(Self { file, checks_tokens, added, refused })
    }

    /// Begins a transaction for the holder with this token. `None` if a newer holder was here.
    fn begin<'a>(
        &self,
        database: &'a mut Connection,
        fence: i64,
    ) -> Result<Option<Transaction<'a>>, Failure> {
        let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if self.checks_tokens {
            // The first statement of every transaction, also of one that only reads.
            let raise = "UPDATE orders SET fence = ?1 WHERE id = ?2 AND fence <= ?1";
            if transaction.execute(raise, params![fence, ORDER])? == 0 {
                self.refused.send_modify(|refused| *refused += 1);
                return Ok(None); // it is rolled back
            }
        }
        Ok(Some(transaction))
    }

    fn read(&self, fence: i64) -> Result<Option<i64>, Failure> {
        let mut database = open(&self.file)?;
        let Some(transaction) = self.begin(&mut database, fence)? else { return Ok(None) };
        let amount = amount(&transaction)?;
        transaction.commit()?;
        Ok(Some(amount))
    }

    fn write(&self, fence: i64, amount: i64) -> Result<bool, Failure> {
        let mut database = open(&self.file)?;
        let Some(transaction) = self.begin(&mut database, fence)? else { return Ok(false) };
        transaction
            .execute("UPDATE orders SET amount = ?1 WHERE id = ?2", params![amount, ORDER])?;
        transaction.commit()?;
        self.added.send_modify(|added| *added += 1);
        Ok(true)
    }

    /// Adds 1 under the lock: reads, works, and writes. False if the row has refused that.
    async fn add(&self, locks: &Locks, is_stopped: bool) -> Result<bool, Failure> {
        let mutex = locks.mutex(leasehold::lock_key!("order:{ORDER}")).wait(Wait::Forever);
        // Who is stopped renews nothing, either.
        let ttl = Duration::from_millis(if is_stopped { 150 } else { 30_000 });
        let lease = mutex.ttl(ttl).auto_renew(!is_stopped).lock().await?;
        let fence = i64::from(lease.fence()?);
        let Some(amount) = self.read(fence)? else { return Ok(false) };
        if is_stopped {
            let mut added = self.added.subscribe();
            let before = *added.borrow_and_update();
            lease.lost().await;
            // Another holder adds meanwhile.
            added.wait_for(|added| *added > before).await?;
        }
        let is_written = self.write(fence, amount + 1)?;
        // The release of a lost lease fails, and changes nothing about what was written.
        let _ = lease.release().await;
        Ok(is_written)
    }
}

fn open(file: &Path) -> Result<Connection, Failure> {
    let database = Connection::open(file)?;
    database.busy_timeout(Duration::from_secs(10))?;
    // The example needs no durability.
    database.pragma_update(None, "synchronous", "OFF")?;
    Ok(database)
}

fn amount(database: &Connection) -> Result<i64, Failure> {
    Ok(database.query_row("SELECT amount FROM orders WHERE id = ?1", [ORDER], |row| row.get(0))?)
}

/// Lets all holders add. Returns how often they did, what the row says, and how many transactions
/// it has refused.
async fn run(locks: &Locks, file: &Path, checks_tokens: bool) -> Result<(i64, i64, i64), Failure> {
    let orders = Arc::new(Orders::create(file.to_owned(), checks_tokens)?);
    let mut holders = JoinSet::new();
    for _ in 0..STOPPED {
        let (locks, orders) = (locks.clone(), orders.clone());
        holders.spawn(async move {
            for time in 0..TIMES {
                let mut is_stopped = time % 3 == 1;
                // One who was refused reads again, with a new lease.
                while !orders.add(&locks, is_stopped).await? {
                    is_stopped = false;
                }
            }
            Ok::<(), Failure>(())
        });
    }
    // The holder that is never stopped adds until all others are done.
    loop {
        tokio::select! {
            biased;
            ended = holders.join_next() => match ended {
                Some(ended) => ended??,
                None => break,
            },
            added = orders.add(locks, false) => {
                added?;
            }
        }
    }
    let (added, refused) = (*orders.added.borrow(), *orders.refused.borrow());
    Ok((added, amount(&open(file)?)?, refused))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let locks = Locks::from_env_or_in_memory().await?;
    let folder = std::env::temp_dir().join(format!("fenced-sql-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (added, amount, refused) = run(&locks, &folder.join("checked.db"), true).await?;
    println!("tokens are checked: {added} were added, the row says {amount}; it refused {refused}");
    let (control, rest, _) = run(&locks, &folder.join("control.db"), false).await?;
    println!("nothing is checked: {control} were added, the row says {rest}");
    std::fs::remove_dir_all(&folder)?;
    if amount != added || refused == 0 || rest >= control {
        return Err("tokens should lose nothing, and the control should".into());
    }
    Ok(())
}
