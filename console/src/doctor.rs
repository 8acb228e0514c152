//! The page with what [`Locks::diagnose`](leasehold::Locks::diagnose) found.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;

use super::frame::{Asked, Frame, html};
use super::text::{render, shown};
use leasehold::Severity;

#[derive(Template)]
#[template(path = "doctor.html")]
struct Page<'a> {
    frame: &'a Frame,
    findings: Vec<FindingText>,
    facts: Vec<FactText>,
}

struct FindingText {
    class: &'static str,
    severity: &'static str,
    check: &'static str,
    server: String,
    found: String,
    meaning: String,
    remedy: String,
}

struct FactText {
    name: &'static str,
    server: String,
    value: String,
}

pub(super) async fn page(asked: Asked) -> Response {
    let diagnosis = asked.app.locks.diagnose().await;
    let findings = diagnosis.findings.iter().map(|it| {
        let (class, severity) = match it.severity {
            Severity::Problem => ("problem", "Problem"),
            _ => ("warning", "Warning"),
        };
        FindingText {
            class,
            severity,
            check: it.check,
            server: shown(&it.server),
            found: shown(&it.found),
            meaning: shown(&it.meaning),
            remedy: shown(&it.remedy),
        }
    });
    let facts = diagnosis.facts.iter().map(|it| FactText {
        name: it.name,
        server: shown(&it.server),
        value: shown(&it.value),
    });
    let page = Page { frame: &asked.frame, findings: findings.collect(), facts: facts.collect() };
    html(StatusCode::OK, render(&page))
}
