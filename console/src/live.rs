//! Live parts of pages, as server-sent events.
//!
//! All who look at the same thing share one poller: fifty viewers cost the server as much as one.
//! A poller asks only while somebody looks.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{FutureExt, stream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::query::Way;
use super::search::Search;
use leasehold::Locks;

/// How many streams there are at a time.
const STREAMS: usize = 256;
/// How many lists are polled at a time. Each goes through all keys.
const LISTS: usize = 8;
/// How many things are polled at a time. Some have no viewer any more.
const TOPICS: usize = 2 * STREAMS;
/// A stream ends after this time, and up to half as much more; the browser opens another. One
/// without an end would keep an HTTP server from shutting down.
const STREAM: Duration = Duration::from_secs(10);
/// How long a poller waits for the next viewer before it ends and its history is forgotten.
const LINGER: Duration = Duration::from_secs(5);
/// A poller pauses for this many times as long as it has asked.
const REST: u32 = 10;
const LONGEST_REST: Duration = Duration::from_secs(60);

/// How long a poller rests at least after it has asked for so long.
pub(super) fn rest(asked: Duration) -> Duration {
    (asked * REST).min(LONGEST_REST)
}

/// What somebody looks at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    /// A lock, by its name.
    Lock(String),
    /// A list, with links for viewers at the same place.
    List(Search, Way),
}

/// A look at a topic, again and again.
pub(super) trait Look: Send + 'static {
    /// How long a poller pauses at least.
    const PAUSE: Duration;

    /// Looks, and returns the HTML to show.
    fn look(&mut self) -> impl Future<Output = String> + Send;
}

/// The pollers and their viewers.
#[derive(Debug)]
pub(super) struct Live {
    topics: Arc<Topics>,
    streams: Arc<Semaphore>,
    /// Lists are gone through one after the other.
    scans: Arc<Semaphore>,
}

type Topics = Mutex<HashMap<Topic, Arc<Watched>>>;

#[derive(Debug)]
struct Watched {
    /// The latest event, and when it was new. Empty before the first.
    event: watch::Sender<(Instant, Bytes)>,
    /// Somebody has begun to look.
    begun: Notify,
    /// Somebody waits for the next event, even if it says what the latest did.
    is_awaited: AtomicBool,
}

impl Live {
    pub(super) fn new() -> Self {
        Self {
            topics: Arc::default(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            scans: Arc::new(Semaphore::new(1)),
        }
    }

    /// A stream of events for one viewer. It begins to poll if nobody else looks.
    pub(super) fn stream<L: Look>(
        &self,
        locks: &Locks,
        topic: Topic,
        look: impl FnOnce() -> L,
    ) -> Response {
        // A browser that is told so comes back, again and again, but not at once.
        if locks.shutdown_begun().now_or_never().is_some() {
            return (StatusCode::SERVICE_UNAVAILABLE, "The lock client was shut down.")
                .into_response();
        }
        let permit = Arc::clone(&self.streams).try_acquire_owned();
        let (Ok(permit), Some(event)) = (permit, self.watch(locks, topic, look)) else {
            let text = "Too many people look at this console now. Reload the page instead.";
            let headers = [(header::RETRY_AFTER, "15")];
            return (StatusCode::SERVICE_UNAVAILABLE, headers, text).into_response();
        };
        let end = Instant::now() + STREAM.mul_f64(1.0 + fastrand::f64() / 2.0);
        let viewer =
            Viewer { locks: locks.clone(), event, end, step: Step::Begin, _permit: permit };
        let events = stream::unfold(viewer, Viewer::next);
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            // nginx would hold events back.
            (header::HeaderName::from_static("x-accel-buffering"), "no"),
        ];
        (headers, Body::from_stream(events)).into_response()
    }

    /// `None` if too much is polled.
    fn watch<L: Look>(
        &self,
        locks: &Locks,
        topic: Topic,
        look: impl FnOnce() -> L,
    ) -> Option<watch::Receiver<(Instant, Bytes)>> {
        let is_list = |topic: &Topic| matches!(topic, Topic::List(..));
        let scans = is_list(&topic).then(|| Arc::clone(&self.scans));
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let lists = topics.keys().filter(|topic| is_list(topic)).count();
        let all = topics.len();
        let watched = match topics.entry(topic.clone()) {
            Entry::Occupied(known) => Arc::clone(known.get()),
            Entry::Vacant(_) if all >= TOPICS || (is_list(&topic) && lists >= LISTS) => {
                return None;
            }
            Entry::Vacant(new) => {
                let event = watch::Sender::new((Instant::now(), Bytes::new()));
                let (begun, is_awaited) = (Notify::new(), AtomicBool::new(false));
                let watched = Arc::new(Watched { event, begun, is_awaited });
                new.insert(Arc::clone(&watched));
                let (topics, locks) = (Arc::clone(&self.topics), locks.clone());
                let poller = Poller { watched: Arc::clone(&watched), topics, topic, look: look() };
                let poller = poller.run(scans);
                tokio::spawn(async move {
                    tokio::select! {
                        () = poller => {}
                        () = locks.shutdown_begun() => {}
                    }
                });
                watched
            }
        };
        let mut event = watched.event.subscribe();
        let age = event.borrow().0.elapsed();
        if age <= L::PAUSE {
            event.mark_changed();
        } else {
            // The page that the viewer has is newer.
            watched.is_awaited.store(true, Ordering::Relaxed);
        }
        watched.begun.notify_one();
        Some(event)
    }
}

/// Looks at a topic for as long as somebody watches.
struct Poller<L> {
    watched: Arc<Watched>,
    topics: Arc<Topics>,
    topic: Topic,
    look: L,
}

impl<L: Look> Poller<L> {
    async fn run(mut self, scans: Option<Arc<Semaphore>>) {
        while self.has_viewers().await {
            let turn = match &scans {
                Some(scans) => scans.acquire().await.ok(),
                None => None,
            };
            let begun = Instant::now();
            let is_awaited = self.watched.is_awaited.swap(false, Ordering::Relaxed);
            let event = message("html", &self.look.look().await);
            self.watched.event.send_if_modified(|(at, last)| {
                let is_new = is_awaited || *last != event;
                (*at, *last) = (Instant::now(), event);
                is_new
            });
            let rest = rest(begun.elapsed());
            sleep(rest).await;
            drop(turn);
            sleep(L::PAUSE.saturating_sub(rest)).await;
        }
    }

    /// Waits for a viewer. False if nobody came, and the topic is forgotten.
    async fn has_viewers(&mut self) -> bool {
        while self.watched.event.receiver_count() == 0 {
            if timeout(LINGER, self.watched.begun.notified()).await.is_ok() {
                continue;
            }
            let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
            if self.watched.event.receiver_count() == 0 {
                topics.remove(&self.topic);
                return false;
            }
        }
        true
    }
}

impl<L> Drop for Poller<L> {
    /// Its runtime may have ended, or the client. Viewers who come later get another poller.
    fn drop(&mut self) {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if topics.get(&self.topic).is_some_and(|known| Arc::ptr_eq(known, &self.watched)) {
            topics.remove(&self.topic);
        }
    }
}

/// An event in its format on the wire.
fn message(kind: &str, html: &str) -> Bytes {
    let mut text = format!("event: {kind}\n");
    for line in html.split(['\r', '\n']).filter(|line| !line.trim().is_empty()) {
        text.push_str("data: ");
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    text.into()
}

/// One who looks.
struct Viewer {
    locks: Locks,
    event: watch::Receiver<(Instant, Bytes)>,
    end: Instant,
    step: Step,
    _permit: OwnedSemaphorePermit,
}

enum Step {
    Begin,
    Go,
    End,
}

impl Viewer {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        let bytes = match self.step {
            // The head of the response goes out with the first bytes.
            Step::Begin => {
                self.step = Step::Go;
                Bytes::from_static(b"retry: 1000\n\n")
            }
            Step::Go => {
                let event = tokio::select! {
                    biased;
                    () = self.locks.shutdown_begun() => return None,
                    () = sleep_until(self.end) => None,
                    event = next_event(&mut self.event) => Some(event?),
                };
                event.unwrap_or_else(|| {
                    self.step = Step::End;
                    message("again", "again")
                })
            }
            Step::End => return None,
        };
        Some((Ok(bytes), self))
    }
}

/// `None` if the poller has ended with the client.
async fn next_event(event: &mut watch::Receiver<(Instant, Bytes)>) -> Option<Bytes> {
    loop {
        event.changed().await.ok()?;
        let latest = event.borrow_and_update().1.clone();
        if !latest.is_empty() {
            return Some(latest);
        }
    }
}
