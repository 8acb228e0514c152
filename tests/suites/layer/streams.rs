//! Server-sent events and web sockets over real connections: what ends the lease.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::extract::ws::{Message as Text, WebSocket, WebSocketUpgrade};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::{SinkExt, Stream, StreamExt, stream};
use http::{Request, StatusCode};
use leasehold::layer::HoldUntil;
use leasehold::{Lease, LeaseHandle, LockError, LockLayer, Locks, LossReason};
use leasehold_tests::logs::LogRecorder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};
use tower::{Layer, ServiceExt, service_fn};
use tracing::Level;

use super::is_free;

/// Longer than a test takes that passes.
const LONG: Duration = Duration::from_secs(20);

/// Serves an app on a port of its own.
async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// Waits until the lock is free.
async fn until_free(locks: &Locks, key: &str) -> Lease {
    locks.mutex(key).wait(LONG).lock().await.expect("it is freed")
}

type Events = mpsc::UnboundedReceiver<&'static str>;

fn stream_of(events: Events) -> impl Stream<Item = Result<Event, Infallible>> {
    let next = async |mut events: Events| {
        let text = events.recv().await?;
        Some((Ok(Event::default().data(text)), events))
    };
    stream::unfold(events, next)
}

/// A route of events under a mutex. The sender says what is sent; the stream ends when it is
/// dropped, and, if it is to, when its lock is lost.
async fn events(
    locks: &Locks,
    ends_with_its_lock: bool,
) -> (mpsc::UnboundedSender<&'static str>, reqwest::Response) {
    let (sender, events) = mpsc::unbounded_channel();
    let events = Arc::new(Mutex::new(Some(events)));
    let handler = async move |lease: LeaseHandle| -> Response {
        let events = stream_of(events.lock().unwrap().take().expect("one request"));
        if ends_with_its_lock {
            return Sse::new(events.take_until(async move { lease.lost().await })).into_response();
        }
        Sse::new(events).into_response()
    };
    let layer = LockLayer::mutex(locks, "events");
    let app = Router::new().route("/", get(handler).route_layer(layer));
    let address = serve(app).await;
    let mut response = reqwest::get(format!("http://{address}/")).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    sender.send("one").unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "data: one\n\n");
    assert!(!is_free(locks, "events").await, "an open stream holds its lock");
    (sender, response)
}

#[tokio::test]
async fn the_end_of_the_events_frees_the_lock() {
    let locks = Locks::in_memory();
    let (sender, mut response) = events(&locks, false).await;
    drop(sender);
    assert_eq!(response.chunk().await.unwrap(), None);
    drop(until_free(&locks, "events").await);
}

/// Even if no event is sent: the HTTP server sees that the connection was closed.
#[tokio::test]
async fn a_client_that_closes_its_stream_of_events_frees_the_lock() {
    let locks = Locks::in_memory();
    let (sender, response) = events(&locks, false).await;
    drop(response);
    drop(until_free(&locks, "events").await);
    sender.closed().await;
}

#[tokio::test]
async fn events_go_on_without_a_lock_that_is_lost() {
    let locks = Locks::in_memory();
    let (sender, mut response) = events(&locks, false).await;
    let _ = locks.force_release("events").await.unwrap();
    let _next = until_free(&locks, "events").await;
    sender.send("two").unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "data: two\n\n");
}

#[tokio::test]
async fn events_that_watch_their_lease_end_with_it() {
    let locks = Locks::in_memory();
    let (sender, mut response) = events(&locks, true).await;
    let _ = locks.force_release("events").await.unwrap();
    assert_eq!(response.chunk().await.unwrap(), None, "the server ended the stream");
    sender.closed().await;
}

async fn connect(address: SocketAddr) -> WebSocketStream<TcpStream> {
    let stream = TcpStream::connect(address).await.unwrap();
    client_async(format!("ws://{address}/"), stream).await.expect("it is upgraded").0
}

/// Sends back what it receives, until the client closes the socket.
async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if !matches!(message, Text::Text(_)) || socket.send(message).await.is_err() {
            return;
        }
    }
}

async fn assert_open(socket: &mut WebSocketStream<TcpStream>) {
    socket.send(Message::text("hello")).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("hello"));
}

/// The status of an upgrade that is refused.
async fn refused(address: SocketAddr) -> StatusCode {
    let stream = TcpStream::connect(address).await.unwrap();
    let refused = client_async(format!("ws://{address}/"), stream).await.unwrap_err();
    let tokio_tungstenite::tungstenite::Error::Http(refused) = refused else { panic!("{refused}") };
    refused.status()
}

/// The warning of an upgrade that goes on without its lock.
const WITHOUT: &str = "an upgraded connection goes on without its lock";

#[tokio::test]
async fn an_upgrade_whose_handler_drops_its_handle_is_released_and_warned_of_once() {
    let (log, _guard) = LogRecorder::start(Level::WARN);
    let locks = Locks::in_memory();
    let handler = async |_lease: LeaseHandle, upgrade: WebSocketUpgrade| upgrade.on_upgrade(echo);
    let layer = LockLayer::mutex(&locks, "socket");
    let address = serve(Router::new().route("/", get(handler).route_layer(layer))).await;
    let mut socket = connect(address).await;
    assert_open(&mut socket).await;
    let next = until_free(&locks, "socket").await;
    assert_open(&mut socket).await;
    let said = log.text();
    assert!(said.contains(WITHOUT) && said.contains("lock=\"socket\""), "{said}");

    assert_eq!(refused(address).await, StatusCode::CONFLICT, "the upgrade itself is locked");
    drop(next);
    let _second = connect(address).await;
    drop(until_free(&locks, "socket").await);
    assert_eq!(log.text().matches(WITHOUT).count(), 1, "{}", log.text());
}

#[tokio::test]
async fn with_hold_until_head_an_upgrade_ends_the_lease_without_a_warning() {
    let (log, _guard) = LogRecorder::start(Level::WARN);
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "socket").hold_until(HoldUntil::Head);
    let address = serve(Router::new().route("/", get(counted).route_layer(layer))).await;
    let mut socket = connect(address).await;
    assert!(is_free(&locks, "socket").await, "although its handle is kept");
    assert_open(&mut socket).await;
    assert_eq!(log.text(), "");
}

/// What the guide says to do for a layer that counts open sockets.
async fn counted(lease: LeaseHandle, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async move |socket| {
        tokio::select! {
            () = echo(socket) => {}
            _ = lease.lost() => {}
        }
    })
}

/// The same with the handle that functions find.
async fn counted_deep_inside(upgrade: WebSocketUpgrade) -> Response {
    let lease = LeaseHandle::current().unwrap();
    upgrade.on_upgrade(async move |socket| {
        echo(socket).await;
        drop(lease);
    })
}

#[tokio::test]
async fn a_kept_handle_holds_the_permit_until_its_socket_is_closed() {
    let (log, _guard) = LogRecorder::start(Level::WARN);
    for route in [get(counted), get(counted_deep_inside)] {
        let locks = Locks::in_memory();
        let one = LockLayer::semaphore(&locks, "sockets", 1);
        let address = serve(Router::new().route("/", route.route_layer(one))).await;
        for _ in 0..2 {
            let mut socket = connect(address).await;
            assert_open(&mut socket).await;
            assert_eq!(refused(address).await, StatusCode::TOO_MANY_REQUESTS);
            assert_open(&mut socket).await;
            drop(socket);
            drop(locks.semaphore("sockets", 1).wait(LONG).acquire().await.expect("it is freed"));
        }
    }
    assert_eq!(log.text(), "");
}

#[tokio::test]
async fn a_kept_handle_learns_that_its_lease_is_lost() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "socket");
    let address = serve(Router::new().route("/", get(counted).route_layer(layer))).await;
    let mut socket = connect(address).await;
    assert_open(&mut socket).await;
    let _ = locks.force_release("socket").await.unwrap();
    let end = socket.next().await.expect("the server has dropped it");
    assert!(end.is_err(), "{end:?}");
}

/// The outer layer's handle is not in reach of the handler.
#[tokio::test]
async fn the_handle_of_the_inner_layer_keeps_the_leases_of_both() {
    let locks = Locks::in_memory();
    let (inner, outer) = (LockLayer::mutex(&locks, "inner"), LockLayer::mutex(&locks, "outer"));
    let route = get(counted).route_layer(inner).route_layer(outer);
    let address = serve(Router::new().route("/", route)).await;
    let mut socket = connect(address).await;
    assert_open(&mut socket).await;
    assert!(!is_free(&locks, "inner").await);
    assert!(!is_free(&locks, "outer").await);
    drop(socket);
    drop(until_free(&locks, "inner").await);
    drop(until_free(&locks, "outer").await);
}

/// Opens a tunnel, whose response is a plain success. Returns what its handler has.
async fn open_tunnel(layer: LockLayer<&'static str>) -> LeaseHandle {
    let (sender, mut handles) = mpsc::unbounded_channel();
    let service = service_fn(move |request: Request<()>| {
        let handle = request.extensions().get::<LeaseHandle>().unwrap().clone();
        sender.send(handle).unwrap();
        async { Ok::<_, Infallible>(http::Response::new(String::new())) }
    });
    let request = Request::connect("there:443").body(()).unwrap();
    let response = layer.layer(service).oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    handles.recv().await.unwrap()
}

#[tokio::test]
async fn a_tunnel_is_an_upgrade_and_is_done_when_its_handle_is_dropped() {
    let locks = Locks::in_memory();
    let handle = open_tunnel(LockLayer::mutex(&locks, "tunnel").once(LONG)).await;
    assert!(handle.is_held());
    let tunnel = locks.mutex("tunnel").once(LONG);
    assert!(tunnel.try_lock().await.is_err_and(|error| error.is_held_by_another()));
    drop(handle);
    let ended = tunnel.wait(LONG).lock().await.map(drop);
    assert!(ended.as_ref().is_err_and(LockError::is_done), "{ended:?}");
}

/// It was cut off, while the store still had its lease.
#[tokio::test(start_paused = true)]
async fn a_tunnel_that_loses_its_lease_is_not_done() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "tunnel").once(LONG).max_hold(LONG / 2);
    let handle = open_tunnel(layer).await;
    assert_eq!(handle.lost().await, LossReason::MaxHold);
    drop(handle);
    let next = locks.mutex("tunnel").once(LONG).wait(LONG).lock().await;
    assert!(next.is_ok(), "{next:?}");
}

/// What the guide says to do for a lock that is held as long as the socket is open.
async fn under_a_lock(State(locks): State<Locks>, upgrade: WebSocketUpgrade) -> Response {
    match locks.mutex("socket").try_lock().await {
        Ok(lease) => upgrade.on_upgrade(async move |socket| {
            let _ = lease.run(echo(socket)).await;
            let _ = lease.release().await;
        }),
        Err(_) => StatusCode::CONFLICT.into_response(),
    }
}

#[tokio::test]
async fn a_lease_that_is_moved_into_the_socket_is_held_until_it_closes() {
    let locks = Locks::in_memory();
    let app = Router::new().route("/", get(under_a_lock)).with_state(locks.clone());
    let address = serve(app).await;
    let mut socket = connect(address).await;
    assert_open(&mut socket).await;
    assert!(!is_free(&locks, "socket").await);
    drop(socket);
    drop(until_free(&locks, "socket").await);

    let mut socket = connect(address).await;
    assert_open(&mut socket).await;
    let _ = locks.force_release("socket").await.unwrap();
    let end = socket.next().await.expect("the server has dropped it");
    assert!(end.is_err(), "{end:?}");
}
