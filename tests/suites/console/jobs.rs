//! The page with the jobs, and its form.

use std::time::Duration;

use axum::Router;
use http::StatusCode;
use leasehold::Locks;
use leasehold_console::Console;

use super::{app, get, lock_page, sent, token};

const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);

#[tokio::test]
async fn a_job_is_shown_and_runs_again() {
    let locks = Locks::in_memory();
    let console = Console::new(&locks).allow_run_again(true).router();
    let app = Router::new().nest("/locks", console);
    assert!(get(&app, "/locks/jobs").await.text.contains("No job has run."));
    let nightly = locks.mutex("night<b>ly").once_per(YEAR);
    nightly.lock().await.unwrap().complete().await.unwrap();
    let fails = locks.mutex("fails").once_per(YEAR);
    fails.lock().await.unwrap().release().await.unwrap();
    let page = get(&app, "/locks/jobs").await.text;
    assert!(
        page.contains("night&#60;b&#62;ly") && page.contains("1 run without success"),
        "{page}"
    );
    assert!(page.find("fails") < page.find("night"), "{page}");

    let token = token(&app, "/locks/jobs").await;
    let form = [("token", &*token), ("name", "night<b>ly"), ("by", "ann"), ("why", "<i>42</i>")];
    let answer = sent(&app, "/locks/jobs", "same-origin", &form).await;
    assert_eq!((answer.status, answer.header("location")), (StatusCode::SEE_OTHER, "./jobs"));
    let running = nightly.try_lock().await.unwrap();
    let page = get(&app, "/locks/jobs").await.text;
    assert!(page.contains("to run again, for ann") && page.contains("&#60;i&#62;42"), "{page}");
    assert!(page.contains("runs for 0."), "{page}");
    let answer = sent(&app, "/locks/jobs", "same-origin", &form).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert!(get(&app, "/locks/jobs").await.text.contains("runs for 0."));
    running.complete().await.unwrap();

    // Refused: from another site, without a name of somebody, without the secret.
    let nobody = [("token", &*token), ("name", "night<b>ly"), ("by", " "), ("why", "x")];
    for (site, form, status) in [
        ("cross-site", &form[..], StatusCode::FORBIDDEN),
        ("same-origin", &form[1..], StatusCode::FORBIDDEN),
        ("same-origin", &nobody[..], StatusCode::UNPROCESSABLE_ENTITY),
    ] {
        assert_eq!(sent(&app, "/locks/jobs", site, form).await.status, status);
        assert!(nightly.try_lock().await.unwrap_err().is_done());
    }
}

#[tokio::test]
async fn a_console_that_only_shows_has_no_form() {
    let locks = Locks::in_memory();
    locks.mutex("nightly").once_per(YEAR).lock().await.unwrap().complete().await.unwrap();
    let app = app(&locks);
    let page = get(&app, "/locks/jobs").await.text;
    assert!(page.contains("nightly") && !page.contains("<form"), "{page}");
    let answer = sent(&app, "/locks/jobs", "same-origin", &[("name", "nightly")]).await;
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(get(&app, &lock_page("nightly")).await.text.contains("nightly"));
}
