//! Requests that go through the attribute and the layer, as those of a service do.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use http::{Request, Response, StatusCode};
use leasehold::{LeaseHandle, LockError, LockLayer, Locks, distributed_lock};
use leasehold_history::{Kind, Line};
use tokio::time::{sleep, timeout};
use tower::{Layer, ServiceExt, service_fn};

use super::turns::{LOOK, Worker, now, reason};
use super::wishes::{LONGEST_WAIT, MUTEXES, Part, Wish};

const TTL: Duration = Duration::from_secs(1);

/// What the body of a function, or a handler, knows of its request.
struct Body {
    worker: Arc<Worker>,
    id: String,
    was_granted: AtomicBool,
    has_ended: AtomicBool,
    time: Duration,
}

impl Body {
    /// Holds the lease of this task, and looks at it again and again.
    async fn hold(&self) {
        self.was_granted.store(true, Ordering::Relaxed);
        let lease = LeaseHandle::current().expect("a body runs under its lease");
        let (id, token) = (self.id.clone(), lease.fence().ok().map(u64::from));
        self.worker.note(Line::Got { id, at: now(), token });
        let until = tokio::time::Instant::now() + self.time;
        loop {
            let (id, at, left) = (self.id.clone(), now(), lease.remaining());
            if left.is_zero() {
                self.worker.note(Line::Lost { id, at });
            } else {
                self.worker.held(id, at, TTL, left);
            }
            let rest = until.saturating_duration_since(tokio::time::Instant::now());
            if rest.is_zero() || left.is_zero() {
                break;
            }
            sleep(rest.min(LOOK)).await;
        }
        self.end();
    }

    /// The work ends; once.
    fn end(&self) {
        if !self.has_ended.swap(true, Ordering::Relaxed) {
            self.worker.note(Line::End { id: self.id.clone(), at: now() });
        }
    }
}

#[distributed_lock(key = name, ttl = "1s", wait = "1s", locks = locks)]
async fn under_the_attribute(locks: &Locks, name: &str, body: &Body) -> Result<(), LockError> {
    body.hold().await;
    Ok(())
}

/// Answers a request under the layer, and reads the answer's body to its end.
async fn under_the_layer(locks: &Locks, name: &'static str, body: Arc<Body>) -> &'static str {
    let layer = LockLayer::mutex(locks, name.to_owned()).ttl(TTL).wait(TTL);
    let service = layer.layer(service_fn(move |_: Request<String>| {
        let body = body.clone();
        async move {
            body.hold().await;
            Ok::<_, Infallible>(Response::new(String::from("done")))
        }
    }));
    let response = service.oneshot(Request::new(String::new())).await;
    let Ok(response) = response;
    match response.status() {
        StatusCode::OK => "dropped",
        StatusCode::CONFLICT => "busy",
        _ => "store",
    }
}

impl Worker {
    /// One request through the attribute or the layer.
    pub(super) async fn turn_at_a_front_door(self: &Arc<Self>, locks: &Locks, rng: &mut Rng) {
        let name = MUTEXES[rng.usize(..2)];
        let owner = self.name.clone();
        let wish = Wish::plain(Part::of(name, Kind::Mutex), owner, TTL, TTL);
        let id = self.ask(&wish).remove(0);
        let longest = if rng.u8(..20) == 0 { 3_000 } else { 20 };
        let body = Arc::new(Body {
            worker: self.clone(),
            id: id.clone(),
            was_granted: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            time: Duration::from_millis(rng.u64(..longest)),
        });
        // Some requests are dropped on their way.
        let patience =
            if rng.u8(..16) == 0 { Duration::from_millis(rng.u64(..30)) } else { LONGEST_WAIT * 4 };
        let how = if rng.bool() {
            let called = timeout(patience, under_the_attribute(locks, name, &body)).await;
            called.map(|it| it.map_or_else(|error| reason(&error), |()| "dropped".to_owned()))
        } else {
            timeout(patience, under_the_layer(locks, name, body.clone())).await.map(str::to_owned)
        };
        let was_granted = body.was_granted.load(Ordering::Relaxed);
        let at = now();
        if was_granted {
            body.end();
            self.note(Line::Freed { id, at, how: "dropped".to_owned() });
        } else {
            let why = how.unwrap_or_else(|_| "gave-up".to_owned());
            self.refused(&[id], at, &why);
        }
    }
}
