//! The mark of a writer that a member of a quorum refused.

use leasehold::store::{Attempt, Kind};

use super::super::answers::Answer;
use super::super::beliefs::ensure;
use super::super::commands::{Command, What};
use super::Snapshot;

impl Snapshot {
    /// Checks the mark of a writer. It exists if the writer was refused and asks again, and not if
    /// the writer was served.
    pub(super) fn is_marked(
        &self,
        before: &Self,
        command: &Command,
        answer: &Answer,
    ) -> Result<(), String> {
        let request = &command.request;
        let client = request.id.client().to_string();
        let (then, lock) = (&before.locks[request.key.name()], &self.locks[request.key.name()]);
        let marked = then.mark_at(before.now_ms, self.now_ms);
        let right = match (answer, &command.what) {
            _ if request.kind != Kind::Write => marked,
            (Answer::Attempt(Attempt::Busy { .. }), What::Vote(again)) if !again.is_zero() => {
                Some(&*client)
            }
            (Answer::Attempt(Attempt::Granted { .. }), What::Vote(_)) => {
                marked.filter(|marked| *marked != client)
            }
            _ => marked,
        };
        let now = lock.mark_at(self.now_ms, self.now_ms);
        ensure(now == right, || format!("the mark of {now:?}, not of {right:?}"))
    }
}
