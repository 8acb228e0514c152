//! A response after which its connection speaks another protocol, such as a WebSocket's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::UPGRADE;
use http::{Method, Request, Response, StatusCode};

use crate::engine::lease::{Lease, LeaseHandle};

/// Whether the layer, with all its clones, has warned that an upgrade is under no lock.
#[derive(Clone, Debug, Default)]
pub(super) struct Warned(Arc<AtomicBool>);

/// Gives the handler its lease's handle. If the request may be upgraded, the handle can keep the
/// lease.
pub(super) fn give_handle<A>(lease: &mut Lease, request: &mut Request<A>) {
    if *request.method() == Method::CONNECT || request.headers().contains_key(UPGRADE) {
        lease.let_handles_keep(request.extensions().get::<LeaseHandle>());
    }
    request.extensions_mut().insert(lease.handle());
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

/// Leaves the lease to the handles that the handler has kept for the connection. If it has kept
/// none, the lease ends now, and the log says so, once.
pub(super) fn leave(lease: Lease, is_success: bool, warned: &Warned) -> Option<Lease> {
    if !lease.is_held() {
        return Some(lease);
    }
    let lease = lease.leave_to_handles(is_success)?;
    if !warned.0.swap(true, Ordering::Relaxed) {
        let lock = lease.key().log_label();
        tracing::warn!(
            lock,
            "an upgraded connection goes on without its lock: the handler has not kept its `LeaseHandle`; move it into the connection's task, as into the closure of `on_upgrade`"
        );
    }
    Some(lease)
}
