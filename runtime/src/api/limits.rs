//! An operator's limits: in place of those of the code, in all processes at once.

use std::sync::Arc;

use super::lock_spec::Key;
use super::locks::Locks;
use crate::core::error::{LockError, Step};
use crate::core::key::IntoLockKey;
use crate::core::limit_override::{LimitOf, LimitOverride};
use crate::engine::shared::Shared;
use crate::store::{Ask, LimitCommand, LockInfo, LockKind, MOST_LIMITS, Note, StoreError};
use crate::system;

/// The limits of semaphores that operators have set, from [`Locks::limits`].
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::Locks::in_memory();
/// let render = locks.semaphore("render", 8); // the limit of the code
///
/// let limits = locks.limits();
/// limits.name("render").by("ann").why("incident 42").set(0).await?;
/// let error = render.try_acquire().await.unwrap_err();
/// assert!(error.is_closed(), "{error}"); // names ann and the incident
///
/// limits.name("render").unset().await?;
/// assert!(render.try_acquire().await.is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Limits {
    shared: Arc<Shared>,
}

/// The limit of one semaphore, or of all with one label: a cheap handle, from [`Limits::name`] or
/// [`Limits::label`].
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::Locks::in_memory();
/// let tenants = locks.limits().label("tenant:{id}");
/// tenants.clone().why("the database is slow").set(2).await?;
/// assert_eq!(tenants.get().await?.map(|set| set.limit), Some(2));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it changes nothing until it is set or unset"]
pub struct LimitHandle {
    shared: Arc<Shared>,
    of: Of,
    by: Option<Note>,
    why: Option<Note>,
}

/// What a limit is for, checked when it is used.
#[derive(Clone, Debug)]
enum Of {
    Label(String),
    Name(Key),
}

impl Locks {
    /// The limits that operators set, in place of those of the code: in all processes at once,
    /// without a deploy.
    ///
    /// Each process that uses semaphores reads them before its first permit. It learns of a change by a
    /// message, within milliseconds; if that is lost, or nobody may publish, within ten seconds.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits { shared: self.shared().clone() }
    }
}

impl Limits {
    /// The limit of all semaphores with this [label](crate::LockKey::label), such as
    /// `"tenant:{id}"`: the template of a key is its label.
    ///
    /// A limit for one [name](Self::name) comes before it.
    pub fn label(&self, label: impl Into<String>) -> LimitHandle {
        self.of(Of::Label(label.into()))
    }

    /// The limit of the semaphore of this name.
    pub fn name(&self, key: impl IntoLockKey) -> LimitHandle {
        self.of(Of::Name(Key::new(key)))
    }

    fn of(&self, of: Of) -> LimitHandle {
        LimitHandle { shared: self.shared.clone(), of, by: None, why: None }
    }

    /// All limits that are set: those of labels first, each in order.
    ///
    /// # Errors
    ///
    /// [`LockError::Store`] if the store failed, or refuses the client.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// for set in locks.limits().list().await? {
    ///     println!("{} has at most {}, set by {}", set.of, set.limit, set.by);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list(&self) -> Result<Vec<LimitOverride>, LockError> {
        let what = || "the limits".to_owned();
        let client = &self.shared.client;
        let is_here = client.keeper.check_not_forked();
        is_here.map_err(|error| LockError::of_store(Step::Inspect, what(), None, error))?;
        let read = client.store.limits(LimitCommand::Read).await;
        let mut set = read.map_err(|it| LockError::of_store(Step::Inspect, what(), None, it))?;
        set.sort_by(|a, b| a.of.cmp(&b.of));
        Ok(set)
    }
}

impl LimitHandle {
    /// Who changes it: the first 200 bytes. By default it is this process.
    pub fn by(mut self, who: impl AsRef<str>) -> Self {
        self.by = Note::new(who.as_ref());
        self
    }

    /// Why, such as a ticket: the first 200 bytes. Errors, the tool and the console show it.
    pub fn why(mut self, why: impl AsRef<str>) -> Self {
        self.why = Note::new(why.as_ref());
        self
    }

    /// Sets the limit, in place of that of the code. With 0 nobody gets a permit: requests fail with
    /// [`LockError::Closed`], and so do those that wait.
    ///
    /// It holds until it is [unset](Self::unset), also for processes that start later and for other
    /// versions of the code. Who holds a permit keeps it: after a limit was lowered, nobody gets one
    /// until enough were released. While it is set, permits do not [linger](crate::Semaphore::linger).
    ///
    /// The store keeps it for a year after the last process that has looked. A server that loses its
    /// data, or a failover, may forget it.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOption`] if another kind of lock is in use under the name, or if one of
    ///   the first 64 holders or waiters has or wants more of it than the limit; if the label is empty or longer than 200
    ///   bytes; or if 1000 other limits are set.
    /// - [`LockError::InvalidKey`] if no lock can have the name.
    /// - [`LockError::Store`] if the store failed, or refuses the client. The limit may be set.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the command: it may still run.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// locks.limits().name("render").by("ann").why("incident 42").set(1).await?;
    /// let first = locks.semaphore("render", 8).try_acquire().await?;
    /// assert!(locks.semaphore("render", 8).try_acquire().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set(self, limit: u32) -> Result<(), LockError> {
        let of = self.check()?;
        self.shared.client.keeper.check_not_forked().map_err(|error| failed(&of, error))?;
        if let Of::Name(key) = &self.of {
            let key = key.get()?;
            let info = self.shared.client.store.inspect(&key).await;
            let info = info.map_err(|error| LockError::store(Step::Inspect, &key, error))?;
            fits(&info, limit).map_err(|problem| invalid(format!("`{key}` {problem}")))?;
        }
        let by = self.by.clone().or_else(this_process);
        let by = by.ok_or_else(|| invalid("say who sets it, by `by`".to_owned()))?;
        let change = LimitCommand::Set { of: of.clone(), limit, by, why: self.why.clone() };
        let is_set = |set: &LimitOverride| set.of == of && set.limit == limit;
        if self.change(&of, change).await?.iter().any(is_set) {
            return Ok(());
        }
        Err(invalid(format!("{MOST_LIMITS} limits are set; unset some, or set one for a label")))
    }

    /// Takes the limit back: that of the code holds again. Returns true if one was set.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOption`] if the label is empty or longer than 200 bytes.
    /// - [`LockError::InvalidKey`] if no lock can have the name.
    /// - [`LockError::Store`] if the store failed, or refuses the client. The limit may be unset.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the command: it may still run.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// locks.limits().name("render").set(1).await?;
    /// assert!(locks.limits().name("render").unset().await?);
    /// assert!(!locks.limits().name("render").unset().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn unset(self) -> Result<bool, LockError> {
        let was_set = self.get().await?.is_some();
        let of = self.check()?;
        self.change(&of, LimitCommand::Unset(of.clone())).await?;
        Ok(was_set)
    }

    /// The limit, if one is set.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOption`] if the label is empty or longer than 200 bytes.
    /// - [`LockError::InvalidKey`] if no lock can have the name.
    /// - [`LockError::Store`] if the store failed, or refuses the client.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// assert!(locks.limits().name("render").get().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self) -> Result<Option<LimitOverride>, LockError> {
        let of = self.check()?;
        let set = Limits { shared: self.shared.clone() }.list().await?;
        Ok(set.into_iter().find(|set| set.of == of))
    }

    fn check(&self) -> Result<LimitOf, LockError> {
        match &self.of {
            Of::Name(key) => Ok(LimitOf::Name(key.get()?.name().to_owned())),
            Of::Label(label) if (1..=200).contains(&label.len()) => {
                Ok(LimitOf::Label(label.clone()))
            }
            Of::Label(_) => {
                Err(invalid("a label has 1 to 200 bytes, such as `tenant:{id}`".to_owned()))
            }
        }
    }

    async fn change(
        &self,
        of: &LimitOf,
        command: LimitCommand,
    ) -> Result<Vec<LimitOverride>, LockError> {
        let changed = self.shared.client.limits.change(command).await;
        changed.map_err(|error| failed(of, error))
    }
}

fn failed(of: &LimitOf, error: StoreError) -> LockError {
    LockError::of_store(Step::ChangeLimit, of.to_string(), None, error)
}

/// Whether a limit fits a lock, as it is in use now.
fn fits(info: &LockInfo, limit: u32) -> Result<(), String> {
    // A record that nobody uses may become any kind.
    let is_in_use = info.held > 0 || info.waiting > 0 || info.kept.is_some();
    let is_other = match info.kind {
        Some(LockKind::Foreign) => true,
        Some(kind) => is_in_use && kind != LockKind::Semaphore,
        None => false,
    };
    if is_other {
        return Err("is another kind of lock: only semaphores have a limit".to_owned());
    }
    let held = info.holders.iter().map(|holder| ("holds", holder.weight));
    let waits = info.waiters.iter().map(|waiter| ("waits for", waiter.weight));
    let heavy = held.chain(waits).find(|(_, weight)| limit > 0 && *weight > limit);
    match heavy {
        Some((does, weight)) => Err(format!(
            "has a request that {does} {weight} of it, which could never be granted with {limit}: set \
             at least {weight}, or 0 to close it"
        )),
        None => Ok(()),
    }
}

fn this_process() -> Option<Note> {
    Note::new(&format!("process {} on {}", system::process_id(), system::host()))
}

fn invalid(problem: String) -> LockError {
    LockError::InvalidOption { option: "limit", problem }
}
