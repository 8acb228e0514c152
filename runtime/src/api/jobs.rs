//! An operator's view of jobs: how they go, and to let one run again.

use futures_util::TryStreamExt;

use super::locks::Locks;
use crate::core::error::{LockError, Step};
use crate::core::key::IntoLockKey;
use crate::store::{Ask, JobInfo, ListOf, Note, RunAgain};

impl Locks {
    /// The jobs whose names match a pattern: work with [`once_per`](crate::Mutex::once_per) or a
    /// schedule that has run, whatever calls it. `*` is any text, `?` is any one character. The overdue
    /// ones come first, then those that have failed, each by its name.
    ///
    /// The store remembers a job for 32 of its ticks, and at least for a day. So a job that no process
    /// runs any more is in the list, too, and [overdue](JobInfo::is_overdue): if it was given up,
    /// [`run_again`](Self::run_again) makes the store forget it after a day. A job that has never been
    /// granted its lock is in no list.
    ///
    /// It goes through all keys, as [`list`](Self::list) does, and needs the same right.
    ///
    /// # Errors
    ///
    /// - [`LockError::Store`] if the store failed, or refuses the client.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let hourly = locks.mutex("report").once_per(Duration::from_secs(60 * 60));
    /// hourly.lock().await?.complete().await?;
    ///
    /// for job in locks.jobs("*").await? {
    ///     println!("{}: {} runs have failed, {} ticks are missed", job.name, job.failed_runs, job.missed);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn jobs(&self, pattern: impl AsRef<str>) -> Result<Vec<JobInfo>, LockError> {
        let seen = self.look_at_all(pattern.as_ref(), ListOf::Jobs);
        let jobs = seen.try_filter_map(async |found| Ok(found?.job.map(|job| *job)));
        let mut jobs: Vec<_> = jobs.try_collect().await?;
        jobs.sort_by(|a, b| a.name.cmp(&b.name));
        jobs.dedup_by(|a, b| a.name == b.name);
        jobs.sort_by_key(|job| (!job.is_overdue(), job.failed_runs == 0));
        Ok(jobs)
    }

    /// Lets work run again that is done: of [`once`](crate::Mutex::once),
    /// [`once_per`](crate::Mutex::once_per) or a schedule. Whoever asks for it next gets it. A
    /// [`Job`](crate::Job) is told, and one of its processes runs it within a second or two. Whoever
    /// calls the function by a clock of its own runs it at its next call.
    ///
    /// The store forgets the last success, and the runs that failed since. A mutex that is kept without
    /// a holder, because a run has failed or by [`hold_at_least`](crate::Mutex::hold_at_least), becomes
    /// free. A run that is under way goes on; when it succeeds, the work is done.
    ///
    /// `by` is who asks for it, `why` is for those who wonder later, and may be empty. The store
    /// remembers both for a day, in [`JobInfo::asked_again`].
    ///
    /// If no message reaches a job, as on a server that refuses to publish, it learns of this when it next
    /// asks: in its next tick, or after four hours.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidKey`] if no lock can have this name.
    /// - [`LockError::InvalidOption`] if `by` is empty.
    /// - [`LockError::Store`] if the store failed, or refuses the client. The command may have run. It may
    ///   be sent again, and then finds nothing done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the command: it may still run.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let mail = locks.mutex("mail:42").once(Duration::from_secs(60 * 60));
    /// mail.lock().await?.complete().await?;
    /// assert!(mail.lock().await.unwrap_err().is_done());
    ///
    /// let again = locks.run_again("mail:42", "ann", "TICKET-7: it had a wrong address").await?;
    /// assert!(again.completed.is_some());
    /// mail.lock().await?.complete().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_again(
        &self,
        key: impl IntoLockKey,
        by: impl AsRef<str>,
        why: impl AsRef<str>,
    ) -> Result<RunAgain, LockError> {
        let key = key.into_lock_key()?;
        let Some(by) = Note::new(by.as_ref()) else {
            let problem = "say who lets the work run again".to_owned();
            return Err(LockError::InvalidOption { option: "by", problem });
        };
        self.client().check_not_forked(Step::RunAgain, &key)?;
        let (who, why) = (by.clone(), Note::new(why.as_ref()));
        let again = self.client().store.run_again(&key, by, why).await;
        let again = again.map_err(|error| LockError::store(Step::RunAgain, &key, error))?;
        tracing::warn!(lock = key.log_label(), by = who.text(), "work may run again");
        tracing::debug!(lock = key.log_label(), %key, "the work that may run again");
        Ok(again)
    }
}
