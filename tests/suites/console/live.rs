//! The live parts: server-sent events, and what they cost.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream};
use futures_util::StreamExt;
use futures_util::future::join_all;
use http::{Request, StatusCode};
use leasehold::{Fault, Faults, Locks};
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt;

use super::app;

/// Somebody who looks.
pub(super) struct Viewer(BodyDataStream);

impl Viewer {
    pub(super) async fn of(app: &Router, path: &str) -> Self {
        let response = app.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await;
        let response = response.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Self(response.into_body().into_data_stream())
    }

    /// The next event's kind and data. `None` at the end.
    pub(super) async fn next(&mut self) -> Option<(String, String)> {
        loop {
            let bytes = self.0.next().await?.unwrap();
            let text = String::from_utf8(bytes.into()).unwrap();
            assert!(text.ends_with("\n\n"), "{text:?}");
            if text.starts_with("retry: ") {
                continue;
            }
            let mut lines = text.trim_end().lines();
            let kind = lines.next().unwrap().strip_prefix("event: ").unwrap().to_owned();
            let data = lines.map(|line| line.strip_prefix("data: ").expect("a line of data"));
            return Some((kind, data.collect::<Vec<_>>().join("\n")));
        }
    }

    /// Waits for an event with this text.
    pub(super) async fn until(&mut self, text: &str) {
        let seen = async {
            loop {
                let (_, data) = self.next().await.expect("it goes on");
                if data.contains(text) {
                    return;
                }
            }
        };
        timeout(Duration::from_secs(8), seen).await.unwrap_or_else(|_| panic!("no {text}"));
    }
}

/// How many locks and lists were looked at since the last call.
fn looks(faults: &Faults) -> usize {
    faults.store().log().iter().filter(|it| ["inspect", "list"].contains(it)).count()
}

#[tokio::test(start_paused = true)]
async fn a_lock_changes_hands_before_the_viewers_eyes() {
    let locks = Locks::in_memory();
    let app = app(&locks);
    let mut viewer = Viewer::of(&app, "/locks/lock-events?name=a").await;
    viewer.until("<dd>free</dd>").await;
    let lease = locks.mutex("a").owner("first").lock().await.unwrap();
    viewer.until("<bdi>first</bdi>").await;
    lease.release().await.unwrap();
    viewer.until("Nobody holds it").await;
    let _lease = locks.mutex("a").owner("second").lock().await.unwrap();
    viewer.until("<bdi>second</bdi>").await;
    viewer.until("<polyline class=\"held\"").await;
}

#[tokio::test(start_paused = true)]
async fn the_list_changes_too() {
    let locks = Locks::in_memory();
    let app = app(&locks);
    let mut viewer = Viewer::of(&app, "/locks/list-events?q=needle&kind=mutex").await;
    viewer.until("No lock is in use").await;
    let _other = locks.mutex("hay").lock().await.unwrap();
    let _lease = locks.mutex("a needle").lock().await.unwrap();
    viewer.until("1 lock.").await;
}

/// Fifty who look cost the store as much as one.
#[tokio::test(start_paused = true)]
async fn viewers_share_a_poller() {
    for (path, least) in [("lock-events?name=a", 8), ("list-events", 3)] {
        let mut counts = Vec::new();
        for viewers in [1, 50] {
            let (locks, faults) = Locks::in_memory_with_faults();
            let _lease = locks.mutex("a").ttl(Duration::from_secs(600)).lock().await.unwrap();
            let app = app(&locks);
            let path = format!("/locks/{path}");
            let all = join_all((0..viewers).map(|_| Viewer::of(&app, &path))).await;
            let reading = all.into_iter().map(|mut viewer| {
                tokio::spawn(async move {
                    let mut seen = 0;
                    while viewer.next().await.is_some() {
                        seen += 1;
                    }
                    seen
                })
            });
            let reading: Vec<_> = reading.collect();
            sleep(Duration::from_secs(9)).await;
            counts.push(looks(&faults));
            let seen = join_all(reading).await.into_iter().map(Result::unwrap);
            assert!(seen.into_iter().all(|seen| seen > least), "{path}: all see it");
        }
        assert!(counts[0] >= 4, "{path}: {counts:?}");
        assert_eq!(counts[0], counts[1], "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_looks_and_nothing_is_asked() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let app = app(&locks);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(looks(&faults), 0);
    for path in ["/locks/lock-events?name=a", "/locks/list-events"] {
        let mut viewer = Viewer::of(&app, path).await;
        viewer.next().await.unwrap();
        drop(viewer);
        sleep(Duration::from_secs(3)).await;
        assert!(looks(&faults) > 0, "{path}");
        sleep(Duration::from_secs(600)).await;
        assert_eq!(looks(&faults), 0, "{path}");
        // And for the next viewer it is asked again.
        Viewer::of(&app, path).await.next().await.unwrap();
        assert!(looks(&faults) > 0, "{path}");
        sleep(Duration::from_secs(20)).await;
        looks(&faults);
    }
}

/// A stream without an end would keep a server from shutting down. The browser comes again, and
/// the chart goes on.
#[tokio::test(start_paused = true)]
async fn a_stream_ends_and_the_next_goes_on() {
    let locks = Locks::in_memory();
    let _lease = locks.mutex("a").lock().await.unwrap();
    let app = app(&locks);
    let begun = Instant::now();
    let mut viewer = Viewer::of(&app, "/locks/lock-events?name=a").await;
    let mut last = String::new();
    while let Some((kind, _)) = viewer.next().await {
        last = kind;
    }
    assert_eq!(last, "again");
    assert!(begun.elapsed() <= Duration::from_secs(16), "{:?}", begun.elapsed());
    let (_, data) = Viewer::of(&app, "/locks/lock-events?name=a").await.next().await.unwrap();
    assert!(data.contains("<polyline"), "{data}");
}

#[tokio::test(start_paused = true)]
async fn streams_end_with_the_client() {
    let locks = Locks::in_memory();
    let app = app(&locks);
    let mut viewers = [
        Viewer::of(&app, "/locks/lock-events?name=a").await,
        Viewer::of(&app, "/locks/list-events").await,
    ];
    for viewer in &mut viewers {
        viewer.next().await.unwrap();
    }
    let begun = Instant::now();
    locks.shutdown().await;
    for viewer in &mut viewers {
        while viewer.next().await.is_some() {}
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let request = Request::get("/locks/lock-events?name=a").body(Body::empty()).unwrap();
    let refused = app.clone().oneshot(request).await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "the browser must not hurry");
}

#[tokio::test(start_paused = true)]
async fn a_failed_store_is_said_until_it_answers() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let _lease = locks.mutex("a").ttl(Duration::from_secs(600)).lock().await.unwrap();
    let app = app(&locks);
    for path in ["/locks/lock-events?name=a", "/locks/list-events"] {
        let mut viewer = Viewer::of(&app, path).await;
        viewer.until("data-label").await;
        faults.always(Fault::Refuse);
        viewer.until("The lock store failed").await;
        faults.heal();
        viewer.until("data-label").await;
    }
}

/// As many as 256 look at a time, and at eight lists. Their places are free again when they go.
#[tokio::test(start_paused = true)]
async fn streams_are_bounded() {
    let app = app(&Locks::in_memory());
    let status = async |path: String| {
        let response = app.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await;
        response.unwrap()
    };
    let all =
        join_all((0..256).map(|n| status(format!("/locks/lock-events?name={}", n % 7)))).await;
    assert!(all.iter().all(|response| response.status() == StatusCode::OK));
    let refused = status("/locks/lock-events?name=0".to_owned()).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"));
    drop(all);
    let lists = join_all((0..8).map(|n| status(format!("/locks/list-events?q={n}")))).await;
    assert!(lists.iter().all(|response| response.status() == StatusCode::OK));
    let ninth = status("/locks/list-events?q=8".to_owned()).await;
    assert_eq!(ninth.status(), StatusCode::SERVICE_UNAVAILABLE);
    let known = status("/locks/list-events?q=7".to_owned()).await;
    assert_eq!(known.status(), StatusCode::OK, "others look at it already");
    drop((lists, known));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(status("/locks/list-events?q=8".to_owned()).await.status(), StatusCode::OK);
}

/// Who opens a page sees it as it is, and not as it was when somebody else looked last.
#[tokio::test(start_paused = true)]
async fn a_new_viewer_sees_nothing_old() {
    let locks = Locks::in_memory();
    let app = app(&locks);
    let path = "/locks/lock-events?name=a";
    let lease = locks.mutex("a").owner("gone").lock().await.unwrap();
    Viewer::of(&app, path).await.until("<bdi>gone</bdi>").await;
    sleep(Duration::from_secs(3)).await;
    lease.release().await.unwrap();
    let mut viewer = Viewer::of(&app, path).await;
    let (_, html) = viewer.next().await.unwrap();
    assert!(!html.contains("gone") && html.contains("<dd>free</dd>"), "{html}");
    // One who comes when nothing changes gets an event as well: the page says that it is live.
    drop(viewer);
    sleep(Duration::from_secs(3)).await;
    assert!(Viewer::of(&app, path).await.next().await.unwrap().1.contains("<dd>free</dd>"));
}
