//! How a request is made of a client: by the calls for its kind, with its options.

use leasehold::{Lease, LeaseSet, LockError, Locks, Mutex, QuorumLocks, RwLock};
use leasehold_history::Kind;

use super::told::LABEL;
use super::wishes::{Form, Guard, Part, Succeeds, Wish};

impl Wish {
    pub(super) async fn acquire(&self, locks: &Locks) -> Result<Guard, LockError> {
        if let Some(travelling) = &self.ticket {
            return locks.adopt(travelling.ticket.clone()).await.map(Guard::one);
        }
        if self.parts.len() > 1 {
            return self.acquire_all(locks).await.map(Guard::All);
        }
        let lock = self.parts[0].lock;
        let lease = match self.parts[0].kind {
            Kind::Mutex | Kind::Once => self.lock(locks.mutex(lock)).await,
            Kind::Reentrant => self.reenter(locks).await,
            Kind::Permits => self.take_permits(locks).await,
            Kind::Read | Kind::Write => self.read_or_write(locks.rw_lock(lock)).await,
        };
        lease.map(Guard::one)
    }

    /// A quorum has no other kinds.
    pub(super) async fn acquire_on_quorum(&self, locks: &QuorumLocks) -> Result<Guard, LockError> {
        let Part { lock, kind, .. } = self.parts[0];
        let lease = match kind {
            Kind::Read | Kind::Write => self.read_or_write(locks.rw_lock(lock)).await,
            _ => self.lock(locks.mutex(lock)).await,
        };
        lease.map(Guard::one)
    }

    async fn lock(&self, mutex: Mutex) -> Result<Lease, LockError> {
        let mutex = mutex.ttl(self.ttl).wait(self.wait).auto_renew(self.is_renewed);
        let mut mutex = mutex.max_hold(self.max_hold);
        if let Some(succeeds) = self.succeeds {
            mutex = match succeeds {
                Succeeds::OncePer(period) => mutex.once_per(period),
                Succeeds::Once(lasts) => mutex.once(lasts),
            };
        }
        if let Some(time) = self.keeps {
            mutex = mutex.hold_at_least(time);
        }
        if !self.linger.is_zero() {
            mutex = mutex.linger(self.linger);
        }
        if self.replaces {
            mutex = mutex.replace(true);
        }
        if self.is_named {
            mutex = mutex.owner(&*self.owner);
        }
        if let Some(note) = self.note {
            mutex = mutex.note(note).label(LABEL);
        }
        match self.form {
            Form::Waits => mutex.lock().await,
            Form::Tries => mutex.try_lock().await,
        }
    }

    async fn reenter(&self, locks: &Locks) -> Result<Lease, LockError> {
        let mutex = locks.reentrant_mutex(self.parts[0].lock).owner(&*self.owner);
        let mutex = mutex.ttl(self.ttl).wait(self.wait).auto_renew(self.is_renewed);
        let mut mutex = mutex.max_hold(self.max_hold);
        if let Some(note) = self.note {
            mutex = mutex.note(note).label(LABEL);
        }
        match self.form {
            Form::Waits => mutex.lock().await,
            Form::Tries => mutex.try_lock().await,
        }
    }

    async fn take_permits(&self, locks: &Locks) -> Result<Lease, LockError> {
        let Part { lock, units, limit, .. } = self.parts[0];
        let permits = locks.semaphore(lock, limit).ttl(self.ttl).wait(self.wait);
        let mut permits = permits.auto_renew(self.is_renewed).max_hold(self.max_hold);
        if !self.linger.is_zero() {
            permits = permits.linger(self.linger);
        }
        if self.is_named {
            permits = permits.owner(&*self.owner);
        }
        if let Some(note) = self.note {
            permits = permits.note(note).label(LABEL);
        }
        match (self.form, units) {
            (Form::Waits, 1) => permits.acquire().await,
            (Form::Waits, _) => permits.acquire_many(units).await,
            (Form::Tries, 1) => permits.try_acquire().await,
            (Form::Tries, _) => permits.try_acquire_many(units).await,
        }
    }

    async fn read_or_write(&self, lock: RwLock) -> Result<Lease, LockError> {
        let lock = lock.wait(self.wait).auto_renew(self.is_renewed).max_hold(self.max_hold);
        let reads = self.parts[0].kind == Kind::Read;
        // The other half has a TTL of its own.
        let mut lock = if reads {
            lock.read_ttl(self.ttl).write_ttl(self.other_ttl)
        } else {
            lock.ttl(self.other_ttl).write_ttl(self.ttl)
        };
        if !self.linger.is_zero() {
            lock = lock.linger(self.linger);
        }
        if self.is_named {
            lock = lock.owner(&*self.owner);
        }
        if let Some(note) = self.note {
            lock = lock.note(note).label(LABEL);
        }
        match (self.form, reads) {
            (Form::Waits, true) => lock.read().await,
            (Form::Waits, false) => lock.write().await,
            (Form::Tries, true) => lock.try_read().await,
            (Form::Tries, false) => lock.try_write().await,
        }
    }

    async fn acquire_all(&self, locks: &Locks) -> Result<LeaseSet, LockError> {
        let mutexes = self.parts.iter().filter(|it| it.kind == Kind::Mutex).map(|it| it.lock);
        let mut all = locks.all(mutexes);
        for permits in self.parts.iter().filter(|it| it.kind == Kind::Permits) {
            all = match permits.units {
                1 => all.permit(permits.lock, permits.limit),
                units => all.weighted_permit(permits.lock, permits.limit, units),
            };
        }
        let all = all.ttl(self.ttl).auto_renew(self.is_renewed).wait(self.wait);
        let mut all = all.max_hold(self.max_hold);
        if let Some(note) = self.note {
            all = all.note(note).label(LABEL);
        }
        match self.form {
            Form::Waits => all.lock().await,
            Form::Tries => all.try_lock().await,
        }
    }
}
