//! The two files that a page loads: a style sheet and a script.

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

const SCRIPT: &str = include_str!("assets/script.js");
const STYLE: &str = include_str!("assets/style.css");

/// In the addresses of both files, so that browsers may keep them.
pub(super) const VERSION: u64 = version();

/// A hash (FNV-1a) of both files.
const fn version() -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let files = [SCRIPT.as_bytes(), STYLE.as_bytes()];
    let mut file = 0;
    while file < files.len() {
        let mut at = 0;
        while at < files[file].len() {
            hash = (hash ^ files[file][at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
            at += 1;
        }
        file += 1;
    }
    hash
}

pub(super) async fn script(request: Request) -> Response {
    file(&request, "text/javascript; charset=utf-8", SCRIPT)
}

pub(super) async fn style(request: Request) -> Response {
    file(&request, "text/css; charset=utf-8", STYLE)
}

fn file(request: &Request, kind: &'static str, text: &'static str) -> Response {
    let tag = format!("\"{VERSION:016x}\"");
    let known = request.headers().get_all(header::IF_NONE_MATCH).iter();
    let mut known = known.filter_map(|it| it.to_str().ok()).flat_map(|it| it.split(','));
    let is_known = known.any(|it| it.trim().trim_start_matches("W/") == tag);
    let asked = request.uri().query().unwrap_or_default();
    // Without the version in its address it is another file tomorrow.
    let keep = if asked == format!("v={VERSION:016x}") {
        "private, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let headers =
        [(header::ETAG, tag.as_str()), (header::CACHE_CONTROL, keep), (header::CONTENT_TYPE, kind)];
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, text).into_response()
}
