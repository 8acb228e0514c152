//! What the head of a response says of its body, and of its request's success.

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, Response, StatusCode};
use http_body::Body;

use super::grpc;
use super::upgrade;

/// How many bytes a response has, as far as it says so. A server sends no more of it, and may not
/// ask for the end. A gRPC call always ends with its trailers.
pub(super) fn announced<B: Body>(headers: &HeaderMap, body: &B) -> Option<u64> {
    if grpc::is_grpc(headers) {
        return None;
    }
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    length.or_else(|| body.size_hint().exact())
}

/// Returns false for the responses whose body an HTTP server never sends.
pub(super) fn sends_body<B: Body>(method: &Method, response: &Response<B>) -> bool {
    let status = response.status();
    let has_none = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
    let ends_with_head =
        *method == Method::HEAD || upgrade::is_connected(method, status) || has_none;
    !(ends_with_head || status.is_informational() || response.body().is_end_stream())
}

/// Returns true if the head of a response says nothing of a failure.
pub(super) fn is_success<B>(response: &Response<B>) -> bool {
    let status = response.status();
    !status.is_client_error() && !status.is_server_error() && !grpc::is_failure(response.headers())
}
