//! Leases on their way from one process to another: each ticket is a file.

use std::fs;
use std::path::PathBuf;
use std::str::SplitAsciiWhitespace;
use std::time::Duration;

use fastrand::Rng;
use leasehold::Ticket;

use super::wishes::{LOCKS, Part, Wish};
use crate::Failure;

/// The tickets of a deployment.
pub(super) struct Tickets {
    folder: PathBuf,
}

impl Tickets {
    pub(super) fn in_folder(folder: PathBuf) -> Result<Self, Failure> {
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    /// Hands a lease to whoever comes next.
    pub(super) fn put(&self, id: &str, wish: &Wish, ticket: &Ticket) -> Result<(), Failure> {
        let Part { lock, kind, units, limit } = wish.parts[0];
        let (ttl, owner) = (wish.ttl.as_millis(), &wish.owner);
        let text = format!("{lock} {kind:?} {units} {limit} {ttl} {owner} {id} {ticket}");
        let unfinished = self.folder.join(format!("{id}.new"));
        fs::write(&unfinished, text)?;
        fs::rename(unfinished, self.folder.join(id))?;
        Ok(())
    }

    /// One of the tickets. It may stay for another process, which then asks for the same lease.
    pub(super) fn take(&self, rng: &mut Rng) -> Option<Wish> {
        let entries = fs::read_dir(&self.folder).ok()?.filter_map(Result::ok);
        let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
        let is_whole = |file: &PathBuf| !file.to_string_lossy().ends_with(".new");
        files.retain(is_whole);
        let file = rng.choice(files)?;
        let text = fs::read_to_string(&file).ok()?;
        if rng.bool() {
            // Another process may have removed it, too.
            let _ = fs::remove_file(&file);
        }
        read(&mut text.split_ascii_whitespace())
    }
}

fn read(words: &mut SplitAsciiWhitespace<'_>) -> Option<Wish> {
    let name = words.next()?;
    let lock = LOCKS.into_iter().find(|lock| *lock == name)?;
    let (kind, units) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let part = Part { lock, kind, units, limit: words.next()?.parse().ok()? };
    let ttl = Duration::from_millis(words.next()?.parse().ok()?);
    let owner = words.next()?;
    let (of, ticket) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
    Some(Wish::of_ticket(part, owner, ttl, (of, ticket)))
}
