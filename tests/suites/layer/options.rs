//! `hold_until` and `on_lost`, with and without a lock that lingers.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use leasehold::layer::{HoldUntil, LayerLock, OnLost, path_key, template_key};
use leasehold::{LeaseHandle, LockLayer, Locks, LossReason, Rate};
use leasehold_tests::waiting::work_for;
use tokio::time::{advance, sleep};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::{Later, is_free, request, text};

/// The clock jumps past the deadline before a renewal is sent.
const STANDSTILL: Duration = Duration::from_secs(31);

/// A layer of each kind with a key of its own, and the method of a request.
fn of_each_kind(locks: &Locks) -> [(LockLayer<&'static str>, Method); 4] {
    [
        (LockLayer::mutex(locks, "mutex"), Method::POST),
        (LockLayer::semaphore(locks, "semaphore", 1), Method::POST),
        (LockLayer::rw_lock(locks, "written"), Method::PUT),
        (LockLayer::rw_lock(locks, "read"), Method::GET),
    ]
}

fn of_method(method: &Method) -> Request<()> {
    Request::builder().method(method).body(()).unwrap()
}

#[tokio::test]
async fn with_head_the_lock_is_free_before_the_body_is_read() {
    let locks = Locks::in_memory();
    for (layer, method) in of_each_kind(&locks) {
        let kind = format!("{layer:?}");
        let service = layer.hold_until(HoldUntil::Head).layer(service_fn(async |_: Request<()>| {
            assert!(LeaseHandle::current().unwrap().is_held());
            let frames = stream::once(async {
                assert!(LeaseHandle::current().is_none(), "the body runs without the lock");
                Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"a")))
            });
            Ok::<_, Infallible>(Response::new(StreamBody::new(Box::pin(frames))))
        }));
        let unread = service.oneshot(of_method(&method)).await.unwrap();
        for key in ["mutex", "written", "read"] {
            let is_free = match key {
                "mutex" => is_free(&locks, key).await,
                key => locks.rw_lock(key).try_write().await.is_ok(),
            };
            assert!(is_free, "{key}: {kind}");
        }
        assert!(locks.semaphore("semaphore", 1).try_acquire().await.is_ok(), "{kind}");
        assert_eq!(unread.into_body().collect().await.unwrap().to_bytes(), "a");
    }
}

/// Checks in its drop that the lock is still held.
struct UnderTheLock(Locks);

impl Drop for UnderTheLock {
    fn drop(&mut self) {
        assert!(!is_free(&self.0, "a").now_or_never().unwrap());
    }
}

#[tokio::test]
async fn with_head_the_handler_is_dropped_under_its_lock() {
    let locks = Locks::in_memory();
    let inside = locks.clone();
    let layer = LockLayer::mutex(&locks, "a").hold_until(HoldUntil::Head);
    let service = layer.layer(service_fn(move |_: Request<()>| {
        let until_dropped = UnderTheLock(inside.clone());
        // A future that keeps what it has until it is dropped, even when it is ready.
        poll_fn(move |_| {
            let _ = &until_dropped;
            Poll::Ready(Ok::<_, Infallible>(text("done")))
        })
    }));
    let response = service.oneshot(request("/")).await.unwrap();
    assert!(is_free(&locks, "a").await);
    drop(response);
}

/// The fast path keeps the option, too: the next request finds the idle lock while the first
/// response is unread.
#[tokio::test]
async fn with_head_a_lock_that_lingers_serves_the_next_request_at_once() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let layer = LockLayer::mutex(&locks, "a").linger(Duration::from_secs(5));
    let handler = service_fn(async |_: Request<()>| Ok::<_, Infallible>(text("done")));
    let mut service = layer.clone().hold_until(HoldUntil::Head).layer(handler);
    let mut unread = vec![service.call(request("/")).await.unwrap()];
    faults.always(leasehold::Fault::Unreachable);
    for _ in 0..5 {
        unread.push(service.call(request("/")).await.unwrap());
    }
    assert!(unread.iter().all(|response| response.status() == StatusCode::OK));
    faults.heal();

    let mut to_the_end = layer.layer(handler);
    let first = to_the_end.call(request("/")).await.unwrap();
    let second = to_the_end.call(request("/")).await.unwrap();
    assert_eq!(second.status(), StatusCode::CONFLICT, "by default the body holds it");
    drop(first);
}

/// A handler that works for a time, counts when it is done, and reports if it still had the lock.
fn works(
    time: Duration,
    done: &Arc<AtomicUsize>,
) -> impl Service<Request<()>, Response = Response<Later>, Error = Infallible, Future: Send + 'static>
+ Clone
+ Send
+ use<> {
    let done = done.clone();
    service_fn(move |request: Request<()>| {
        let done = done.clone();
        let lease = request.extensions().get::<LeaseHandle>().unwrap().clone();
        async move {
            work_for(time).await;
            done.fetch_add(1, Ordering::SeqCst);
            Ok(text(if lease.is_held() { "held" } else { "lost" }))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn with_finish_the_handler_goes_on_after_the_loss() {
    let locks = Locks::in_memory();
    for linger in [Duration::ZERO, Duration::from_secs(5)] {
        let layer = LockLayer::mutex(&locks, "a").linger(linger);
        let done = Arc::default();
        let handler = works(Duration::from_secs(20), &done);
        let mut service = layer.on_lost(OnLost::Finish).layer(handler);
        if !linger.is_zero() {
            // The next request takes the idle lock.
            service.call(request("/")).await.unwrap().into_body().collect().await.unwrap();
        }
        let before = done.load(Ordering::SeqCst);
        let mut response = Box::pin(service.call(request("/")));
        assert!(response.as_mut().now_or_never().is_none());
        advance(STANDSTILL).await;
        let response = response.await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "lost");
        assert_eq!(done.load(Ordering::SeqCst), before + 1);
        assert!(locks.mutex("a").wait(STANDSTILL).lock().await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn with_finish_max_hold_frees_the_lock_and_not_the_handler() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "a").max_hold(Duration::from_secs(60));
    let service = layer.on_lost(OnLost::Finish).layer(service_fn(async |_: Request<()>| {
        let lease = LeaseHandle::current().expect("a lost lease is current, too");
        assert_eq!(lease.lost().await, LossReason::MaxHold);
        sleep(Duration::from_secs(60)).await;
        Ok::<_, Infallible>(text("done"))
    }));
    let response = tokio::spawn(service.oneshot(request("/")));
    sleep(Duration::from_secs(61)).await;
    let next = locks.mutex("a").try_lock().await.expect("it is free");
    assert!(!response.is_finished());
    assert_eq!(response.await.unwrap().unwrap().status(), StatusCode::OK);
    assert!(next.is_held(), "the end of the request left the next holder alone");
}

/// A client that disconnects stops the handler with either option.
#[tokio::test]
async fn with_finish_a_client_that_goes_away_still_releases() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "a").on_lost(OnLost::Finish);
    let service =
        layer.layer(service_fn(|_: Request<()>| pending::<Result<Response<Later>, Infallible>>()));
    let mut response = Box::pin(service.oneshot(request("/")));
    assert!(response.as_mut().now_or_never().is_none());
    assert!(!is_free(&locks, "a").await);
    drop(response);
    assert!(is_free(&locks, "a").await);
}

thread_local! {
    /// The file of this thread's last panic.
    static PANICKED_IN: RefCell<String> = const { RefCell::new(String::new()) };
}

/// With what it panics, if it does. It panics at a line of this file: that is the user's.
fn panics(builds: &dyn Fn()) -> Option<String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            let file = panic.location().map(Location::file).unwrap_or_default();
            PANICKED_IN.set(file.to_owned());
            before(panic);
        }));
    });
    let panic = catch_unwind(AssertUnwindSafe(builds)).err()?;
    let text = match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().copied().expect("a text").to_owned(),
    };
    assert_eq!(PANICKED_IN.take(), file!(), "{text}");
    Some(text)
}

#[test]
fn each_mistake_panics_at_the_line_that_makes_it() {
    let locks = Locks::in_memory();
    let mutex = || LockLayer::mutex(&locks, "a");
    let mistakes: [&dyn Fn(); 13] = [
        &|| drop(LockLayer::mutex(&locks, template_key("{extension:user}"))),
        &|| drop(LockLayer::semaphore(&locks, template_key("{extension:user}"), 2)),
        &|| drop(LockLayer::rw_lock(&locks, template_key("{extension:user}"))),
        &|| drop(LockLayer::rate(&locks, template_key("{extension:user}"), Rate::per_second(1))),
        &|| drop(LayerLock::mutex(template_key("{extension:user}"))),
        &|| drop(template_key("{peer}").extension::<String>("user")),
        &|| drop(template_key("a:{id}")),
        &|| drop(path_key("a:{id")),
        &|| drop(LockLayer::mutex(&locks, "{peer}")),
        &|| drop(LockLayer::all(&locks, [])),
        &|| drop(mutex().weight_by(|_| 2)),
        &|| drop(mutex().limit_by(|_| 2)),
        &|| drop(LayerLock::mutex("a").rate_by(|_| None)),
    ];
    for mistake in mistakes {
        assert!(panics(mistake).is_some());
    }
}

/// The app does not start, instead of refusing each request.
#[test]
fn options_that_can_not_be_right_fail_when_the_app_is_built() {
    let locks = Locks::in_memory();
    let mutex = || LockLayer::mutex(&locks, "a");
    let permits = |limit| LockLayer::all(&locks, [LayerLock::permit("a", limit)]);
    let (short, long) = (Duration::from_millis(99), Duration::from_secs(31 * 24 * 60 * 60));
    let second = Duration::from_secs(1);
    // Each at its own line: axum may use the layer with its first connection, where a panic ends all.
    let mistakes: [(&str, &dyn Fn() -> LockLayer<&'static str>); 13] = [
        ("the name `a`", &|| {
            LockLayer::all(&locks, [LayerLock::permit("a", 2), LayerLock::permit("a", 2)]);
            mutex()
        }),
        ("the name `a`", &|| {
            LockLayer::all(&locks, [LayerLock::permit("a", 2), LayerLock::mutex("a")]);
            mutex()
        }),
        ("empty", &|| LockLayer::mutex(&locks, "")),
        ("control character", &|| {
            LockLayer::mutex(&locks, "a\n".to_owned());
            mutex()
        }),
        ("`ttl`: 3ms", &|| mutex().ttl(Duration::from_millis(3))),
        ("`max_hold`: 99ms", &|| mutex().max_hold(short)),
        ("`max_hold`: 2678400s", &|| mutex().max_hold(long)),
        ("a limit of 0", &|| LockLayer::semaphore(&locks, "a", 0)),
        ("with `once_per`", &|| mutex().once(second).once_per(second)),
        ("is no time zone", &|| mutex().schedule("daily in Europe/Berln")),
        ("a limit of 0", &|| {
            permits(0);
            mutex()
        }),
        ("0 in 1s", &|| {
            LockLayer::rate(&locks, "a", Rate::per_second(0));
            mutex()
        }),
        ("add `once_per` before it", &|| mutex().offset(second)),
    ];
    for (problem, mistake) in mistakes {
        let text = panics(&|| drop(mistake())).expect(problem);
        assert!(text.starts_with("a `LockLayer` would refuse every request: "), "{text}");
        assert!(text.contains(problem), "{problem}: {text}");
    }
    assert_eq!(panics(&|| drop(permits(1).layer(()))), None);
    let [mutexes, readers] =
        [LayerLock::mutex("a"), LayerLock::rw_lock("b")].map(|it| [it.clone(), it]);
    let others = [LayerLock::permit("c", 1), LayerLock::rate("c", Rate::per_second(1))];
    let set = [mutexes, readers, others].concat();
    assert_eq!(panics(&|| drop(LockLayer::all(&locks, set.clone()))), None);
    assert_eq!(panics(&|| drop(mutex().once_per(second).offset(second / 2).layer(()))), None);
}
