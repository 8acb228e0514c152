//! Who holds what, as the holders see it: two leases that exclude each other are never both held,
//! and a lock's fencing tokens grow.

use std::collections::BTreeMap;

use leasehold::{Lease, LeaseHandle};

/// How a lease shares its lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    Alone,
    /// With as many others as there are permits left.
    Permit {
        limit: usize,
    },
    Reader,
}

#[derive(Debug, Default)]
pub(super) struct Holders {
    by_name: BTreeMap<String, Vec<(String, Mode, LeaseHandle)>>,
    greatest: BTreeMap<String, u64>,
    pub(super) grants: u64,
    pub(super) violations: Vec<String>,
}

impl Holders {
    /// Notes a new lease, and checks it against those that are held.
    pub(super) fn granted(&mut self, name: &str, who: &str, mode: Mode, lease: &Lease) {
        self.grants += 1;
        let handle = lease.handle();
        let holders = self.by_name.entry(name.to_owned()).or_default();
        holders.retain(|(_, _, other)| other.is_held());
        let is_broken = handle.is_held()
            && match mode {
                Mode::Alone => !holders.is_empty(),
                Mode::Permit { limit } => holders.len() >= limit,
                Mode::Reader => holders.iter().any(|(_, other, _)| *other == Mode::Alone),
            };
        if is_broken {
            let others: Vec<_> = holders.iter().map(|(who, mode, _)| (who, mode)).collect();
            self.violations.push(format!("{name}: {who} ({mode:?}) beside {others:?}"));
        }
        holders.push((who.to_owned(), mode, handle));
        if let Ok(token) = lease.fence() {
            let greatest = self.greatest.entry(name.to_owned()).or_default();
            if token.get() <= *greatest {
                self.violations.push(format!("{name}: token {token} after {greatest}"));
            }
            *greatest = token.get().max(*greatest);
        }
    }
}
