//! Uploads that wait for a lock: a client that closes its connection leaves the queue, and the handler
//! gets what was sent.

use std::future::pending;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::{MethodRouter, post};
use axum::serve::Listener;
use bytes::Bytes;
use http::Response;
use leasehold::layer::{LayerLock, RequestKey};
use leasehold::{LockLayer, Locks, Rate};
use leasehold_tests::tls::authority;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::until;

/// Longer than a test runs.
const WAIT: Duration = Duration::from_secs(600);

/// More than the largest of the bodies.
const ENOUGH: usize = 2 << 20;

/// How a body is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Sized,
    Chunked,
    Tls,
    Http2,
}

const WAYS: [Way; 4] = [Way::Sized, Way::Chunked, Way::Tls, Way::Http2];

/// A server, and how many of its requests go on.
struct Served {
    address: SocketAddr,
    tls: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Served {
    async fn start(route: MethodRouter) -> Self {
        let requests = Arc::<AtomicUsize>::default();
        let counter = requests.clone();
        let count = from_fn(move |request: Request, next: Next| {
            let one = Counted::new(&counter);
            async move {
                let answer = next.run(request).await;
                drop(one);
                answer
            }
        });
        let app = Router::new().route("/", route.layer(count));
        let (plain, tls) = (listener().await, listener().await);
        let (address, tls_address) = (plain.local_addr().unwrap(), tls.local_addr().unwrap());
        let tls = TlsListener { tcp: tls, acceptor: acceptor() };
        let same = app.clone();
        tokio::spawn(async move { axum::serve(plain, same).await });
        tokio::spawn(async move { axum::serve(tls, app).await });
        Self { address, tls: tls_address, requests }
    }

    fn count(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    async fn connect(&self, way: Way) -> Box<dyn Stream> {
        if way == Way::Tls {
            let tcp = TcpStream::connect(self.tls).await.unwrap();
            let name = ServerName::try_from("127.0.0.1").unwrap();
            return Box::new(connector().connect(name, tcp).await.unwrap());
        }
        Box::new(TcpStream::connect(self.address).await.unwrap())
    }

    /// Sends a body. Tells when all of it is on its way, and returns the answer.
    async fn send(&self, way: Way, body: Vec<u8>, sent: oneshot::Sender<()>) -> String {
        if way == Way::Http2 {
            let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
            let answer = client.post(format!("http://{}/", self.address)).body(body).send();
            let _ = sent.send(());
            return answer.await.unwrap().text().await.unwrap();
        }
        let mut stream = self.connect(way).await;
        let framing = match way {
            Way::Chunked => "transfer-encoding: chunked".to_owned(),
            _ => format!("content-length: {}", body.len()),
        };
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{framing}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        if way == Way::Chunked {
            for chunk in body.chunks(10_000) {
                let size = format!("{:x}\r\n", chunk.len());
                stream.write_all(&[size.as_bytes(), chunk, b"\r\n"].concat()).await.unwrap();
            }
            stream.write_all(b"0\r\n\r\n").await.unwrap();
        } else {
            stream.write_all(&body).await.unwrap();
        }
        stream.flush().await.unwrap();
        let _ = sent.send(());
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    /// A client sends a body, and closes its connection while the request waits.
    async fn is_left(&self, way: Way, size: usize) {
        let (sent, is_sent) = oneshot::channel();
        let sending = self.send(way, vec![b'x'; size], sent);
        let goes_away = async {
            is_sent.await.expect("it is sent");
            until("one is served", async || self.count() == 1).await;
        };
        tokio::select! {
            answer = sending => panic!("{way:?}, {size}: it is answered with {answer}"),
            () = goes_away => {}
        }
        until("none is served", async || self.count() == 0).await;
    }
}

/// A request that goes on.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(1, Ordering::SeqCst);
        Self(all.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, peer) = self.tcp.accept().await.unwrap();
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, peer);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

fn certificates(name: &str) -> Vec<CertificateDer<'static>> {
    let file = Path::new(&authority()).with_file_name(name);
    CertificateDer::pem_file_iter(file).unwrap().collect::<Result<_, _>>().unwrap()
}

fn acceptor() -> TlsAcceptor {
    let key = Path::new(&authority()).with_file_name("server.key");
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let config = config.with_single_cert(certificates("server.crt"), key);
    TlsAcceptor::from(Arc::new(config.unwrap()))
}

fn connector() -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates("ca.crt"));
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

fn echo<K: RequestKey + Send + Sync + 'static>(layer: LockLayer<K>) -> MethodRouter {
    post(async |body: Bytes| body).route_layer(layer)
}

/// Whatever it waits for. Three clients that are gone would otherwise take all places of the queue.
#[tokio::test]
async fn a_client_that_closes_its_connection_leaves_the_queue() {
    let locks = Locks::in_memory();
    let _mutex = locks.mutex("mutex").lock().await.unwrap();
    let _permit = locks.semaphore("permits", 1).acquire().await.unwrap();
    let _rows = locks.rw_lock("rows").read().await.unwrap();
    let hourly = Rate::new(1, WAIT * 2).burst(1);
    locks.rate("hourly", hourly).acquire().await.unwrap();
    let set = [LayerLock::mutex("free"), LayerLock::permit("permits", 1)];
    let rate = [LayerLock::mutex("free"), LayerLock::rate("hourly", hourly)];
    let longer = 3 * WAIT;
    for (name, route) in [
        ("mutex", echo(LockLayer::mutex(&locks, "mutex").wait(WAIT).max_waiters(1))),
        ("semaphore", echo(LockLayer::semaphore(&locks, "permits", 1).wait(WAIT).max_waiters(1))),
        ("rw_lock", echo(LockLayer::rw_lock(&locks, "rows").wait(WAIT).max_waiters(1))),
        ("set", echo(LockLayer::all(&locks, set).wait(WAIT).max_waiters(1))),
        ("rate", echo(LockLayer::all(&locks, rate).wait(longer).max_waiters(1))),
    ] {
        let served = Served::start(route).await;
        for way in WAYS {
            for size in [1_000, 30_000, 400_000] {
                println!("{name}, {way:?}, {size}");
                served.is_left(way, size).await;
            }
        }
    }
}

#[tokio::test]
async fn a_long_upload_leaves_the_queue_if_all_of_it_may_be_read_ahead() {
    let locks = Locks::in_memory();
    let _held = locks.mutex("a").lock().await.unwrap();
    let layer = LockLayer::mutex(&locks, "a").wait(WAIT).read_ahead(ENOUGH);
    let served = Served::start(echo(layer)).await;
    for way in WAYS {
        served.is_left(way, 1_000_000).await;
    }
}

/// Nobody is going to have the body, so all of it is read.
#[tokio::test]
async fn a_client_that_closes_its_connection_ends_an_answer_of_the_program() {
    let locks = Locks::in_memory();
    let _held = locks.mutex("a").lock().await.unwrap();
    let layer =
        LockLayer::mutex(&locks, "a").on_refused(async |_, _| pending::<Response<Bytes>>().await);
    let served = Served::start(echo(layer)).await;
    for way in WAYS {
        for size in [1_000, 30_000, 1_000_000] {
            served.is_left(way, size).await;
        }
    }
}

/// Also what is more than the layer reads ahead.
#[tokio::test]
async fn the_handler_gets_the_whole_body_in_its_order() {
    let locks = Locks::in_memory();
    let served = Served::start(echo(LockLayer::mutex(&locks, "a").wait(WAIT))).await;
    for way in WAYS {
        for size in [0, 1_000, 30_000, 1_000_000] {
            let held = locks.mutex("a").lock().await.unwrap();
            let body: Vec<u8> =
                (0..size).map(|n| b'a' + u8::try_from(n / 7 % 26).unwrap()).collect();
            let text = String::from_utf8(body.clone()).unwrap();
            let (sent, _) = oneshot::channel();
            let release = async {
                until("it waits", async || locks.inspect("a").await.unwrap().waiting == 1).await;
                held.release().await.unwrap();
            };
            let (answer, ()) = tokio::join!(served.send(way, body, sent), release);
            assert!(answer.ends_with(&text), "{way:?}, {size}");
        }
    }
}

/// A client that asks whether to send its body is told so when its request has the lock. One that is
/// refused sends nothing.
#[tokio::test]
async fn a_client_that_asks_first_sends_its_body_once_it_has_the_lock() {
    const HEAD: &str =
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n";
    let locks = Locks::in_memory();
    for (wait, is_refused) in [(WAIT, false), (Duration::from_millis(100), true)] {
        let served = Served::start(echo(LockLayer::mutex(&locks, "a").wait(wait))).await;
        let held = locks.mutex("a").lock().await.unwrap();
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(HEAD.as_bytes()).await.unwrap();
        until("one is served", async || served.count() == 1).await;
        let mut status = [0; 12];
        if is_refused {
            stream.read_exact(&mut status).await.unwrap();
            assert_eq!(&status, b"HTTP/1.1 409");
            continue;
        }
        until("it waits", async || locks.inspect("a").await.unwrap().waiting == 1).await;
        held.release().await.unwrap();
        stream.read_exact(&mut status).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 100");
        stream.write_all(b"abc").await.unwrap();
        stream.read_exact(&mut [0; 13]).await.unwrap(); // " Continue\r\n\r\n"
        stream.read_exact(&mut status).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
    }
}
