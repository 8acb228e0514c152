//! Offers, and the waiters that they belong to.

use leasehold::store::LIVE_MOST;

use super::super::beliefs::ensure;
use super::super::stored::Lock;

impl Lock {
    /// Checks the change by `keep_offer`. The request's time lasts until then or longer, unless it
    /// was granted a mutex, and nothing else is changed.
    pub(super) fn is_kept(
        &self,
        before: &Self,
        id: &str,
        until_ms: u64,
        now_ms: u64,
    ) -> Result<(), String> {
        let ends = |lock: &Self| {
            let live = lock.live(now_ms);
            live.map(|(id, _)| (id.to_owned(), lock.end_of(id))).collect::<Vec<_>>()
        };
        let mut expected = ends(before);
        let most = now_ms + u64::try_from(LIVE_MOST.as_millis()).expect("a few seconds");
        let may_last = (now_ms + 1..=most).contains(&until_ms);
        if may_last && before.state_at(now_ms) != "MH" {
            for (_, end) in expected.iter_mut().filter(|(holder, _)| holder == id) {
                *end = (*end).max(Some(until_ms));
            }
        }
        let (mut expected, mut found) = (expected, ends(self));
        expected.sort();
        found.sort();
        ensure(found == expected, || format!("{found:?}, and not {expected:?}"))?;
        let last = found.iter().filter_map(|(_, end)| *end).max();
        ensure(last.is_none_or(|last| last <= self.ends_ms), || "the record ends sooner".into())?;
        let record = before.record_at(now_ms);
        ensure(self.record_at(now_ms) == record, || format!("{record:?} is changed"))
    }
}
