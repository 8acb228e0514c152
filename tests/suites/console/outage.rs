//! What people still see while the lock store does not answer.

use std::time::Duration;

use http::StatusCode;
use leasehold::{Fault, Locks};
use tokio::time::{sleep, timeout};

use super::live::Viewer;
use super::{app, app_with_force, get, lock_page};

const LONG: Duration = Duration::from_secs(600);

/// The next event of which this is true.
async fn event(viewer: &mut Viewer, is_it: impl Fn(&str) -> bool) -> String {
    let seen = async {
        loop {
            let (_, html) = viewer.next().await.expect("it goes on");
            if is_it(&html) {
                return html;
            }
        }
    };
    timeout(Duration::from_secs(9), seen).await.expect("such an event")
}

fn is_down(html: &str) -> bool {
    html.contains("data-down")
}

#[tokio::test(start_paused = true)]
async fn what_was_seen_last_stays_with_its_age() {
    for (page, events) in [
        ("/locks/lock?name=a", "/locks/lock-events?name=a"),
        ("/locks", "/locks/list-events?from=root"),
    ] {
        let (locks, faults) = Locks::in_memory_with_faults();
        let _lease = locks.mutex("a").owner("worker-1").ttl(LONG).lock().await.unwrap();
        let app = app(&locks);
        let mut viewer = Viewer::of(&app, events).await;
        let healthy = event(&mut viewer, |html| html.contains("data-label")).await;
        assert!(!is_down(&healthy), "{healthy}");
        faults.always(Fault::Refuse);
        // Its age grows, and it says why it is not newer.
        for age in ["as of 2.", "as of 4."] {
            let html = event(&mut viewer, |html| html.contains(age)).await;
            assert!(is_down(&html) && html.contains("The lock store failed"), "{html}");
            // The time of day stays right if the page no longer changes.
            assert!(html.contains(" UTC); the store does not answer"), "{html}");
            assert!(html.contains("data-label") && html.contains("role=\"alert\""), "{html}");
            if page.contains("name=a") {
                assert!(html.contains("worker-1"), "{html}");
            }
        }
        // Who opens the page only now sees it too.
        let answer = get(&app, page).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(is_down(&answer.text) && answer.text.contains("as of "), "{}", answer.text);
        assert!(answer.text.contains("data-label"), "{}", answer.text);
        faults.heal();
        event(&mut viewer, |html| !is_down(html) && html.contains("data-label")).await;
        assert!(!is_down(&get(&app, page).await.text));
    }
}

/// A page that was opened before is enough: no stream has to have been open.
#[tokio::test(start_paused = true)]
async fn a_page_remembers_without_javascript() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let _lease = locks.mutex("a").owner("worker-1").ttl(LONG).lock().await.unwrap();
    let app = app(&locks);
    assert!(get(&app, &lock_page("a")).await.text.contains("worker-1"));
    faults.always(Fault::Refuse);
    sleep(Duration::from_secs(75)).await;
    let text = get(&app, &lock_page("a")).await.text;
    assert!(text.contains("as of 1m15s ago") && text.contains("worker-1"), "{text}");
    // Nothing is known of another lock.
    let text = get(&app, &lock_page("b")).await.text;
    assert!(is_down(&text) && !text.contains("as of") && !text.contains("worker-1"), "{text}");
}

/// A store that hangs is down as well, whatever time its commands may take.
#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_down() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let _lease = locks.mutex("a").owner("worker-1").ttl(LONG).lock().await.unwrap();
    let app = app(&locks);
    let mut viewer = Viewer::of(&app, "/locks/lock-events?name=a").await;
    event(&mut viewer, |html| html.contains("worker-1")).await;
    faults.always(Fault::Delay(Duration::from_secs(3_600)));
    let html = event(&mut viewer, is_down).await;
    assert!(html.contains("no answer within 3.0s") && html.contains("worker-1"), "{html}");
}

/// The button is red only where something can be taken.
#[tokio::test(start_paused = true)]
async fn nothing_can_be_taken_from_nobody_or_in_an_outage() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let app = app_with_force(&locks);
    let can_take = async || {
        let text = get(&app, &lock_page("a")).await.text;
        let is_red = text.contains("class=\"button danger\"");
        assert_eq!(text.contains("./force?name=a"), is_red, "{text}");
        assert_eq!(text.contains("aria-disabled=\"true\""), !is_red, "{text}");
        is_red
    };
    assert!(!can_take().await, "it is free");
    let kept = locks.mutex("a").ttl(LONG).hold_at_least(Duration::from_secs(5));
    let lease = kept.lock().await.unwrap();
    assert!(can_take().await);
    faults.always(Fault::Refuse);
    assert!(!can_take().await, "the store is down");
    faults.heal();
    assert!(can_take().await);
    lease.release().await.unwrap();
    assert!(can_take().await, "it is kept");
    sleep(Duration::from_secs(6)).await;
    assert!(!can_take().await, "it is free again");

    // The live part has the button, so that it follows.
    let mut viewer = Viewer::of(&app, "/locks/lock-events?name=a").await;
    event(&mut viewer, |html| html.contains("aria-disabled")).await;
    let _lease = locks.mutex("a").ttl(LONG).lock().await.unwrap();
    event(&mut viewer, |html| html.contains("class=\"button danger\"")).await;
    faults.always(Fault::Refuse);
    event(&mut viewer, |html| is_down(html) && !html.contains("danger")).await;
}
