//! How often a line is logged that an outage repeats for each request.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::sync;

/// How long no line follows one like it.
const PAUSE: Duration = Duration::from_secs(10);

/// The lines of this process, by what they say and by the label of their lock, or by their server.
/// Labels are constants of the code, so there are few. A server that has moved leaves some 100 bytes.
static LOGGED: Mutex<BTreeMap<(&str, String), Logged>> = Mutex::new(BTreeMap::new());

struct Logged {
    at: Option<Instant>,
    /// How many like it were left out since.
    left_out: u64,
}

/// Returns how many lines like this one were left out since the last, if it is time for another.
pub(crate) fn seldom(line: &'static str, of: &str) -> Option<u64> {
    let mut logged = sync::lock(&LOGGED);
    let now = Instant::now();
    let last = logged.entry((line, of.to_owned())).or_insert(Logged { at: None, left_out: 0 });
    // A clock of tests may go back.
    let since = last.at.and_then(|at| now.checked_duration_since(at));
    if since.is_some_and(|since| since < PAUSE) {
        last.left_out += 1;
        return None;
    }
    last.at = Some(now);
    Some(std::mem::take(&mut last.left_out))
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_rest_is_counted() {
        let seldom = || seldom("a line of this test", "a");
        assert_eq!(seldom(), Some(0));
        for _ in 0..3 {
            assert_eq!(seldom(), None);
        }
        assert_eq!(super::seldom("a line of this test", "b"), Some(0), "another lock");
        assert_eq!(super::seldom("another line", "a"), Some(0));
        advance(PAUSE.abs_diff(Duration::from_millis(1))).await;
        assert_eq!(seldom(), None);
        advance(Duration::from_millis(1)).await;
        assert_eq!(seldom(), Some(4));
        assert_eq!(seldom(), None);
    }
}
