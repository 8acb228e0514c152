//! Who a request is: its owner and its note, as `inspect` shows them.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::{Request, Response, StatusCode};
use leasehold::layer::{Refusal, RequestKey};
use leasehold::{LockLayer, Locks};
use tower::{Layer, ServiceExt, service_fn};

use super::{counting, problem, text};

fn identified<K: RequestKey + 'static>(layer: LockLayer<K>) -> LockLayer<K> {
    let header = |name: &'static str| {
        move |parts: &http::request::Parts| Some(parts.headers.get(name)?.to_str().ok()?.to_owned())
    };
    layer.owner_by(header("x-user")).note_by(header("x-why"))
}

fn request(user: Option<&str>, why: Option<&str>) -> Request<()> {
    let mut request = Request::get("/");
    for (name, value) in [("x-user", user), ("x-why", why)] {
        request = value.into_iter().fold(request, |request, value| request.header(name, value));
    }
    request.body(()).unwrap()
}

#[tokio::test]
async fn inspection_shows_who_each_request_is() {
    let locks = Locks::in_memory();
    let done = || service_fn(async |_: Request<()>| Ok::<_, Infallible>(text("done")));
    for layer in [
        LockLayer::mutex(&locks, "a"),
        LockLayer::semaphore(&locks, "a", 1),
        LockLayer::rw_lock(&locks, "a"),
    ] {
        let service = identified(layer).layer(done());
        let name = "a".repeat(128);
        for (user, why) in [
            (Some("ann"), Some("import of May")),
            (Some(name.as_str()), None),
            (None, Some("a try")),
            (None, None),
        ] {
            let response: Response<_> = service.clone().oneshot(request(user, why)).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            let info = locks.inspect("a").await.unwrap();
            assert_eq!(info.holders[0].owner.as_deref(), user);
            assert_eq!(info.holders[0].note.as_deref(), why);
            drop(response);
            while locks.inspect("a").await.unwrap().held > 0 {
                tokio::task::yield_now().await;
            }
        }
    }
}

#[tokio::test]
async fn a_bad_owner_is_400_and_calls_nothing() {
    let locks = Locks::in_memory();
    for user in [String::new(), "x".repeat(129), "a\tb".to_owned()] {
        let calls = Arc::default();
        let layer =
            identified(LockLayer::mutex(&locks, "a")).fail_open().on_refused(async |refusal, _| {
                assert!(matches!(refusal, Refusal::NoOwner(_)), "{refusal:?}");
                refusal.to_response()
            });
        let asked = layer.layer(counting(&calls)).oneshot(request(Some(&user), None));
        let response = asked.await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{user:?}");
        let problem = problem(response).await;
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.starts_with("The request gives no name that can own a lock"), "{detail}");
        assert_eq!(calls.load(Ordering::SeqCst), 0);
    }
}

/// Two tabs of one user are no mistake of the service.
#[tokio::test]
async fn a_write_beside_reads_of_its_owner_is_a_conflict() {
    let locks = Locks::in_memory();
    let _other = locks.rw_lock("a").read().await.unwrap();
    let _mine = locks.rw_lock("a").owner("ann").read().await.unwrap();
    let layer = identified(LockLayer::rw_lock(&locks, "a"));
    let service = layer.layer(counting(&Arc::default()));
    let request = Request::put("/").header("x-user", "ann").body(()).unwrap();
    let response = service.oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert_eq!(response.headers()["retry-after"], "1");
}
