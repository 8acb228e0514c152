//! Layers with rates, alone and beside locks.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use leasehold::layer::{LayerLock, Refusal, key_by, template_key};
use leasehold::{Fault, LeaseHandle, LeaseSetHandle, LockLayer, Locks, Rate};
use tokio::time::Instant;
use tower::{Layer, ServiceExt, service_fn};

use super::{ask, counting, problem, text};

const SECOND: Duration = Duration::from_secs(1);

/// Two at once, and one more after 400 ms.
const RATE: Rate = Rate::new(5, Duration::from_secs(2)).burst(2);

fn field<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_request_beyond_the_rate_is_told_when_to_come_again() {
    let locks = Locks::in_memory();
    let layer = LockLayer::rate(&locks, template_key("user:{header:x-user}"), RATE);
    let service = layer.layer(counting(&Arc::default()));
    let ask = async |user: &str| {
        let request = Request::get("/").header("x-user", user).body(()).unwrap();
        service.clone().oneshot(request).await.unwrap()
    };
    for left in [1, 0] {
        let response = ask("ann").await;
        assert_eq!(response.status(), StatusCode::OK);
        let headers = response.headers();
        assert_eq!(field(headers, "ratelimit-policy"), r#""user:{header:x-user}";q=5;w=2"#);
        let told = format!(r#""user:{{header:x-user}}";r={left};t=1"#);
        assert_eq!(field(headers, "ratelimit"), told);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "done");
    }
    assert_eq!(ask("bob").await.status(), StatusCode::OK, "it has a rate of its own");
    let refused = ask("ann").await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(field(refused.headers(), "retry-after"), "1");
    assert_eq!(field(refused.headers(), "ratelimit"), r#""user:{header:x-user}";r=0;t=1"#);
    let problem = problem(refused).await;
    assert_eq!(problem["retry_after_ms"], 400);
    assert_eq!(problem["lock"], "user:{header:x-user}");
    // It is true.
    tokio::time::advance(Duration::from_millis(399)).await;
    assert_eq!(ask("ann").await.status(), StatusCode::TOO_MANY_REQUESTS);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(ask("ann").await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_its_turn_if_that_comes_in_time() {
    let layer = LockLayer::rate(&Locks::in_memory(), "r", RATE).wait(SECOND / 2);
    let begun = Instant::now();
    let waits = async || ask(&layer, "/").await.status();
    let all = tokio::join!(waits(), waits(), waits(), waits());
    let refused = StatusCode::TOO_MANY_REQUESTS;
    assert_eq!(all, (StatusCode::OK, StatusCode::OK, StatusCode::OK, refused));
    assert!(begun.elapsed() >= Duration::from_millis(400), "{:?}", begun.elapsed());
    assert!(begun.elapsed() <= SECOND / 2 + SECOND / 100, "{:?}", begun.elapsed());
}

/// Nothing is held, so there is no lease.
#[tokio::test]
async fn a_handler_under_a_rate_has_no_lease() {
    let layer = LockLayer::rate(&Locks::in_memory(), "r", Rate::per_second(10));
    let service = layer.layer(service_fn(async |request: Request<()>| {
        assert!(request.extensions().get::<LeaseHandle>().is_none());
        let set = request.extensions().get::<LeaseSetHandle>();
        assert!(set.is_none_or(LeaseSetHandle::is_empty));
        assert!(LeaseHandle::current().is_none() && LeaseSetHandle::current().is_none());
        Ok::<_, Infallible>(text("done"))
    }));
    let response = service.oneshot(Request::new(())).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_rate_stands_beside_locks() {
    let locks = Locks::in_memory();
    let layer = LockLayer::all(
        &locks,
        [
            LayerLock::permit("acme", 2),
            LayerLock::rate("acme", RATE).label("requests"),
            LayerLock::rate("spent", Rate::per_minute(100)).label("tokens").weight_by(|parts| {
                parts.headers.get("x-tokens")?.to_str().ok()?.parse::<u32>().ok()
            }),
        ],
    );
    let calls = Arc::new(AtomicUsize::new(0));
    let service = layer.layer(counting(&calls));
    let ask = async |tokens: &str| {
        let request = Request::get("/").header("x-tokens", tokens).body(()).unwrap();
        service.clone().oneshot(request).await.unwrap()
    };
    let first = ask("30").await;
    let told: Vec<_> = first.headers().get_all("ratelimit").iter().collect();
    assert_eq!(told, [r#""requests";r=1;t=1"#, r#""tokens";r=70;t=18"#]);
    let refused = ask("80").await;
    assert_eq!(field(refused.headers(), "ratelimit"), r#""tokens";r=0;t=6"#);
    assert_eq!(problem(refused).await["lock"], "tokens");
    assert_eq!(ask("101").await.status(), StatusCode::BAD_REQUEST, "it never has room for that");
    // The refused request has taken of nothing.
    assert_eq!(locks.rate("acme", RATE).try_acquire().await.unwrap().remaining(), 0);
    let refused = ask("1").await;
    assert_eq!(problem(refused).await["lock"], "requests");
    assert_eq!(locks.inspect("acme").await.unwrap().holders.len(), 1);
    drop(first);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_plan_has_its_own_rate() {
    #[derive(Clone)]
    struct Plan(Rate);
    let of_user = LayerLock::rate(key_by(|_| Some("ann".to_owned())), RATE)
        .rate_by(|parts| parts.extensions.get::<Plan>().map(|plan| plan.0));
    let layer = LockLayer::all(&Locks::in_memory(), [of_user]);
    let service = layer.layer(counting(&Arc::default()));
    let ask = async |plan: Option<Plan>| {
        let mut request = Request::new(());
        plan.map(|plan| request.extensions_mut().insert(plan));
        service.clone().oneshot(request).await.unwrap().status()
    };
    let paid = || Some(Plan(Rate::new(5, 2 * SECOND).burst(4)));
    for _ in 0..2 {
        assert_eq!(ask(None).await, StatusCode::OK);
    }
    assert_eq!(ask(None).await, StatusCode::TOO_MANY_REQUESTS);
    for _ in 0..2 {
        assert_eq!(ask(paid()).await, StatusCode::OK);
    }
    assert_eq!(ask(paid()).await, StatusCode::TOO_MANY_REQUESTS);
    let bad = Some(Plan(Rate::per_second(0)));
    assert_eq!(ask(bad).await, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test(start_paused = true)]
async fn an_own_answer_knows_the_rate() {
    let layer = LockLayer::rate(&Locks::in_memory(), "r", Rate::per_hour(1)).on_refused(
        async |refusal, _| {
            assert!(matches!(refusal, Refusal::RateLimited(_)), "{refusal:?}");
            assert_eq!(refusal.retry_after(), Some(60 * 60 * SECOND));
            Response::builder().status(StatusCode::IM_A_TEAPOT).body("").unwrap()
        },
    );
    assert_eq!(ask(&layer, "/").await.status(), StatusCode::OK);
    assert_eq!(ask(&layer, "/").await.status(), StatusCode::IM_A_TEAPOT);
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_fails_open_lets_requests_pass_while_the_store_is_away() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let open = LockLayer::rate(&locks, "r", Rate::per_hour(1)).fail_open();
    let closed = LockLayer::rate(&locks, "r", Rate::per_hour(1));
    assert_eq!(ask(&open, "/").await.status(), StatusCode::OK);
    assert_eq!(ask(&open, "/").await.status(), StatusCode::TOO_MANY_REQUESTS);
    faults.always(Fault::Unreachable);
    assert_eq!(ask(&closed, "/").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    for _ in 0..3 {
        let response = ask(&open, "/").await;
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.headers().get("ratelimit").is_none(), "nobody knows it");
    }
    faults.heal();
    tokio::time::sleep(10 * SECOND).await;
    ask(&open, "/").await;
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(ask(&open, "/").await.status(), StatusCode::TOO_MANY_REQUESTS);
}
