//! Layers with several locks: all or none, with one wait.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use leasehold::layer::{LayerLock, Refusal, SetKey, key_by, template_key};
use leasehold::{
    Fault, LeaseHandle, LeaseSetHandle, LockError, LockKey, LockLayer, Locks, LossReason, Rate,
    path_key,
};
use tokio::sync::Notify;
use tower::{Layer, ServiceExt, service_fn};

use super::{Later, counting, problem, text};

/// Two of a tenant at a time, three in all.
fn limits(locks: &Locks) -> LockLayer<SetKey> {
    let tenant = |parts: &http::request::Parts| {
        let tenant = parts.headers.get("x-tenant")?.to_str().ok()?;
        Some(format!("tenant:{tenant}"))
    };
    LockLayer::all(
        locks,
        [
            LayerLock::permit(key_by(tenant), 2).label("tenant"),
            LayerLock::permit("total", 3).label("all"),
        ],
    )
}

fn of(tenant: &str) -> Request<()> {
    Request::get("/").header("x-tenant", tenant).body(()).unwrap()
}

async fn free(locks: &Locks, tenant: &str) -> (u32, u32) {
    let free = async |name: &str, limit: u32| {
        let info = locks.inspect(name).await.unwrap();
        limit - u32::try_from(info.holders.len()).unwrap()
    };
    (free(&format!("tenant:{tenant}"), 2).await, free("total", 3).await)
}

#[tokio::test]
async fn a_request_takes_all_or_none_until_its_body_has_ended() {
    let locks = Locks::in_memory();
    let service =
        limits(&locks).layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(text("done"))));
    let ask = async |tenant| service.clone().oneshot(of(tenant)).await.unwrap();
    let (one, two) = (ask("a").await, ask("a").await);
    assert_eq!([one.status(), two.status()], [StatusCode::OK; 2]);
    assert_eq!(free(&locks, "a").await, (0, 1));
    // Its tenant has too many: it takes nothing of the total.
    let refused = ask("a").await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(problem(refused).await["lock"], "tenant");
    assert_eq!(free(&locks, "a").await, (0, 1));
    let other = ask("b").await;
    assert_eq!(other.status(), StatusCode::OK);
    // The total is full: it takes nothing of its tenant.
    let refused = ask("b").await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(problem(refused).await["lock"], "all");
    assert_eq!(free(&locks, "b").await, (1, 0));
    assert_eq!(one.into_body().collect().await.unwrap().to_bytes(), "done");
    assert_eq!(free(&locks, "a").await, (1, 1));
    drop((two, other));
    let whole = locks.together().weighted_permit("tenant:a", 2, 2).weighted_permit("total", 3, 3);
    whole.lock().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn the_refusal_says_which_lock_by_its_label() {
    let locks = Locks::in_memory();
    let _total = locks.semaphore("total", 3).acquire_many(3).await.unwrap();
    let layer = limits(&locks).on_refused(async |refusal, _| {
        assert!(matches!(refusal, Refusal::Full(LockError::Busy { .. })), "{refusal:?}");
        let mut response = refusal.to_response();
        *response.body_mut() = refusal.label().unwrap().into();
        response
    });
    let response = layer.layer(counting(&Arc::default())).oneshot(of("a")).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "all");
}

/// A held mutex is a conflict, a full semaphore is not.
#[tokio::test]
async fn the_status_is_that_of_the_lock_that_is_not_free() {
    let locks = Locks::in_memory();
    let layer = LockLayer::all(&locks, [LayerLock::mutex("order"), LayerLock::permit("total", 1)]);
    let service = layer.layer(counting(&Arc::default()));
    let ask = async || service.clone().oneshot(of("a")).await.unwrap().status();
    let order = locks.mutex("order").lock().await.unwrap();
    assert_eq!(ask().await, StatusCode::CONFLICT);
    order.release().await.unwrap();
    let total = locks.semaphore("total", 1).acquire().await.unwrap();
    assert_eq!(ask().await, StatusCode::TOO_MANY_REQUESTS);
    total.release().await.unwrap();
    assert_eq!(ask().await, StatusCode::OK);
}

/// While it waits for one lock, it has taken none that comes after it; and it gets both in one wait.
#[tokio::test(start_paused = true)]
async fn a_request_waits_once_for_all() {
    let locks = Locks::in_memory();
    let held = locks.semaphore("tenant:a", 2).acquire_many(2).await.unwrap();
    let layer = limits(&locks).wait(Duration::from_secs(5));
    let service = layer.layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(text("done"))));
    let waits = tokio::spawn(service.clone().oneshot(of("a")));
    while locks.inspect("tenant:a").await.unwrap().waiting == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(free(&locks, "a").await.1, 3);
    held.release().await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap().status(), StatusCode::OK);
    let _held = locks.semaphore("tenant:a", 2).acquire_many(2).await.unwrap();
    let begun = tokio::time::Instant::now();
    let refused = service.oneshot(of("a")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(begun.elapsed().as_secs(), 5);
}

/// Whichever lock they wait for, and whatever else they need.
#[tokio::test(start_paused = true)]
async fn waiters_count_at_each_lock() {
    let locks = Locks::in_memory();
    let by_path = key_by(|parts| Some(format!("page:{}", parts.uri.path().len())));
    let set = [LayerLock::mutex(by_path), LayerLock::permit("total", 1)];
    let layer = LockLayer::all(&locks, set).wait(Duration::from_secs(5)).max_waiters(2);
    let service = layer.layer(counting(&Arc::default()));
    let ask = |path| service.clone().oneshot(Request::get(path).body(()).unwrap());
    let _held = locks.semaphore("total", 1).acquire().await.unwrap();
    let (one, two) = (tokio::spawn(ask("/a")), tokio::spawn(ask("/ab")));
    while locks.inspect("total").await.unwrap().waiting < 1 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let third = ask("/abc").await.unwrap();
    assert_eq!(third.status(), StatusCode::TOO_MANY_REQUESTS);
    let title = problem(third).await["title"].to_string();
    assert!(title.contains("Too many requests wait"), "{title}");
    for waiter in [one, two] {
        assert_eq!(waiter.await.unwrap().unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    }
    // All places are free again.
    let response = tokio::time::timeout(Duration::from_secs(1), ask("/abc")).await;
    assert!(response.is_err(), "it waits");
}

/// A permit and a rate may have the same key. Their requests have one queue there.
#[tokio::test(start_paused = true)]
async fn a_waiter_counts_once_at_a_key() {
    let locks = Locks::in_memory();
    let rate = LayerLock::rate("tenant", Rate::per_second(100));
    let layer = LockLayer::all(&locks, [LayerLock::permit("tenant", 1), rate]);
    let layer = layer.wait(Duration::from_secs(5)).max_waiters(2);
    let service = layer.layer(counting(&Arc::default()));
    let _held = locks.semaphore("tenant", 1).acquire().await.unwrap();
    let begun = tokio::time::Instant::now();
    let ask = async || {
        let response = service.clone().oneshot(of("a")).await.unwrap();
        (problem(response).await["type"].as_str().unwrap().to_owned(), begun.elapsed().as_secs())
    };
    let (one, two, three) = tokio::join!(ask(), ask(), ask());
    for (problem, after) in [one, two] {
        assert!(problem.ends_with("problem=full") && after == 5, "{problem} after {after} s");
    }
    assert!(three.0.ends_with("problem=crowded") && three.1 == 0, "{three:?}");
}

/// A request that needs one of them less has the others.
#[tokio::test]
async fn a_lock_without_a_key_is_left_out() {
    let locks = Locks::in_memory();
    let service =
        limits(&locks).layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(text("done"))));
    let without = Request::get("/").body(()).unwrap();
    let response = service.clone().oneshot(without).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(locks.inspect("total").await.unwrap().holders.len(), 1);
    let none = LockLayer::all(&locks, [LayerLock::permit(key_by(|_| None::<String>), 1)]);
    let calls = Arc::default();
    let response = none.layer(counting(&calls)).oneshot(of("a")).await.unwrap();
    assert_eq!((response.status(), calls.load(Ordering::SeqCst)), (StatusCode::OK, 1));
}

#[tokio::test]
async fn weights_and_limits_are_those_of_each_lock() {
    let locks = Locks::in_memory();
    let layer = LockLayer::all(
        &locks,
        [
            LayerLock::permit("small", 2)
                .label("of plan")
                .limit_by(|parts| parts.headers.contains_key("x-plan").then_some(4)),
            LayerLock::permit("tokens", 100).label("of tokens").weight_by(|parts| {
                let tokens = parts.headers.get("x-tokens")?.to_str().ok()?;
                tokens.parse::<u32>().ok()
            }),
        ],
    );
    let service = layer.layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(text("done"))));
    let ask = async |headers: &[(&str, &str)]| {
        let with = |request: http::request::Builder, (name, value): &(&str, &str)| {
            request.header(*name, *value)
        };
        let request = headers.iter().fold(Request::get("/"), with).body(()).unwrap();
        service.clone().oneshot(request).await.unwrap()
    };
    let heavy = ask(&[("x-tokens", "90")]).await;
    assert_eq!(heavy.status(), StatusCode::OK);
    let refused = ask(&[("x-tokens", "11")]).await;
    assert_eq!(problem(refused).await["lock"], "of tokens");
    let light = ask(&[("x-tokens", "10")]).await;
    assert_eq!(light.status(), StatusCode::OK);
    drop(heavy);
    let second = ask(&[]).await;
    assert_eq!(second.status(), StatusCode::OK);
    assert_eq!(problem(ask(&[]).await).await["lock"], "of plan");
    assert_eq!(ask(&[("x-plan", "big")]).await.status(), StatusCode::OK);
    assert_eq!(ask(&[("x-tokens", "101")]).await.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn readers_share_and_a_writer_is_alone() {
    let locks = Locks::in_memory();
    let layer =
        LockLayer::all(&locks, [LayerLock::rw_lock("catalogue"), LayerLock::permit("total", 3)]);
    let service = layer.layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(text("done"))));
    let ask = async |method: Method| {
        let request = Request::builder().method(method).body(()).unwrap();
        service.clone().oneshot(request).await.unwrap()
    };
    let readers = (ask(Method::GET).await, ask(Method::GET).await);
    assert_eq!([readers.0.status(), readers.1.status()], [StatusCode::OK; 2]);
    assert_eq!(ask(Method::PUT).await.status(), StatusCode::CONFLICT);
    drop(readers);
    let writer = ask(Method::PUT).await;
    assert_eq!(writer.status(), StatusCode::OK);
    assert_eq!(ask(Method::GET).await.status(), StatusCode::CONFLICT);
    assert_eq!(locks.inspect("total").await.unwrap().holders.len(), 1);
}

/// The handler has a handle of all, and the last of them is its current lease.
#[tokio::test]
async fn the_handler_sees_all_leases() {
    let locks = Locks::in_memory();
    let layer = LockLayer::all(&locks, [LayerLock::permit("z", 2), LayerLock::mutex("a")]);
    let service = layer.layer(service_fn(async |request: Request<()>| {
        let all = request.extensions().get::<LeaseSetHandle>().unwrap();
        assert!(all.is_held() && all.len() == 2 && all.remaining() > Duration::from_secs(20));
        assert!(all.iter().map(|lease| lease.key().name()).eq(["a", "z"]));
        assert!(all.fence("a").is_ok());
        assert!(matches!(all.fence("z"), Err(LockError::NotFenced { .. })));
        assert!(matches!(all.fence("b"), Err(LockError::InvalidOption { .. })));
        assert_eq!(LeaseHandle::current().unwrap().key().name(), "z");
        assert_eq!(request.extensions().get::<LeaseHandle>().unwrap().key().name(), "z");
        Ok::<_, Infallible>(text("done"))
    }));
    let response = service.oneshot(of("a")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

/// A handler that asks for one of them again would wait for itself.
#[tokio::test(start_paused = true)]
async fn a_handler_that_asks_for_one_of_them_again_is_told() {
    let locks = Locks::in_memory();
    let layer = LockLayer::all(&locks, [LayerLock::mutex("a"), LayerLock::mutex("b")]);
    let inner = locks.clone();
    let service = layer.layer(service_fn(move |_: Request<()>| {
        let inner = inner.clone();
        async move {
            for name in ["a", "b"] {
                let again = inner.mutex(name).lock().await.unwrap_err();
                let is_own = matches!(again, LockError::TimedOut { held_by_caller: true, .. });
                assert!(is_own, "{again}");
            }
            Ok::<_, Infallible>(text("done"))
        }
    }));
    assert_eq!(service.oneshot(of("a")).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_request_whose_set_is_lost_is_stopped() {
    let locks = Locks::in_memory();
    let begun = Arc::new(Notify::new());
    let service = limits(&locks).layer(service_fn({
        let begun = begun.clone();
        move |request: Request<()>| {
            let begun = begun.clone();
            async move {
                let all = request.extensions().get::<LeaseSetHandle>().unwrap().clone();
                begun.notify_one();
                let (key, reason) = all.lost().await;
                assert_eq!((key.name(), reason), ("total", LossReason::Forced));
                std::future::pending::<Result<Response<Later>, Infallible>>().await
            }
        }
    }));
    let running = tokio::spawn(service.oneshot(of("a")));
    begun.notified().await;
    let _forced = locks.force_release("total").await.unwrap();
    let response = running.await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(free(&locks, "a").await, (2, 3), "the other one is released");
}

#[tokio::test]
async fn a_request_that_is_dropped_leaves_nothing() {
    let locks = Locks::in_memory();
    let service = limits(&locks).layer(service_fn(async |_: Request<()>| {
        std::future::pending::<Result<Response<Later>, Infallible>>().await
    }));
    let running = tokio::spawn(service.oneshot(of("a")));
    while free(&locks, "a").await != (1, 2) {
        tokio::task::yield_now().await;
    }
    running.abort();
    assert!(running.await.is_err());
    assert_eq!(free(&locks, "a").await, (2, 3));
}

#[tokio::test(start_paused = true)]
async fn requests_pass_without_their_locks_while_the_store_is_away() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let calls = Arc::default();
    let service = limits(&locks).fail_open().layer(counting(&calls));
    faults.always(Fault::Unreachable);
    for nth in 1..=3 {
        let response = service.clone().oneshot(of("a")).await.unwrap();
        assert_eq!((response.status(), calls.load(Ordering::SeqCst)), (StatusCode::OK, nth));
    }
    let closed = limits(&locks).layer(counting(&calls)).oneshot(of("a")).await.unwrap();
    assert_eq!(closed.status(), StatusCode::SERVICE_UNAVAILABLE);
}

/// One name is one lock.
#[tokio::test]
async fn a_name_that_is_given_twice_is_the_servers_mistake() {
    let locks = Locks::in_memory();
    let a = || key_by(|_| Some("a"));
    let layer = LockLayer::all(&locks, [LayerLock::mutex(a()), LayerLock::permit(a(), 2)]);
    let response = layer.layer(counting(&Arc::default())).oneshot(of("a")).await.unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
}

#[test]
#[should_panic(expected = "a layer has 1 to 64 locks, not 0")]
fn a_layer_without_locks_panics_at_start() {
    let _ = LockLayer::all(&Locks::in_memory(), []);
}

#[test]
#[should_panic(expected = "two of its locks have the name `limits:{1}:a`")]
fn a_name_that_is_given_twice_panics_at_start() {
    let name = || LockKey::new("limits:{1}:a").unwrap();
    let twice = [LayerLock::permit(name(), 1), LayerLock::permit(name(), 2)];
    let _ = LockLayer::all(&Locks::in_memory(), twice);
}

#[test]
#[should_panic(expected = "`tenant:{header:a}:5-in-1s` and `tenant:{header:a}:100-in-3600s`")]
fn two_rates_of_one_key_panic_at_start() {
    let rate = |rate| LayerLock::rate(template_key("tenant:{header:a}"), rate);
    let _ =
        LockLayer::all(&Locks::in_memory(), [Rate::per_second(5), Rate::per_hour(100)].map(rate));
}

#[test]
#[should_panic(expected = "two of its locks have the name `{a}`")]
fn a_template_that_is_given_twice_panics_at_start() {
    let twice = [1, 2].map(|limit| LayerLock::permit(path_key("{a}"), limit));
    let _ = LockLayer::all(&Locks::in_memory(), twice);
}

/// A lock and a rate may have one name.
#[test]
fn a_lock_and_a_rate_of_one_template_do_not_panic() {
    let key = || template_key("tenant:{header:a}");
    let one = Rate::per_second(1);
    let both = [LayerLock::mutex(key()), LayerLock::rate(key(), one), LayerLock::mutex(key())];
    let _ = LockLayer::all(&Locks::in_memory(), both);
}

#[test]
#[should_panic(expected = "write `path_key(\"tenant:{id}\")`")]
fn a_name_that_looks_like_a_template_panics_at_start() {
    let _ = LayerLock::permit("tenant:{id}", 1);
}

#[test]
#[should_panic(expected = "`once` is for mutexes")]
fn a_set_can_not_succeed_once() {
    let _ = limits(&Locks::in_memory()).once(Duration::from_secs(1));
}
