//! The page with the limits that operators set, and its form.

use axum::Router;
use http::StatusCode;
use leasehold::{LimitOf, Locks};
use leasehold_console::Console;

use super::{app, app_with_force, get, lock_page, sent, token};

fn app_with_limits(locks: &Locks) -> Router {
    Router::new().nest("/locks", Console::new(locks).allow_limits(true).router())
}

#[tokio::test]
async fn a_limit_is_set_shown_and_unset() {
    let locks = Locks::in_memory();
    let app = app_with_limits(&locks);
    let token = token(&app, "/locks/limits").await;
    let set = [
        ("token", &*token),
        ("kind", "label"),
        ("of", "tenant:{id}"),
        ("limit", "0"),
        ("by", "ann"),
        ("why", "<b>incident</b> 42"),
    ];
    let answer = sent(&app, "/locks/limits", "same-origin", &set).await;
    assert_eq!((answer.status, answer.header("location")), (StatusCode::SEE_OTHER, "./limits"));
    let list = locks.limits().list().await.unwrap();
    assert_eq!(list[0].of, LimitOf::Label("tenant:{id}".to_owned()));
    assert_eq!((list[0].limit, &*list[0].by), (0, "ann"));

    let page = get(&app, "/locks/limits").await.text;
    assert!(page.contains("0, closed") && page.contains("tenant:{id}"), "{page}");
    assert!(!page.contains("<b>incident"), "{page}");
    locks.limits().name("render").by("bob").why("slow").set(3).await.unwrap();
    let _held = locks.semaphore("render", 9).acquire().await.unwrap();
    let lock = get(&app, &lock_page("render")).await.text;
    assert!(lock.contains("3, set for `render` by bob"), "{lock}");

    let unset = [("token", &*token), ("do", "unset"), ("kind", "label"), ("of", "tenant:{id}")];
    assert_eq!(
        sent(&app, "/locks/limits", "same-origin", &unset).await.status,
        StatusCode::SEE_OTHER
    );
    assert_eq!(locks.limits().list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn only_its_own_form_changes_anything() {
    let locks = Locks::in_memory();
    let allowed = app_with_limits(&locks);
    let own = token(&allowed, "/locks/limits").await;
    let other = token(&app_with_limits(&locks), "/locks/limits").await;
    let set =
        |token| [("token", token), ("of", "a"), ("limit", "1"), ("by", "ann"), ("why", "because")];
    for (site, token) in [("cross-site", &own), ("same-origin", &other), ("none", &own)] {
        let answer = sent(&allowed, "/locks/limits", site, &set(token)).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.text);
    }
    // In a console that only shows, or may only take locks, there is no form.
    for app in [app(&locks), app_with_force(&locks)] {
        assert_eq!(token(&app, "/locks/limits").await, "");
        assert!(get(&app, "/locks/limits").await.text.contains("No limit is set."));
        let answer = sent(&app, "/locks/limits", "same-origin", &set(&own)).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{}", answer.text);
    }
    assert!(locks.limits().list().await.unwrap().is_empty());
}

#[tokio::test]
async fn what_can_not_be_a_limit_is_refused_and_stays_in_the_form() {
    let locks = Locks::in_memory();
    let _mutex = locks.mutex("order").lock().await.unwrap();
    let app = app_with_limits(&locks);
    let token = token(&app, "/locks/limits").await;
    for (of, limit, why, problem) in [
        ("order", "1", "because", "only semaphores have a limit"),
        ("a", "-1", "because", "a whole number from 0"),
        ("a", "4294967296", "because", "a whole number from 0"),
        ("a", "1", " ", "Say who sets the limit, and why"),
        ("", "1", "because", "cannot be the name of a lock"),
    ] {
        let form = [("token", &*token), ("of", of), ("limit", limit), ("by", "ann"), ("why", why)];
        let answer = sent(&app, "/locks/limits", "same-origin", &form).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{of} {limit}");
        assert!(answer.text.contains(problem), "{problem}: {}", answer.text);
        assert!(answer.text.contains(&format!("value=\"{limit}\"")), "{}", answer.text);
    }
    assert!(locks.limits().list().await.unwrap().is_empty());
}
