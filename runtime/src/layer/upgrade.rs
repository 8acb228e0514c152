//! A response after which its connection speaks another protocol, such as a WebSocket's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::UPGRADE;
use http::{Method, Request, Response, StatusCode};

use super::held::Held;

/// Whether the layer, with all its clones, has warned that an upgrade is under no lock.
#[derive(Clone, Debug, Default)]
pub(super) struct Warned(Arc<AtomicBool>);

/// Gives the handler its handles. If the request may be upgraded, they can keep what it holds.
pub(super) fn give_handles<A>(held: &mut Held, request: &mut Request<A>) {
    let may_keep = *request.method() == Method::CONNECT || request.headers().contains_key(UPGRADE);
    held.give_handles(request, may_keep);
}

/// Returns true if the connection goes on after the head of this response.
pub(super) fn is_upgrade<B>(method: &Method, response: &Response<B>) -> bool {
    let status = response.status();
    status == StatusCode::SWITCHING_PROTOCOLS || is_connected(method, status)
}

/// Returns true if the response opens a tunnel.
pub(super) fn is_connected(method: &Method, status: StatusCode) -> bool {
    *method == Method::CONNECT && status.is_success()
}

/// Leaves what a request holds to the handles that the handler has kept for the connection. What no
/// handle keeps ends now, and the log says so, once.
pub(super) fn leave(held: Held, is_success: bool, warned: &Warned) -> Option<Held> {
    if !held.is_held() {
        return Some(held);
    }
    let left = held.leave_to_handles(is_success)?;
    if !warned.0.swap(true, Ordering::Relaxed) {
        let lock = left.log_label();
        tracing::warn!(
            lock,
            "an upgraded connection goes on without its lock: the handler has not kept its `LeaseHandle`; move it into the connection's task, as into the closure of `on_upgrade`"
        );
    }
    Some(left)
}
