//! The limits that operators have set, as this client knows them.
//!
//! They are read before the first permit is asked for. From then on a message says that one has
//! changed, and every ten seconds the client looks, because a message may be lost. On the way of an
//! acquisition they cost one look at a flag, while none is set.

mod set;

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::time::sleep;

use self::set::{Change, Set};
use crate::core::error::LockError;
use crate::core::key::LockKey;
use crate::core::sync::lock;
use crate::hints::{HintRouter, LimitListener};
use crate::keeper::Keeper;
use crate::state::telemetry;
use crate::store::{
    Ask, Kind, LimitCommand, LimitOf, LimitOverride, Request, RequestSpec, Store, StoreError,
};
use crate::system;

/// How often a client looks for limits of which no message told it.
const LOOK: Duration = Duration::from_secs(10);

/// The shortest time between two looks: anybody who may publish can cause them.
const PAUSE: Duration = Duration::from_millis(100);

/// The limits of a client's semaphores that operators have set.
pub(crate) struct OperatorLimits {
    store: Arc<dyn Store>,
    keeper: Keeper,
    hints: Arc<HintRouter>,
    /// At least one is set.
    are_set: AtomicBool,
    /// They were read; in memory, since the last change.
    are_known: AtomicBool,
    /// The user may not read them.
    is_refused: AtomicBool,
    /// Counts what may have changed them, and what reads them.
    moments: AtomicU64,
    set: Mutex<Set>,
    looking: Mutex<Looking>,
}

/// Whether the limits are being read in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Looking {
    #[default]
    No,
    Yes,
    /// And once more, because they may have changed meanwhile.
    Again,
}

impl OperatorLimits {
    pub(crate) fn new(store: Arc<dyn Store>, keeper: Keeper, hints: Arc<HintRouter>) -> Arc<Self> {
        Arc::new(Self {
            store,
            keeper,
            hints,
            are_set: AtomicBool::new(false),
            are_known: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            moments: AtomicU64::new(1),
            set: Mutex::default(),
            looking: Mutex::default(),
        })
    }

    /// The limit that an operator has set for a lock.
    fn of(&self, key: &LockKey) -> Option<Arc<LimitOverride>> {
        if !self.are_set.load(Ordering::Acquire) {
            return None;
        }
        let set = lock(&self.set);
        let by_label = || set.of_labels.get(key.label()?);
        set.of_names.get(key.name()).or_else(by_label).cloned()
    }

    /// Returns true if an operator has set a limit for this semaphore.
    pub(crate) fn are_set_for(&self, key: &LockKey) -> bool {
        self.of(key).is_some()
    }

    /// The kind that is asked for, with the limit that holds now. `None` if it is that of the code.
    ///
    /// # Errors
    ///
    /// [`LockError::Closed`] if nobody gets such a permit while an operator's limit is set.
    pub(crate) fn in_force(
        &self,
        key: &LockKey,
        kind: Kind,
    ) -> Result<Option<Kind>, Box<LockError>> {
        let Kind::Semaphore { weight, .. } = kind else { return Ok(None) };
        let Some(set) = self.of(key) else { return Ok(None) };
        let kind = Kind::Semaphore { limit: set.limit, weight };
        if set.limit < weight {
            telemetry::limit(kind, key.label());
            let set = Box::new(LimitOverride::clone(&set));
            return Err(Box::new(LockError::Closed { key: key.clone(), weight, set }));
        }
        Ok(Some(kind))
    }

    /// The request that is sent, with the limit that holds now. `None` if it is that of the code.
    pub(crate) fn asked(&self, request: &Request) -> Result<Option<Request>, Box<LockError>> {
        let kind = self.in_force(&request.key, request.kind)?;
        telemetry::limit(kind.unwrap_or(request.kind), request.key.label());
        Ok(kind.map(|kind| Request { kind, ..request.clone() }))
    }

    /// What is asked for, with the limit that holds now.
    pub(crate) fn spec<'a>(
        &self,
        spec: &'a RequestSpec,
    ) -> Result<Cow<'a, RequestSpec>, Box<LockError>> {
        let kind = self.in_force(&spec.key, spec.kind)?;
        Ok(kind
            .map_or(Cow::Borrowed(spec), |kind| Cow::Owned(RequestSpec { kind, ..spec.clone() })))
    }

    /// Returns true if permits may be asked for.
    pub(crate) fn are_known(&self) -> bool {
        self.are_known.load(Ordering::Acquire)
    }

    /// Reads them before permits are asked for.
    pub(crate) async fn know(self: &Arc<Self>) -> Result<(), StoreError> {
        if self.are_known() { Ok(()) } else { self.read().await }
    }

    /// Changes one. The others of this client find it changed.
    pub(crate) async fn change(
        self: &Arc<Self>,
        command: LimitCommand,
    ) -> Result<Vec<LimitOverride>, StoreError> {
        let begun = self.moment();
        let set = self.store.limits(command).await?;
        let now = self.moment();
        // What was read on the way of this command may be from before it, or from after it and know what others
        // have changed since: what is read from now on knows all.
        let is_alone = now == begun + 1;
        if is_alone || self.read().await.is_err() {
            self.apply(self.moment(), &set);
            if !is_alone {
                self.look(Duration::ZERO);
            }
        }
        Ok(set)
    }

    /// A user that may not read them works by those that it knows: in the beginning by those of the code.
    async fn read(self: &Arc<Self>) -> Result<(), StoreError> {
        let (now, answer) = (self.moment(), self.store.limits(LimitCommand::Read));
        match answer.await {
            Ok(set) => self.apply(now, &set),
            Err(error) if !error.is_passing && !error.is_shut_down => {
                if !self.is_refused.swap(true, Ordering::AcqRel) {
                    let error = &error.source;
                    tracing::warn!(%error, "the limits that operators set can't be read, and have no effect here");
                }
                // The right may come back.
                let before = {
                    let mut set = lock(&self.set);
                    self.are_known.store(true, Ordering::Release);
                    let read = set.read.max(now);
                    std::mem::replace(&mut set.read, read)
                };
                self.note_first(before);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Begins to look for changes, when they were read for the first time.
    fn note_first(self: &Arc<Self>, read_before: u64) {
        // In this process's memory no message is lost.
        if read_before == 0 && self.is_elsewhere() {
            self.look_again_and_again();
        }
    }

    fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::AcqRel)
    }

    /// Takes what was read, asked for at this moment. Waiters ask with the new limits, and no permit
    /// stays idle: it would be taken up without a question.
    fn apply(self: &Arc<Self>, asked: u64, read: &[LimitOverride]) {
        let mut next = Set { read: asked, ..Set::default() };
        for limit in read {
            let (map, of) = match &limit.of {
                LimitOf::Name(name) => (&mut next.of_names, name),
                LimitOf::Label(label) => (&mut next.of_labels, label),
            };
            map.insert(of.clone(), Arc::new(limit.clone()));
        }
        let (before, changes, is_old) = {
            let mut set = lock(&self.set);
            if set.read > asked {
                return;
            }
            next.changed = set.changed;
            self.is_refused.store(false, Ordering::Release);
            self.are_set.store(!read.is_empty(), Ordering::Release);
            if set.changed < asked || self.is_elsewhere() {
                self.are_known.store(true, Ordering::Release);
            }
            let (changes, is_old) = (set.changes(&next), set.changed > asked);
            (std::mem::replace(&mut *set, next).read, changes, is_old)
        };
        self.note_first(before);
        if before == 0 && is_old {
            // A message came before the answer.
            self.look(Duration::ZERO);
        }
        if !changes.is_empty() {
            changes.iter().for_each(Change::log);
            self.hints.limits_changed(&|key| changes.iter().any(|change| change.is_for(key)));
        }
    }

    /// Looks every ten seconds, until the client ends.
    fn look_again_and_again(self: &Arc<Self>) {
        let (limits, shutdown) = (Arc::downgrade(self), self.keeper.shutdown.clone());
        self.keeper.spawn(async move {
            let mut pause = LOOK;
            loop {
                tokio::select! { () = sleep(pause) => {}, () = shutdown.begun() => return }
                let Some(limits) = limits.upgrade() else { return };
                limits.look(Duration::ZERO);
                // Each refusal is in the server's log.
                pause = if limits.is_refused.load(Ordering::Acquire) { LOOK * 6 } else { LOOK };
            }
        });
    }

    /// Returns true if messages may be lost.
    fn is_elsewhere(&self) -> bool {
        self.store.answers_within(LOOK).is_some()
    }

    /// Reads them in the background, after some time. False where there is no runtime for it.
    fn look(self: &Arc<Self>, after: Duration) -> bool {
        {
            let mut looking = lock(&self.looking);
            if *looking != Looking::No {
                *looking = Looking::Again;
                return true;
            }
            *looking = Looking::Yes;
        }
        let mut end = LookEnd { limits: Arc::downgrade(self), is_over: false };
        self.keeper.spawn(async move {
            sleep(after).await;
            while let Some(limits) = end.limits.upgrade() {
                if let Err(error) = limits.read().await {
                    let error = &error.source;
                    tracing::debug!(%error, "the limits that operators set could not be read");
                }
                drop(limits);
                sleep(PAUSE).await;
                if end.is_over() {
                    return;
                }
            }
        })
    }
}

/// Lets the next look begin, also if this one is dropped with its runtime.
struct LookEnd {
    limits: Weak<OperatorLimits>,
    is_over: bool,
}

impl LookEnd {
    /// Returns true unless they are to be read once more.
    fn is_over(&mut self) -> bool {
        let Some(limits) = self.limits.upgrade() else { return true };
        let mut looking = lock(&limits.looking);
        self.is_over = *looking != Looking::Again;
        *looking = if self.is_over { Looking::No } else { Looking::Yes };
        self.is_over
    }
}

impl Drop for LookEnd {
    fn drop(&mut self) {
        if let Some(limits) = self.limits.upgrade().filter(|_| !self.is_over) {
            *lock(&limits.looking) = Looking::No;
        }
    }
}

impl LimitListener for OperatorLimits {
    fn limits_changed(self: Arc<Self>) {
        // In a process that was forked off, mutexes may stay locked.
        if self.keeper.is_forked() {
            return;
        }
        {
            let mut set = lock(&self.set);
            set.changed = self.moment();
            if set.read == 0 {
                // Nobody has asked for a permit yet, or the answer is on its way.
                return;
            }
            if !self.is_elsewhere() {
                self.are_known.store(false, Ordering::Release);
            }
        }
        // Not all clients at the same moment.
        if !self.look(system::full_jitter(PAUSE)) {
            // The next to ask for a permit reads them first.
            self.are_known.store(false, Ordering::Release);
        }
    }
}

impl fmt::Debug for OperatorLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorLimits").field("set", &*lock(&self.set)).finish_non_exhaustive()
    }
}
