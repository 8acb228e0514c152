//! The page with the jobs, and the form that lets one run again.

use std::borrow::Cow;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use leasehold::{JobInfo, LockError, LockKey, Locks};

use super::app::App;
use super::down::Down;
use super::form::Form;
use super::frame::{Asked, Frame, html};
use super::query::{Query, link};
use super::text::{job_state, needs_help, render, short, shown};
use super::time::Time;
use super::token::Token;

#[derive(Template)]
#[template(path = "jobs.html")]
struct Page<'a> {
    frame: &'a Frame,
    jobs: Vec<Row>,
    need_help: usize,
    /// Empty in a console that only shows them.
    token: &'a str,
    problem: &'a str,
    /// What was typed before.
    form: &'a Query,
}

/// A job, for people.
struct Row {
    name: String,
    link: String,
    tick: String,
    last: Option<Time>,
    state: String,
    needs_help: bool,
}

impl Row {
    fn of(job: &JobInfo) -> Self {
        Self {
            name: shown(&job.name),
            link: link("lock", [("name", (&*job.name).into())]),
            tick: if job.tick.is_zero() { "–".to_owned() } else { short(job.tick) },
            last: job.last_success.map(|last| Time::of(last.completed)),
            state: job_state(job),
            needs_help: needs_help(job),
        }
    }
}

/// The form that lets work run again.
pub(super) struct Jobs;

impl Form for Jobs {
    const PAGE: &'static str = "jobs";

    fn token(app: &App) -> Option<&Token> {
        app.run_again.as_ref()
    }

    async fn change(locks: &Locks, form: &Query) -> Result<(), Cow<'static, str>> {
        done(locks, form).await
    }

    async fn page(asked: &Asked, typed: &Query, code: StatusCode, problem: &str) -> Response {
        let jobs = match asked.app.locks.jobs("*").await {
            Ok(jobs) => jobs,
            Err(error) => return asked.frame.store_failed(&Down::of(&error)),
        };
        let page = Page {
            frame: &asked.frame,
            jobs: jobs.iter().map(Row::of).collect(),
            need_help: jobs.iter().filter(|job| needs_help(job)).count(),
            token: Self::token(&asked.app).map_or("", Token::text),
            problem: &shown(problem),
            form: typed,
        };
        html(code, render(&page))
    }
}

/// Does what a form says, or says what is wrong with it.
async fn done(locks: &Locks, form: &Query) -> Result<(), Cow<'static, str>> {
    let said = |error: LockError| Cow::Owned(error.to_string());
    let (by, why) = (form.get("by").trim(), form.get("why").trim());
    if by.is_empty() || why.is_empty() {
        return Err("Say who lets it run again, and why: the list says it for a day.".into());
    }
    // Exactly that name: the list shows it.
    let key = LockKey::new(form.get("name")).map_err(said)?;
    // A run that is under way counts when it succeeds; the list shows it.
    locks.run_again(&key, by, why).await.map(drop).map_err(said)
}
