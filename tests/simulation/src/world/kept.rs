//! Futures that nobody polls for a while: one of a `select!` in a loop whose body takes long, or one that
//! is put aside. Each is polled a few times, or for some time, or never; is left alone; and is then polled
//! on or dropped.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use fastrand::Rng;
use leasehold_history::Line;
use tokio::time::{sleep, timeout};

use super::turns::{Worker, nanos, now};
use super::wishes::Wish;

/// How a future is polled at first.
#[derive(Clone, Copy, Debug)]
enum First {
    Polls(u8),
    /// Whenever it wants, for so long.
    For(Duration),
}

/// How a future is polled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neglect {
    first: First,
    /// For how long it is then left alone.
    pub(super) time: Duration,
    /// It is dropped after that.
    is_dropped: bool,
}

impl Neglect {
    /// Few futures are left alone, most of these for a short time.
    pub(super) fn random(rng: &mut Rng) -> Option<Self> {
        if rng.u8(..24) != 0 {
            return None;
        }
        let longest = match rng.u8(..24) {
            0 => 30_000,
            1..=4 => 8_000,
            _ => 300,
        };
        Some(Self {
            first: if rng.u8(..3) == 0 {
                First::Polls(rng.u8(..6))
            } else {
                First::For(Duration::from_millis(rng.u64(1..200)))
            },
            time: Duration::from_millis(rng.u64(longest / 4..longest)),
            is_dropped: rng.u8(..3) == 0,
        })
    }

    /// The same of a release. One that nobody has polled has not begun: its lease is held on.
    pub(super) fn of_release(rng: &mut Rng) -> Option<Self> {
        let neglect = Self::random(rng)?;
        let first = match neglect.first {
            First::Polls(polls) => First::Polls(polls.max(1)),
            first @ First::For(_) => first,
        };
        Some(Self { first, ..neglect })
    }
}

impl Worker {
    /// Polls a request for these locks like that. Returns nothing if it is dropped.
    pub(super) async fn ask_neglectfully<F: Future>(
        &self,
        request: F,
        neglect: Option<Neglect>,
        (ids, wish): (&[String], &Wish),
    ) -> Option<F::Output> {
        let Some(neglect) = neglect else { return Some(request.await) };
        neglected(request, neglect, || {
            let (from, time) = (now(), nanos(neglect.time));
            for id in ids {
                let (id, to, is_of_set) = (id.clone(), from + time, ids.len() > 1);
                self.note(Line::Neglected { id, from, to, is_of_set });
            }
            self.leaves_alone(neglect, wish);
        })
        .await
    }

    /// Says that nothing is promised for the locks of a future that is left alone from now on.
    pub(super) fn leaves_alone(&self, neglect: Neglect, wish: &Wish) {
        let until = (now() + nanos(neglect.time)) / 1_000;
        for part in &wish.parts {
            self.shared.neglect(&self.name, part.lock, until);
        }
    }
}

/// Polls a future like that, and says when it is left alone.
pub(super) async fn neglected<F: Future>(
    future: F,
    neglect: Neglect,
    leaves: impl FnOnce(),
) -> Option<F::Output> {
    let mut future = pin!(future);
    let early = match neglect.first {
        First::Polls(polls) => polled(future.as_mut(), polls).await,
        First::For(time) => timeout(time, future.as_mut()).await.ok(),
    };
    if early.is_some() {
        return early;
    }
    leaves();
    sleep(neglect.time).await;
    if neglect.is_dropped { None } else { Some(future.await) }
}

/// Polls a future so often at most.
async fn polled<F: Future>(mut future: Pin<&mut F>, mut left: u8) -> Option<F::Output> {
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
