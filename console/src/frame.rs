//! What all pages share: the request, the frame around the content, and pages about problems.

use std::sync::Arc;

use askama::Template;
use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::app::App;
use super::assets::VERSION;
use super::down::Down;
use super::place::Place;
use super::query::{Query, Way};
use super::text::{render, shown};

/// A request for a page.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) app: Arc<App>,
    pub(super) query: Query,
    pub(super) frame: Frame,
    /// The host that was asked, if the request's address says it.
    pub(super) authority: Option<String>,
}

impl Asked {
    pub(super) fn not_found(&self) -> Response {
        self.frame.problem(StatusCode::NOT_FOUND, "Not found", "There is no such page.", "")
    }
}

impl FromRequestParts<Arc<App>> for Asked {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Response> {
        let uri = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0);
        let inside = parts.uri.path();
        let page = inside.trim_start_matches('/').to_owned();
        let frame = Frame { way: Way::from(uri.path(), inside), page, app: Arc::clone(app) };
        let authority = uri.authority().map(ToString::to_string);
        match Query::parse(uri.query().unwrap_or_default()) {
            Ok(query) => Ok(Self { app: Arc::clone(app), query, frame, authority }),
            Err(problem) => Err(frame.problem(StatusCode::BAD_REQUEST, "Bad request", problem, "")),
        }
    }
}

/// The frame around a page.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) way: Way,
    page: String,
    app: Arc<App>,
}

#[derive(Template)]
#[template(path = "problem.html")]
struct Problem<'a> {
    frame: &'a Frame,
    title: &'a str,
    text: &'a str,
    advice: &'a str,
}

impl Frame {
    #[expect(clippy::unused_self, reason = "templates call methods")]
    pub(super) fn version(&self) -> String {
        format!("{VERSION:016x}")
    }

    /// Each page of the navigation with its link and its title.
    pub(super) fn pages(&self) -> [(&'static str, String, &'static str); 5] {
        let Way { home, up } = &self.way;
        [
            ("", home.clone(), "Locks"),
            ("jobs", format!("{up}jobs"), "Jobs"),
            ("limits", format!("{up}limits"), "Limits"),
            ("clients", format!("{up}clients"), "Clients"),
            ("doctor", format!("{up}doctor"), "Doctor"),
        ]
    }

    pub(super) fn place(&self) -> &Place {
        &self.app.place
    }

    pub(super) fn is_at(&self, page: &str) -> bool {
        self.page == page
    }

    /// A page that says that the store failed.
    pub(super) fn store_failed(&self, down: &Down) -> Response {
        self.problem(down.status, "The lock store failed", &down.error, down.advice)
    }

    /// A page that says what is wrong.
    pub(super) fn problem(
        &self,
        status: StatusCode,
        title: &str,
        text: &str,
        advice: &str,
    ) -> Response {
        html(status, render(&Problem { frame: self, title, text: &shown(text), advice }))
    }
}

pub(super) fn html(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response()
}
