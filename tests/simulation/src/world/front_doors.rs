//! Requests that go through the attribute and the layer, as those of a service do.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use http::{Request, Response, StatusCode};
use leasehold::layer::{LayerLock, Refusal, RequestKey};
use leasehold::{LeaseHandle, LeaseSetHandle, LockError, LockLayer, Locks, distributed_lock};
use leasehold_history::{Kind, Line};
use tokio::time::{sleep, timeout};
use tower::{Layer, ServiceExt, service_fn};

use super::answers::PASSES;
use super::rates;
use super::turns::{LOOK, Worker, now, reason};
use super::wishes::{LONGEST_WAIT, MUTEXES, Part, Wish};

const TTL: Duration = Duration::from_secs(1);

/// What the body of a function, or a handler, knows of its request.
struct Body {
    worker: Arc<Worker>,
    parts: Vec<Part>,
    /// One for each part.
    ids: Vec<String>,
    was_granted: AtomicBool,
    time: Duration,
    /// A rate beside its locks, of the layer alone.
    rate: Option<LayerLock>,
}

impl Body {
    /// The leases of this task.
    fn leases(&self) -> Vec<LeaseHandle> {
        if self.parts.len() == 1 {
            return vec![LeaseHandle::current().expect("a body runs under its lease")];
        }
        let leases = LeaseSetHandle::current().expect("a body runs under its leases");
        leases.iter().cloned().collect()
    }

    fn id_of(&self, lease: &LeaseHandle) -> String {
        let place = self.parts.iter().position(|part| part.lock == lease.key().as_ref());
        self.ids[place.expect("it is asked for")].clone()
    }

    /// Holds the leases of this task, and looks at them again and again. Who drops it ends the work: a
    /// lease that is lost, or a request that gives up.
    async fn hold(&self) {
        let _work = Work(self);
        self.was_granted.store(true, Ordering::Relaxed);
        let leases = self.leases();
        assert_eq!(leases.len(), self.parts.len(), "all locks, or none");
        for lease in &leases {
            self.worker.got_one(lease, &self.id_of(lease), now());
        }
        let until = tokio::time::Instant::now() + self.time;
        loop {
            let mut is_lost = false;
            for lease in &leases {
                let (id, at, left) = (self.id_of(lease), now(), lease.remaining());
                if left.is_zero() {
                    is_lost = true;
                    self.worker.note(Line::Lost { id, at });
                } else {
                    self.worker.held(id, at, TTL, left);
                }
            }
            let rest = until.saturating_duration_since(tokio::time::Instant::now());
            if rest.is_zero() || is_lost {
                break;
            }
            sleep(rest.min(LOOK)).await;
        }
    }
}

/// The work of a body, until it ends or is dropped.
struct Work<'a>(&'a Body);

impl Drop for Work<'_> {
    fn drop(&mut self) {
        for id in &self.0.ids {
            self.0.worker.note(Line::End { id: id.clone(), at: now() });
        }
    }
}

#[distributed_lock(key = body.parts[0].lock, ttl = "1s", wait = "1s", locks = locks)]
async fn under_the_attribute(locks: &Locks, body: &Body) -> Result<(), LockError> {
    body.hold().await;
    Ok(())
}

#[distributed_lock(
    all(
        lock(key = body.parts[0].lock),
        lock(key = body.parts[1].lock, permits = body.parts[1].limit, weight = body.parts[1].units),
        lock(key = body.parts[2].lock),
    ),
    ttl = "1s",
    wait = "1s",
    locks = locks,
)]
async fn under_several_locks(locks: &Locks, body: &Body) -> Result<(), LockError> {
    body.hold().await;
    Ok(())
}

fn layer_lock(part: &Part) -> LayerLock {
    let (name, units) = (part.lock.to_owned(), part.units);
    match part.kind {
        Kind::Permits => LayerLock::permit(name, part.limit).weight_by(move |_| units),
        _ => LayerLock::mutex(name),
    }
}

/// Answers a request under the layer with these locks.
async fn under_the_layer(locks: &Locks, body: Arc<Body>) -> &'static str {
    match &*body.parts {
        [part] => {
            let layer = LockLayer::mutex(locks, part.lock.to_owned());
            answered(layer.ttl(TTL).wait(TTL), body).await
        }
        parts => {
            let locks_and_rate = parts.iter().map(layer_lock).chain(body.rate.clone());
            let layer = LockLayer::all(locks, locks_and_rate);
            answered(layer.ttl(TTL).wait(TTL), body).await
        }
    }
}

/// An answer by the status alone. That of a store that fails is the same as that of a limit of an
/// operator.
fn told(refusal: &Refusal) -> Response<&'static str> {
    let mut response = Response::new("");
    *response.status_mut() = match refusal {
        Refusal::Closed(_) => StatusCode::GONE,
        other => other.status(),
    };
    response
}

/// Answers a request, and reads the answer's body to its end.
async fn answered<K>(layer: LockLayer<K>, body: Arc<Body>) -> &'static str
where
    K: RequestKey + Clone + Send + Sync + 'static,
{
    let layer = layer.on_refused(async |refusal, _| told(&refusal));
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
        StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS => "busy",
        StatusCode::GONE => "closed",
        _ => "store",
    }
}

impl Worker {
    /// One request through the attribute or the layer.
    pub(super) async fn turn_at_a_front_door(self: &Arc<Self>, locks: &Locks, rng: &mut Rng) {
        let first = rng.usize(..2);
        let mutex = |at: usize| Part::of(MUTEXES[at], Kind::Mutex);
        let parts = if rng.u8(..4) == 0 {
            let limit = self.version.limit;
            vec![mutex(first), Part::permits(rng.u32(1..=limit), limit), mutex(1 - first)]
        } else {
            vec![mutex(first)]
        };
        let owner = self.name.clone();
        let wish = Wish { parts: parts.clone(), ..Wish::plain(parts[0], owner, TTL, TTL) };
        self.calls.others(wish.all_series());
        let ids = self.ask(&wish);
        let longest = if rng.u8(..20) == 0 { 3_000 } else { 20 };
        let body = Arc::new(Body {
            worker: self.clone(),
            parts,
            ids: ids.clone(),
            was_granted: AtomicBool::new(false),
            time: Duration::from_millis(rng.u64(..longest)),
            rate: rates::beside(rng),
        });
        // Some requests are dropped on their way.
        let patience =
            if rng.u8(..16) == 0 { Duration::from_millis(rng.u64(..30)) } else { LONGEST_WAIT * 4 };
        let (is_by_attribute, begun) = (rng.bool(), now());
        let how = if is_by_attribute {
            let called = async {
                match ids.len() {
                    1 => under_the_attribute(locks, &body).await,
                    _ => under_several_locks(locks, &body).await,
                }
            };
            let called = timeout(patience, called).await;
            called.map(|it| it.map_or_else(|error| reason(&error), |()| "dropped".to_owned()))
        } else {
            timeout(patience, under_the_layer(locks, body.clone())).await.map(str::to_owned)
        };
        if let Ok(how) = &how {
            // A layer answers in one way if its client is shut down and if its store fails.
            let is_failed = how == "store" && !self.is_ending();
            self.was_answered(ids.join(", "), begun, PASSES.after(TTL + body.time), is_failed);
        }
        let was_granted = body.was_granted.load(Ordering::Relaxed);
        let at = now();
        if was_granted && !is_by_attribute && ids.len() > 1 && body.rate.is_some() {
            self.shared.used_rates(1);
        }
        if was_granted {
            for id in ids {
                self.note(Line::Freed { id, at, how: "dropped".to_owned() });
            }
        } else {
            let why = how.unwrap_or_else(|_| "gave-up".to_owned());
            self.refused(&ids, at, &why);
        }
    }
}
