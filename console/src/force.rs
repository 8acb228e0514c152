//! Taking a lock from its holders: a page to confirm it, and the form that does it.

use askama::Template;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::down::{advice, status};
use super::forced::Taken;
use super::form;
use super::frame::{Asked, Frame, html};
use super::holders::Line;
use super::query::{Query, link};
use super::text::{render, short, shown};
use leasehold::{ForceRelease, Forced, LockError, LockInfo, LockKey, LockKind};

/// In bytes.
const LONGEST_REASON: usize = 200;

/// Who takes a lock without saying a name. The console has no login.
const NOBODY: &str = "somebody in the console";

#[derive(Template)]
#[template(path = "force.html")]
struct Page<'a> {
    frame: &'a Frame,
    name: String,
    /// The name itself, for the form.
    raw: &'a str,
    token: &'a str,
    problem: &'a str,
    held: String,
    holders: Vec<Line>,
    /// `hold_at_least` keeps it for so long, without a holder.
    kept: Option<String>,
    /// The tool holds it, and runs a command.
    runs_command: bool,
    /// The ids of those who are shown: they lose the lock. Or `ALL`.
    seen: String,
    confirm: &'a str,
    reason: &'a str,
    by: &'a str,
    back: String,
}

pub(super) async fn page(asked: Asked) -> Response {
    // Nothing else is in the form: no link fills it in.
    let named = Query::of("name", asked.query.get("name"));
    confirmation(&asked, &named, StatusCode::OK, "").await
}

/// The page to confirm, with what was typed before.
async fn confirmation(asked: &Asked, form: &Query, code: StatusCode, problem: &str) -> Response {
    let Some(force) = &asked.app.force else { return asked.not_found() };
    let name = form.get("name");
    let info = match inspect(asked, name).await {
        Ok(info) => info,
        Err(error) => return failed(asked, &error),
    };
    let holders = Line::holders(&info);
    let page = Page {
        frame: &asked.frame,
        name: shown(name),
        raw: name,
        token: force.token.text(),
        problem,
        held: count(&info),
        runs_command: holders.iter().any(Line::runs_command),
        holders,
        kept: info.kept.filter(|_| info.held == 0).map(short),
        seen: seen(&info),
        confirm: form.get("confirm"),
        reason: form.get("reason"),
        by: form.get("by"),
        back: link("lock", [("name", name.into())]),
    };
    html(code, render(&page))
}

async fn inspect(asked: &Asked, name: &str) -> Result<LockInfo, LockError> {
    asked.app.locks.inspect(LockKey::new(name)?).await
}

/// For a form of a page that could not show all: takes the lock from all.
const ALL: &str = "all";

/// The holders that a page shows, for its form.
fn seen(info: &LockInfo) -> String {
    if info.held > info.holders.len() as u64 {
        return ALL.to_owned();
    }
    info.holders.iter().map(|holder| &*holder.id).collect::<Vec<_>>().join(" ")
}

/// What came of a form.
enum Outcome {
    Forced(Forced, Vec<Line>),
    /// Nobody has the lock.
    NobodyHoldsIt,
    /// Only such have the lock as were not on the page.
    OthersHoldIt,
}

/// Takes the lock from those who were on the page, and still have it. Also returns them: people have to
/// end them.
async fn force(asked: &Asked, form: &Query) -> Result<Outcome, LockError> {
    let name = form.get("name");
    let mut info = inspect(asked, name).await?;
    if info.held == 0 && info.kept.is_none() && info.kind != Some(LockKind::Foreign) {
        return Ok(Outcome::NobodyHoldsIt);
    }
    let by = Some(form.get("by").trim()).filter(|by| !by.is_empty()).unwrap_or(NOBODY);
    let mut command = asked.app.locks.force_release(LockKey::new(name)?);
    if form.get("seen") != ALL && info.held > 0 {
        let seen: Vec<_> = form.get("seen").split(' ').collect();
        info.holders.retain(|holder| seen.contains(&&*holder.id));
        if info.holders.is_empty() {
            return Ok(Outcome::OthersHoldIt);
        }
        command = info.holders.iter().fold(command, ForceRelease::holder);
    }
    let forced = command.by(by).why(form.get("reason")).await?;
    Ok(Outcome::Forced(forced, Line::holders(&info)))
}

fn count(info: &LockInfo) -> String {
    match (info.held, info.holders.len() as u64) {
        (1, _) => "1 holder".to_owned(),
        (all, listed) if all > listed => format!("{all} holders, of whom {listed} are listed,"),
        (all, _) => format!("{all} holders"),
    }
}

fn failed(asked: &Asked, error: &LockError) -> Response {
    let (status, text) = (status(error), error.to_string());
    asked.frame.problem(status, "The lock can't be taken", &text, advice(error))
}

/// Takes the lock, if the form comes from the page above.
pub(super) async fn take(
    asked: Asked,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let Some(force) = &asked.app.force else { return asked.not_found() };
    let form = match form::read(&asked, (headers, body), &force.token) {
        Ok(form) => form,
        Err(refused) => return *refused,
    };
    let (name, reason) = (form.get("name"), form.get("reason").trim());
    if !is_confirmed(form.get("confirm"), name) {
        let problem = "The name that you typed is not the name of this lock.";
        return confirmation(&asked, &form, StatusCode::UNPROCESSABLE_ENTITY, problem).await;
    }
    if reason.is_empty() || reason.len() > LONGEST_REASON {
        let problem =
            "Give a reason of at most 200 bytes. It goes to the log and to the page of the lock.";
        return confirmation(&asked, &form, StatusCode::UNPROCESSABLE_ENTITY, problem).await;
    }
    match self::force(&asked, &form).await {
        Ok(Outcome::Forced(Forced::Released { held, fence, .. }, former)) => {
            // Debug escapes control characters.
            tracing::warn!(held, %fence, ?reason, "a person took a lock by force in the console");
            tracing::debug!(?name, "the lock that was taken in the console");
            let id = force.keep(Taken { name: name.to_owned(), held, fence, former });
            let to = link("./lock", [("name", name.into()), ("forced", id.into())]);
            (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
        }
        Ok(Outcome::OthersHoldIt) => {
            let problem = "Others hold the lock by now. Nothing has changed.";
            confirmation(&asked, &form, StatusCode::CONFLICT, problem).await
        }
        Ok(Outcome::Forced(Forced::Foreign, _)) => {
            let problem = "Something that is not a lock has this name. Nothing has changed.";
            confirmation(&asked, &form, StatusCode::CONFLICT, problem).await
        }
        Ok(Outcome::NobodyHoldsIt | Outcome::Forced(..)) => {
            let problem =
                "Nobody of those who were shown holds the lock any more. Nothing has changed.";
            confirmation(&asked, &form, StatusCode::CONFLICT, problem).await
        }
        Err(error) => failed(&asked, &error),
    }
}

/// A name with characters that are not seen can be typed as the page shows it.
fn is_confirmed(typed: &str, name: &str) -> bool {
    let typed = typed.trim();
    !typed.is_empty() && (typed == name.trim() || typed == shown(name).trim())
}
