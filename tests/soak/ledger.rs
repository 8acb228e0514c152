//! A database that the holders of one lock change in turn. Some go on after their leases have
//! ended, because their process was stopped, or because they never look.
//!
//! It has two rows. The row `checked` keeps the greatest fencing token that it has seen, and refuses
//! older ones, on reads as well as on writes: it loses no addition. The row `control` takes every
//! write, and loses some.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior, params};

use crate::Failure;

/// The rows, and whether they check tokens.
const ROWS: [(&str, bool); 2] = [("checked", true), ("control", false)];

/// A process that is stopped in a transaction holds up the others for less than this.
const PATIENCE: Duration = Duration::from_secs(20);

/// The database of a deployment.
#[derive(Clone)]
pub(crate) struct Ledger {
    file: PathBuf,
}

/// What a holder has read of each row. `None` if the row has refused its token.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    token: i64,
    amounts: [Option<i64>; ROWS.len()],
}

impl Ledger {
    pub(crate) fn create(folder: &Path) -> Result<(), Failure> {
        let ledger = Self { file: file_in(folder) };
        ledger.open()?.execute_batch(
            "CREATE TABLE ledger (name TEXT PRIMARY KEY, amount INTEGER, fence INTEGER);
             CREATE TABLE event (name TEXT, what TEXT);
             INSERT INTO ledger VALUES ('checked', 0, 0), ('control', 0, 0);",
        )?;
        Ok(())
    }

    /// The one in this folder. Not every deployment has one.
    pub(crate) fn find(folder: &Path) -> Option<Self> {
        let file = file_in(folder);
        file.exists().then_some(Self { file })
    }

    /// Reads both rows with the token of a lease.
    pub(crate) fn read(&self, token: u64) -> Result<Seen, Failure> {
        let mut seen = Seen { token: i64::try_from(token)?, amounts: [None; ROWS.len()] };
        for (amount, (name, is_checked)) in seen.amounts.iter_mut().zip(ROWS) {
            let select = "SELECT amount FROM ledger WHERE name = ?1";
            *amount = self.transaction(name, is_checked, seen.token, |database| {
                database.query_row(select, [name], |row| row.get(0))
            })?;
        }
        Ok(seen)
    }

    /// Adds 1 to what was read of each row.
    pub(crate) fn add(&self, seen: Seen) -> Result<(), Failure> {
        for (amount, (name, is_checked)) in seen.amounts.into_iter().zip(ROWS) {
            let Some(amount) = amount else { continue };
            self.transaction(name, is_checked, seen.token, |database| {
                let update = "UPDATE ledger SET amount = ?1 WHERE name = ?2";
                database.execute(update, params![amount + 1, name])?;
                // It is committed together with the amount, so the events count the additions.
                database.execute("INSERT INTO event VALUES (?1, 'added')", [name])
            })?;
        }
        Ok(())
    }

    /// Works on a row in a transaction. `None` if the row has refused the token.
    fn transaction<T>(
        &self,
        name: &str,
        is_checked: bool,
        token: i64,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, Failure> {
        let mut database = self.open()?;
        let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let raise = "UPDATE ledger SET fence = ?1 WHERE name = ?2 AND fence <= ?1";
        if is_checked && transaction.execute(raise, params![token, name])? == 0 {
            transaction.execute("INSERT INTO event VALUES (?1, 'refused')", [name])?;
            transaction.commit()?;
            return Ok(None);
        }
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(Some(done))
    }

    /// What the rows say in the end, in words, and what is wrong with that.
    pub(crate) fn report(&self) -> Result<(String, Vec<String>), Failure> {
        let database = self.open()?;
        let count = |name: &str, what: &str| {
            let select = "SELECT count(*) FROM event WHERE name = ?1 AND what = ?2";
            database.query_row(select, [name, what], |row| row.get::<_, i64>(0))
        };
        let amount = |name: &str| {
            let select = "SELECT amount FROM ledger WHERE name = ?1";
            database.query_row(select, [name], |row| row.get::<_, i64>(0))
        };
        let (added, amount_of_checked) = (count("checked", "added")?, amount("checked")?);
        let refused = count("checked", "refused")?;
        let (control, amount_of_control) = (count("control", "added")?, amount("control")?);
        let mut wrong = Vec::new();
        if added != amount_of_checked {
            wrong.push(format!(
                "ledger: {added} were added with tokens, and {amount_of_checked} are there"
            ));
        }
        if added == 0 || refused == 0 || control <= amount_of_control {
            wrong.push("ledger: the control lost nothing, which proves nothing".to_owned());
        }
        let text = format!(
            "with tokens {added} were added and {amount_of_checked} are there, {refused} were \
             refused; without {control} were added and {amount_of_control} are there"
        );
        Ok((text, wrong))
    }

    fn open(&self) -> Result<Connection, Failure> {
        let database = Connection::open(&self.file)?;
        database.busy_timeout(PATIENCE)?;
        // The system outlives the processes, so nothing has to be on the disk.
        database.pragma_update(None, "synchronous", "OFF")?;
        Ok(database)
    }
}

fn file_in(folder: &Path) -> PathBuf {
    folder.join("ledger.sqlite")
}
