//! Money goes from one account to another, in a database that blocks its thread.
//!
//! ```sh
//! cargo run --example transfer
//! ```
//!
//! A transfer holds the locks of both accounts: it gets both or none, so two transfers never wait for
//! each other. One transaction moves the money. Its first statements are the check of both fencing
//! tokens, so a holder that has lost its leases without knowing it writes nothing; and the payment's id,
//! so a payment that is sent again is not made again.
//!
//! With `REDIS_URL` set, the locks are on that server.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold::{LeaseSetHandle, LockError, Locks, lock_key};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use tokio::task::JoinSet;

const ACCOUNTS: i64 = 4;
const EACH: i64 = 100;

/// A payment, as its client sends it.
#[derive(Clone, Copy)]
struct Payment {
    /// The client chose it, and sends it again with a retry.
    id: i64,
    from: i64,
    to: i64,
    amount: i64,
}

#[derive(Debug)]
enum TransferError {
    /// Nothing was moved, or it is not known: send the payment again, with the same id.
    Lock(LockError),
    Database(rusqlite::Error),
    /// A newer holder has written to one of the accounts: the leases had ended.
    TooLate,
    TooPoor,
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => write!(f, "send it again: {error}"),
            Self::Database(error) => write!(f, "send it again: {error}"),
            Self::TooLate => f.write_str("send it again: somebody else has the accounts"),
            Self::TooPoor => f.write_str("the account has less than that"),
        }
    }
}

impl From<LockError> for TransferError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<rusqlite::Error> for TransferError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

fn open(file: &Path) -> Result<Connection, rusqlite::Error> {
    let database = Connection::open(file)?;
    database.busy_timeout(Duration::from_secs(10))?;
    // The example needs no durability.
    database.pragma_update(None, "synchronous", "OFF")?;
    Ok(database)
}

/// Notes who writes to an account from now on.
fn raise(transaction: &Transaction<'_>, account: i64, fence: i64) -> Result<(), TransferError> {
    let raise = "UPDATE accounts SET fence = ?1 WHERE id = ?2 AND fence <= ?1";
    if transaction.execute(raise, params![fence, account])? == 0 {
        return Err(TransferError::TooLate);
    }
    Ok(())
}

/// Moves the money, on a thread that may block. Returns false if that was done before.
fn book(file: &Path, payment: Payment, leases: &LeaseSetHandle) -> Result<bool, TransferError> {
    let mut database = open(file)?;
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for account in [payment.from, payment.to] {
        // Fails if the lease is lost, as far as this process knows.
        raise(&transaction, account, i64::from(leases.fence(lock_key!("account:{account}")?)?))?;
    }
    let note = "INSERT INTO payments (id) VALUES (?1) ON CONFLICT DO NOTHING";
    if transaction.execute(note, [payment.id])? == 0 {
        return Ok(false);
    }
    let take = "UPDATE accounts SET balance = balance - ?1 WHERE id = ?2 AND balance >= ?1";
    if transaction.execute(take, params![payment.amount, payment.from])? == 0 {
        return Err(TransferError::TooPoor); // what was noted is rolled back
    }
    let give = "UPDATE accounts SET balance = balance + ?1 WHERE id = ?2";
    transaction.execute(give, params![payment.amount, payment.to])?;
    transaction.commit()?;
    Ok(true)
}

async fn transfer(locks: &Locks, file: PathBuf, payment: Payment) -> Result<bool, TransferError> {
    let account = |id: i64| lock_key!("account:{id}");
    let both = locks.all([account(payment.from)?, account(payment.to)?]);
    let leases = both.wait(Duration::from_secs(30)).lock().await?;
    leases.run_blocking(move |leases| book(&file, payment, leases)).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = Locks::from_env_or_in_memory().await?;
    let folder = std::env::temp_dir().join(format!("transfer-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("bank.db");
    let database = open(&file)?;
    database.execute_batch(
        "CREATE TABLE accounts (
             id INTEGER PRIMARY KEY,
             balance INTEGER NOT NULL,
             fence INTEGER NOT NULL DEFAULT 0
         );
         CREATE TABLE payments (id INTEGER PRIMARY KEY);",
    )?;
    for id in 0..ACCOUNTS {
        database.execute("INSERT INTO accounts (id, balance) VALUES (?1, ?2)", [id, EACH])?;
    }

    let mut clients = JoinSet::new();
    for id in 0..60 {
        let (from, to) = (id % ACCOUNTS, (id + 1 + id / ACCOUNTS % 3) % ACCOUNTS);
        let payment = Payment { id, from, to, amount: 1 + id % 7 };
        // Each client is impatient, and sends its payment twice.
        for _ in 0..2 {
            let (locks, file) = (locks.clone(), file.clone());
            clients.spawn(async move { transfer(&locks, file, payment).await });
        }
    }
    let (mut made, mut repeated) = (0, 0);
    for ended in clients.join_all().await {
        match ended {
            Ok(true) => made += 1,
            Ok(false) => repeated += 1,
            Err(error) => return Err(format!("a transfer failed: {error}").into()),
        }
    }
    let sum: i64 = database.query_row("SELECT sum(balance) FROM accounts", [], |row| row.get(0))?;
    println!(
        "{made} payments were made, {repeated} were sent again; the accounts have {sum} in all"
    );
    std::fs::remove_dir_all(&folder)?;
    locks.shutdown().await;
    if (made, repeated, sum) != (60, 60, ACCOUNTS * EACH) {
        return Err("each payment should be made once, and no money should be lost".into());
    }
    Ok(())
}
