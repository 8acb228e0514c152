//! The Tower layer: what is locked and for how long, and what is refused.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Path;
use axum::routing::{get, put};
use axum::{Router, middleware};
use bytes::Bytes;
use futures_util::{FutureExt, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use leasehold::tower::{LeaseBody, Refusal, RequestKey, key_by};
use leasehold::{KeyTemplate, LeaseHandle, LockError, LockKey, LockLayer, Locks, path_key};
use serde_json::Value;
use tokio::time::{advance, sleep, timeout};
use tower::{Layer, Service, ServiceExt, service_fn};

fn text(text: &'static str) -> Response<Full<Bytes>> {
    Response::new(Full::new(Bytes::from_static(text.as_bytes())))
}

fn request(path: &str) -> Request<()> {
    Request::builder().uri(path).body(()).unwrap()
}

async fn is_free(locks: &Locks, key: &str) -> bool {
    locks.mutex(key).try_lock().await.is_ok()
}

/// A service that counts its calls.
fn counting(
    calls: &Arc<AtomicUsize>,
) -> impl Service<
    Request<()>,
    Response = Response<Full<Bytes>>,
    Error = Infallible,
    Future: Send + 'static,
> + Clone
+ Send
+ use<> {
    let calls = calls.clone();
    service_fn(move |_: Request<()>| {
        calls.fetch_add(1, Ordering::SeqCst);
        async { Ok(text("done")) }
    })
}

/// Sends a request to a service that says "done", through the layer.
async fn ask(layer: &LockLayer<impl RequestKey>, path: &str) -> Response<LeaseBody<Full<Bytes>>> {
    layer.layer(counting(&Arc::default())).oneshot(request(path)).await.unwrap()
}

async fn problem<B>(response: Response<B>) -> Value
where
    B: http_body::Body<Error: std::fmt::Debug>,
{
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let problem: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(problem["status"], status.as_u16());
    assert_eq!(problem["title"], status.canonical_reason().unwrap());
    problem
}

fn retry_after<B>(response: &Response<B>) -> u64 {
    response.headers()["retry-after"].to_str().unwrap().parse().unwrap()
}

mod refusals {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_held_mutex_is_409_with_the_real_remaining_time() {
        let locks = Locks::in_memory();
        let _lease = locks.mutex("a").ttl(Duration::from_secs(20)).lock().await.unwrap();
        advance(Duration::from_millis(2500)).await;

        let response = ask(&LockLayer::mutex(&locks, "a"), "/").await;
        assert_eq!(response.status(), StatusCode::CONFLICT);
        assert_eq!(retry_after(&response), 18, "17.5 s, rounded up");
        let problem = problem(response).await;
        assert_eq!(problem["retry_after"], 18);
        assert!(problem["detail"].as_str().unwrap().contains("Another request holds the lock"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_semaphore_is_429() {
        let locks = Locks::in_memory();
        let layer = LockLayer::semaphore(&locks, "a", 2).ttl(Duration::from_millis(700));
        let first = ask(&layer, "/").await;
        let second = ask(&layer, "/").await;
        assert_eq!((first.status(), second.status()), (StatusCode::OK, StatusCode::OK));

        let third = ask(&layer, "/").await;
        assert_eq!(third.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(retry_after(&third), 1, "at least 1");
        assert_eq!(problem(third).await["retry_after"], 1);

        drop(first);
        assert_eq!(ask(&layer, "/").await.status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn a_refused_request_never_calls_the_inner_service() {
        let locks = Locks::in_memory();
        let calls = Arc::default();
        let service = LockLayer::mutex(&locks, "a").layer(counting(&calls));
        let bad =
            LockLayer::mutex(&locks, key_by(|_| Err::<String, _>("no"))).layer(counting(&calls));

        let lease = locks.mutex("a").lock().await.unwrap();
        let response = service.clone().oneshot(request("/")).await.unwrap();
        assert_eq!(response.status(), StatusCode::CONFLICT);
        assert_eq!(bad.oneshot(request("/")).await.unwrap().status(), StatusCode::BAD_REQUEST);
        assert_eq!(calls.load(Ordering::SeqCst), 0);

        lease.release().await.unwrap();
        assert_eq!(service.oneshot(request("/")).await.unwrap().status(), StatusCode::OK);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn no_refusal_names_the_lock() {
        let locks = Locks::in_memory();
        let _lease = locks.mutex("personal").lock().await.unwrap();
        let _permit = locks.semaphore("personal permits", 1).acquire().await.unwrap();
        for response in [
            ask(&LockLayer::mutex(&locks, "personal"), "/").await,
            ask(&LockLayer::semaphore(&locks, "personal", 1), "/").await,
            ask(&LockLayer::semaphore(&locks, "personal permits", 1), "/").await,
            ask(&LockLayer::mutex(&locks, "personal\n"), "/").await,
        ] {
            assert!(response.status() != StatusCode::OK);
            let problem = problem(response).await.to_string();
            assert!(!problem.contains("personal"), "{problem}");
        }
    }

    #[tokio::test]
    async fn the_servers_own_mistakes_are_500() {
        let locks = Locks::in_memory();
        let _lease = locks.mutex("a").lock().await.unwrap();
        for layer in [
            LockLayer::semaphore(&locks, "a", 1),
            LockLayer::semaphore(&locks, "b", 0),
            LockLayer::mutex(&locks, "b").ttl(Duration::ZERO),
        ] {
            let response = ask(&layer, "/").await;
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
            assert!(!response.headers().contains_key("retry-after"));
            problem(response).await;
        }
    }

    #[tokio::test]
    async fn answers_of_ones_own_replace_the_built_in_ones() {
        let locks = Locks::in_memory();
        let layer = LockLayer::mutex(&locks, key_by(|parts| LockKey::new(parts.uri.path())))
            .on_refused(|refusal| {
                let Refusal::Held(LockError::Busy { key, .. }) = refusal else {
                    return refusal.to_response().map(Vec::from);
                };
                let mut response = Response::new(key.name().into());
                *response.status_mut() = StatusCode::LOCKED;
                response
            });
        let _lease = locks.mutex("/a").lock().await.unwrap();
        let response = ask(&layer, "/a").await;
        assert_eq!(response.status(), StatusCode::LOCKED);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "/a");

        let too_long = ask(&layer, &format!("/{}", "x".repeat(600))).await;
        assert_eq!(too_long.status(), StatusCode::BAD_REQUEST);
        problem(too_long).await;
    }
}

mod keys {
    use super::*;

    #[tokio::test]
    async fn none_passes_without_a_lock() {
        let locks = Locks::in_memory();
        let by_path = key_by(|parts| {
            parts
                .uri
                .path()
                .strip_prefix("/locked/")
                .map(|name| KeyTemplate::new().part("name", name).finish())
        });
        let service = LockLayer::mutex(&locks, by_path).layer(service_fn(
            |request: Request<()>| async move {
                assert_eq!(
                    request.uri().path().starts_with("/locked"),
                    request.extensions().get::<LeaseHandle>().is_some(),
                );
                Ok::<_, Infallible>(text("done"))
            },
        ));
        let _lease = locks.mutex("a").lock().await.unwrap();
        for (path, status) in [
            ("/", StatusCode::OK),
            ("/locked/b", StatusCode::OK),
            ("/locked/a", StatusCode::CONFLICT),
        ] {
            let response = service.clone().oneshot(request(path)).await.unwrap();
            assert_eq!(response.status(), status, "{path}");
        }
    }

    #[tokio::test]
    async fn a_key_that_cannot_be_made_is_400_and_says_why() {
        let locks = Locks::in_memory();
        let calls = Arc::default();
        let answer = async |key: Result<Option<&'static str>, &'static str>| {
            let layer = LockLayer::mutex(&locks, key_by(move |_| key)).fail_open();
            let response = layer.layer(counting(&calls)).oneshot(request("/")).await.unwrap();
            assert_eq!(response.status(), StatusCode::BAD_REQUEST);
            problem(response).await["detail"].as_str().unwrap().to_owned()
        };
        assert!(
            answer(Err("the header x-tenant is missing")).await.contains("x-tenant is missing")
        );
        assert!(answer(Ok(Some(""))).await.contains("it is empty"));
        assert_eq!(calls.load(Ordering::SeqCst), 0, "not even fail-open runs it unlocked");
    }
}

mod holding {
    use super::*;

    #[tokio::test]
    async fn the_lock_is_held_until_the_body_ends() {
        let locks = Locks::in_memory();
        let service = LockLayer::mutex(&locks, "a").layer(service_fn(async |_: Request<()>| {
            let frames = ["a", "b"].map(|text| Ok::<_, Infallible>(Frame::data(Bytes::from(text))));
            Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter(frames))))
        }));
        let mut body = service.oneshot(request("/")).await.unwrap().into_body();
        for text in ["a", "b"] {
            assert!(!is_free(&locks, "a").await);
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), text);
        }
        assert!(!is_free(&locks, "a").await);
        assert!(body.frame().await.is_none());
        assert!(is_free(&locks, "a").await, "released at the end, not at the drop");
        drop(body);
    }

    #[tokio::test]
    async fn a_body_that_is_dropped_midway_releases() {
        let locks = Locks::in_memory();
        let service = LockLayer::mutex(&locks, "a").layer(service_fn(async |_: Request<()>| {
            let frames = || Ok::<_, Infallible>(Frame::data(Bytes::from("a")));
            Ok::<_, Infallible>(Response::new(StreamBody::new(stream::repeat_with(frames))))
        }));
        let mut body = service.oneshot(request("/")).await.unwrap().into_body();
        body.frame().await.unwrap().unwrap();
        assert!(!is_free(&locks, "a").await);
        drop(body);
        assert!(is_free(&locks, "a").await);
    }

    #[tokio::test]
    async fn a_body_that_fails_releases() {
        let locks = Locks::in_memory();
        let service = LockLayer::mutex(&locks, "a").layer(service_fn(async |_: Request<()>| {
            let frames = [Ok(Frame::data(Bytes::from("a"))), Err("broken")];
            Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter(frames))))
        }));
        let mut body = service.oneshot(request("/")).await.unwrap().into_body();
        body.frame().await.unwrap().unwrap();
        assert!(!is_free(&locks, "a").await);
        assert_eq!(body.frame().await.unwrap().unwrap_err(), "broken");
        assert!(is_free(&locks, "a").await);
    }

    #[tokio::test]
    async fn an_answer_without_a_body_releases_at_once() {
        let locks = Locks::in_memory();
        let service = LockLayer::mutex(&locks, "a").layer(service_fn(async |_: Request<()>| {
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }));
        let response = service.oneshot(request("/")).await.unwrap();
        assert!(is_free(&locks, "a").await, "a server does not poll the body of a 204");
        drop(response);
    }

    #[tokio::test]
    async fn axum_drops_the_body_of_a_head_and_so_releases() {
        let locks = Locks::in_memory();
        let layer = LockLayer::mutex(&locks, "a");
        let app = Router::new().route("/", get(async || "a page").layer(layer));
        let head = Request::head("/").body(Body::empty()).unwrap();
        let response = app.oneshot(head).await.unwrap();
        assert_eq!(response.headers()["content-length"], "6", "the size hint came through");
        assert!(is_free(&locks, "a").await);
        drop(response);
    }

    #[tokio::test]
    async fn an_error_of_the_inner_service_passes_and_releases() {
        let locks = Locks::in_memory();
        let service = LockLayer::mutex(&locks, "a")
            .layer(service_fn(async |_: Request<()>| Err::<Response<Empty<Bytes>>, _>("broken")));
        assert_eq!(service.oneshot(request("/")).await.unwrap_err(), "broken");
        assert!(is_free(&locks, "a").await);
    }

    #[tokio::test]
    async fn a_panic_of_the_handler_releases() {
        let locks = Locks::in_memory();
        let service =
            LockLayer::mutex(&locks, "a").layer(service_fn(async |request: Request<()>| {
                assert_eq!(request.uri().path(), "/never", "the handler panics");
                Ok::<_, Infallible>(text("never"))
            }));
        let task = tokio::spawn(service.oneshot(request("/")));
        assert!(task.await.unwrap_err().is_panic());
        assert!(is_free(&locks, "a").await);
    }

    #[tokio::test]
    async fn a_client_that_goes_away_releases_after_its_handler_has_stopped() {
        struct Stopped(Locks);
        impl Drop for Stopped {
            fn drop(&mut self) {
                let is_free = is_free(&self.0, "a").now_or_never().unwrap();
                assert!(!is_free, "what the handler does when it is dropped is under the lock");
            }
        }

        let locks = Locks::in_memory();
        let inside = locks.clone();
        let service = LockLayer::mutex(&locks, "a").layer(service_fn(move |_: Request<()>| {
            let stopped = Stopped(inside.clone());
            async move {
                let _stopped = stopped;
                pending::<Result<Response<Empty<Bytes>>, Infallible>>().await
            }
        }));
        let gone = timeout(Duration::from_millis(20), service.oneshot(request("/")));
        assert!(gone.await.is_err());
        assert!(is_free(&locks, "a").await);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_renewed_for_as_long_as_the_handler_runs() {
        let locks = Locks::in_memory();
        let layer = LockLayer::mutex(&locks, "a").ttl(Duration::from_secs(1));
        let service = layer.layer(service_fn(async |request: Request<()>| {
            let lease = request.extensions().get::<LeaseHandle>().unwrap().clone();
            sleep(Duration::from_secs(10)).await;
            assert!(lease.is_held());
            Ok::<_, Infallible>(text("done"))
        }));
        assert_eq!(service.oneshot(request("/")).await.unwrap().status(), StatusCode::OK);
    }
}

mod losing {
    use super::*;

    /// The clock jumps past the deadline before a renewal was sent: to the
    /// lease it looks as if the process had stood still.
    const STANDSTILL: Duration = Duration::from_secs(31);

    #[tokio::test(start_paused = true)]
    async fn the_handler_is_cancelled_and_the_answer_is_503() {
        let locks = Locks::in_memory();
        let finished = Arc::new(AtomicUsize::default());
        let count = finished.clone();
        let service = LockLayer::mutex(&locks, "a").layer(service_fn(move |_: Request<()>| {
            let count = count.clone();
            async move {
                sleep(Duration::from_secs(20)).await;
                count.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Infallible>(text("done"))
            }
        }));
        let mut response = Box::pin(service.oneshot(request("/")));
        assert!(response.as_mut().now_or_never().is_none());
        advance(STANDSTILL).await;

        // The handler's own timer is over too: the deadline is looked at first.
        let response = response.await.unwrap();
        assert_eq!(finished.load(Ordering::SeqCst), 0);
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(!response.headers().contains_key("retry-after"));
        let problem = problem(response).await;
        assert!(problem["detail"].as_str().unwrap().contains("lost while the request ran"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pending_handler_is_woken_by_the_loss() {
        let locks = Locks::in_memory();
        let service = LockLayer::semaphore(&locks, "a", 1).layer(service_fn(|_: Request<()>| {
            pending::<Result<Response<Empty<Bytes>>, Infallible>>()
        }));
        let response = tokio::spawn(service.oneshot(request("/")));
        tokio::task::yield_now().await;
        advance(STANDSTILL).await;
        let response = timeout(Duration::from_millis(10), response).await.unwrap();
        assert_eq!(response.unwrap().unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    }

    #[tokio::test(start_paused = true)]
    async fn the_body_goes_on_and_the_handle_tells() {
        let locks = Locks::in_memory();
        let service =
            LockLayer::mutex(&locks, "a").layer(service_fn(async |request: Request<()>| {
                let lease = request.extensions().get::<LeaseHandle>().unwrap().clone();
                let mut response = text("done");
                response.extensions_mut().insert(lease);
                Ok::<_, Infallible>(response)
            }));
        let response = service.oneshot(request("/")).await.unwrap();
        let lease = response.extensions().get::<LeaseHandle>().unwrap().clone();
        advance(STANDSTILL).await;
        lease.lost().now_or_never().expect("it is lost");
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "done");
    }
}

mod waiting {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_queue_if_they_are_told_to() {
        let locks = Locks::in_memory();
        let layer = LockLayer::mutex(&locks, "a").wait(Duration::from_secs(5));
        let lease = locks.mutex("a").lock().await.unwrap();
        let release = async {
            sleep(Duration::from_secs(2)).await;
            lease.release().await.unwrap();
        };
        let (response, ()) = tokio::join!(ask(&layer, "/"), release);
        assert_eq!(response.status(), StatusCode::OK);

        // That response holds the lock now.
        let late = ask(&layer, "/").await;
        assert_eq!(late.status(), StatusCode::CONFLICT);
        assert_eq!(retry_after(&late), 1, "who waited in vain knows nothing better");
    }

    #[tokio::test]
    async fn a_client_that_goes_away_leaves_the_queue() {
        let locks = Locks::in_memory();
        let layer = LockLayer::mutex(&locks, "a").wait(Duration::from_secs(5));
        let lease = locks.mutex("a").lock().await.unwrap();
        let gone = timeout(Duration::from_millis(20), ask(&layer, "/")).await;
        assert!(gone.is_err());
        lease.release().await.unwrap();
        assert!(is_free(&locks, "a").await);
    }

    /// A service whose clones are not ready, as those of a concurrency limit.
    struct Once {
        is_ready: bool,
    }

    impl Clone for Once {
        fn clone(&self) -> Self {
            Self { is_ready: false }
        }
    }

    impl Service<Request<()>> for Once {
        type Response = Response<Full<Bytes>>;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            self.is_ready = true;
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<()>) -> Self::Future {
            assert!(self.is_ready, "called without being made ready");
            self.is_ready = false;
            std::future::ready(Ok(text("done")))
        }
    }

    #[tokio::test]
    async fn the_service_that_was_made_ready_is_the_one_that_is_called() {
        let locks = Locks::in_memory();
        let mut service = LockLayer::mutex(&locks, "a").layer(Once { is_ready: false });
        for _ in 0..2 {
            let response = service.ready().await.unwrap().call(request("/")).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
        }
    }
}

mod with_axum {
    use super::*;

    fn put_request(path: &str) -> Request<Body> {
        Request::put(path).body(Body::empty()).unwrap()
    }

    async fn status(app: &Router, path: &str) -> StatusCode {
        app.clone().oneshot(put_request(path)).await.unwrap().status()
    }

    async fn refusal(app: &Router, path: &str) -> String {
        let response = app.clone().oneshot(put_request(path)).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{path}");
        problem(response).await["detail"].as_str().unwrap().to_owned()
    }

    fn orders(locks: &Locks) -> Router {
        let layer = LockLayer::mutex(locks, path_key("order:{id}"));
        Router::new().route("/orders/{id}", put(async || "changed").route_layer(layer))
    }

    #[tokio::test]
    async fn the_paths_parameters_make_the_key() {
        let locks = Locks::in_memory();
        let app = orders(&locks);
        let _lease = locks.mutex("order:42").lock().await.unwrap();
        assert_eq!(status(&app, "/orders/42").await, StatusCode::CONFLICT);
        assert_eq!(status(&app, "/orders/%34%32").await, StatusCode::CONFLICT, "the same, encoded");
        assert_eq!(status(&app, "/orders/43").await, StatusCode::OK);
    }

    #[tokio::test]
    async fn a_value_cannot_name_another_lock() {
        let locks = Locks::in_memory();
        let layer = LockLayer::mutex(&locks, path_key("{a}:{b}"));
        let app = Router::new().route(
            "/{a}/{b}",
            put(async |lease: LeaseHandle| lease.key().name().to_owned()).layer(layer),
        );
        let mut keys = Vec::new();
        for path in
            ["/x:y/z", "/x/y:z", "/x%3Ay/z", "/x%2Fy/z", "/x%252Fy/z", "/x%7By%7D/z", "/x%20y/z"]
        {
            let response = app.clone().oneshot(put_request(path)).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK, "{path}");
            let key = response.into_body().collect().await.unwrap().to_bytes();
            keys.push(String::from_utf8(key.into()).unwrap());
        }
        assert_eq!(
            keys,
            ["x%3Ay:z", "x:y%3Az", "x%3Ay:z", "x/y:z", "x%252Fy:z", "x%7By%7D:z", "x%20y:z"],
        );
    }

    #[tokio::test]
    async fn a_slash_in_a_value_is_not_the_paths() {
        let locks = Locks::in_memory();
        let app = orders(&locks);
        let _lease = locks.mutex("order:a/b").lock().await.unwrap();
        assert_eq!(status(&app, "/orders/a%2Fb").await, StatusCode::CONFLICT);
        assert_eq!(status(&app, "/orders/a").await, StatusCode::OK);
        assert_eq!(status(&app, "/orders/a%252Fb").await, StatusCode::OK);
        assert_eq!(status(&app, "/orders/a/b").await, StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn a_parameter_that_the_route_does_not_have_is_400() {
        let locks = Locks::in_memory();
        let layer = LockLayer::mutex(&locks, path_key("order:{id}"));
        let handler = || put(async || "never");
        let app = Router::new()
            .route("/none", handler())
            .route("/{order_id}/other", handler())
            .route("/{id}/twice/{id}", handler())
            .route_layer(layer.clone());
        assert!(refusal(&app, "/none").await.contains("no parameter `{id}`"));
        assert!(refusal(&app, "/1/other").await.contains("no parameter `{id}`"));
        assert!(refusal(&app, "/1/twice/2").await.contains("`{id}` more than once"));
        assert_eq!(status(&app, "/nowhere/at/all/1").await, StatusCode::NOT_FOUND);

        let around = layer.layer(orders(&locks));
        let response = around.oneshot(put_request("/orders/1")).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        let problem = problem(response).await;
        assert!(problem["detail"].as_str().unwrap().contains("not on a route"));
    }

    #[tokio::test]
    async fn a_value_that_makes_no_key_is_400() {
        let app = orders(&Locks::in_memory());
        assert!(refusal(&app, "/orders/%ff").await.contains("UTF-8"));
        assert!(refusal(&app, &format!("/orders/{}", "x".repeat(600))).await.contains("512"));
        assert_eq!(status(&app, "/orders/%00").await, StatusCode::OK, "it is escaped");
    }

    #[tokio::test]
    async fn nested_routes_share_their_parameters() {
        let locks = Locks::in_memory();
        let layer = LockLayer::mutex(&locks, path_key("{tenant}:{path}"));
        let inner = Router::new().route("/files/{*path}", put(async || "put").layer(layer));
        let app = Router::new().nest("/tenants/{tenant}", inner);
        let _lease = locks.mutex("t:a/b").lock().await.unwrap();
        assert_eq!(status(&app, "/tenants/t/files/a/b").await, StatusCode::CONFLICT);
        assert_eq!(status(&app, "/tenants/u/files/a/b").await, StatusCode::OK);
    }

    #[tokio::test]
    async fn route_layer_leaves_alone_what_no_route_answers() {
        let locks = Locks::in_memory();
        let _lease = locks.mutex("order:1").lock().await.unwrap();
        let get = Request::get("/orders/1").body(Body::empty()).unwrap();
        let response = orders(&locks).oneshot(get).await.unwrap();
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    }

    #[tokio::test]
    async fn the_handler_finds_its_lease() {
        let locks = Locks::in_memory();
        let layer = LockLayer::mutex(&locks, path_key("order:{id}"));
        let handler = async |Path(id): Path<String>, lease: LeaseHandle| {
            assert!(lease.is_held());
            assert!(lease.fence().is_ok());
            assert_eq!(lease.key().name(), format!("order:{id}"));
        };
        let app = Router::new()
            .route("/orders/{id}", put(handler).layer(layer))
            .route("/free/{id}", put(handler))
            .route("/maybe", put(async |lease: Option<LeaseHandle>| assert!(lease.is_none())));
        assert_eq!(status(&app, "/orders/1").await, StatusCode::OK);
        assert_eq!(status(&app, "/maybe").await, StatusCode::OK);

        let response = app.oneshot(put_request("/free/1")).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let problem = problem(response).await;
        assert!(problem["detail"].as_str().unwrap().contains("no `LockLayer`"));
    }

    #[tokio::test]
    async fn several_layers_hold_several_locks() {
        let locks = Locks::in_memory();
        let inside = locks.clone();
        let handler = async move |lease: LeaseHandle| {
            assert!(!is_free(&inside, "inner").await && !is_free(&inside, "outer").await);
            assert_eq!(lease.key().name(), "inner");
        };
        let app = Router::new()
            .route("/", put(handler))
            .layer(LockLayer::mutex(&locks, "inner"))
            .layer(LockLayer::mutex(&locks, "outer"))
            .layer(middleware::map_response(async |response: axum::response::Response| response));
        assert_eq!(status(&app, "/").await, StatusCode::OK);
        assert!(is_free(&locks, "inner").await && is_free(&locks, "outer").await);
    }
}
