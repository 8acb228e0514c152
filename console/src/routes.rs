//! The routes of the console, and the headers of each response.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::{MethodRouter, any, get, post};

use super::app::App;
use super::frame::Asked;
use super::jobs::Jobs;
use super::limits::Limits;
use super::{assets, client, clients, doctor, force, form, list, lock};

/// The longest form, in bytes.
const LONGEST_FORM: usize = 8 * 1024;

/// Nothing is loaded from elsewhere, nothing inside a page runs, and no other page shows it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; \
    base-uri 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // With `no-referrer` a browser would not say where a form comes from.
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

pub(super) fn router(app: App) -> Router {
    let (allows_force, allows_limits) = (app.force.is_some(), app.limits.is_some());
    let allows_run_again = app.run_again.is_some();
    let with_form =
        |route: MethodRouter<Arc<App>>| route.layer(DefaultBodyLimit::max(LONGEST_FORM));
    let mut routes = Router::new()
        .route("/", get(list::page))
        .route("/list-events", get(list::events))
        .route("/lock", get(lock::page))
        .route("/lock-events", get(lock::events))
        .route("/jobs", get(form::page::<Jobs>))
        .route("/limits", get(form::page::<Limits>))
        .route("/clients", get(clients::page))
        .route("/client", get(client::page))
        .route("/doctor", get(doctor::page))
        .route("/script.js", get(assets::script))
        .route("/style.css", get(assets::style));
    if allows_force {
        routes = routes.route("/force", with_form(get(force::page).post(force::take)));
    }
    if allows_limits {
        routes = routes.route("/limits", with_form(post(form::post::<Limits>)));
    }
    if allows_run_again {
        routes = routes.route("/jobs", with_form(post(form::post::<Jobs>)));
    }
    // A router with a fallback can't be nested below a path with parameters.
    routes
        .route("/{*page}", any(elsewhere))
        .method_not_allowed_fallback(wrong_method)
        .layer(map_response(headers))
        .with_state(Arc::new(app))
}

async fn elsewhere(asked: Asked) -> Response {
    asked.not_found()
}

async fn wrong_method(asked: Asked) -> Response {
    let text = "This page is only read.";
    asked.frame.problem(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed", text, "")
}

async fn headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let keep = headers.entry(header::CACHE_CONTROL);
    keep.or_insert(HeaderValue::from_static("no-store"));
    response
}
