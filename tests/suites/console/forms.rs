//! The forms of limits and of jobs go the same way.

use std::time::Duration;

use axum::Router;
use http::StatusCode;
use leasehold::Locks;
use leasehold_console::Console;

use super::{app, get, sent, token};

#[tokio::test]
async fn each_form_is_read_refused_and_shown_again_alike() {
    let locks = Locks::in_memory();
    let nightly = locks.mutex("nightly").once_per(Duration::from_secs(31_536_000));
    nightly.lock().await.unwrap().complete().await.unwrap();
    let allowed = Console::new(&locks).allow_limits(true).allow_run_again(true).router();
    let (allowed, shows) = (Router::new().nest("/locks", allowed), app(&locks));
    for (page, fields) in
        [("limits", [("of", "a"), ("limit", "1")]), ("jobs", [("name", "nightly"), ("x", "y")])]
    {
        let path = format!("/locks/{page}");
        let token = token(&allowed, &path).await;
        assert_eq!(token.len(), 36, "{page}");
        let form = |token, why| {
            let [first, second] = fields;
            [("token", token), first, second, ("by", "<ann>"), ("why", why)]
        };
        for (site, form, status) in [
            ("cross-site", form(&*token, "because"), StatusCode::FORBIDDEN),
            ("same-origin", form("", "because"), StatusCode::FORBIDDEN),
            ("same-origin", form(&*token, " "), StatusCode::UNPROCESSABLE_ENTITY),
        ] {
            let answer = sent(&allowed, &path, site, &form).await;
            assert_eq!(answer.status, status, "{page}: {}", answer.text);
            // Who has to correct a form finds it as it was, beside what is wrong with it.
            let is_again = status == StatusCode::UNPROCESSABLE_ENTITY;
            for text in ["value=\"&#60;ann&#62;\"", "id=\"problem\"><p>Say who"] {
                assert_eq!(answer.text.contains(text), is_again, "{page}, {text}: {}", answer.text);
            }
            assert!(!is_again || answer.text.contains(&token), "{page}");
        }
        let answer = sent(&allowed, &path, "same-origin", &form(&*token, "because")).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{page}: {}", answer.text);
        assert_eq!(answer.header("location"), format!("./{page}"));
        assert!(get(&allowed, &path).await.text.contains("&#60;ann&#62;"), "{page}");
        let answer = sent(&shows, &path, "same-origin", &form(&*token, "because")).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{page}");
    }
}
