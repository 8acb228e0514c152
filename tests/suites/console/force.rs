//! Taking a lock: who may, and which forms are refused.

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode};
use leasehold::{Fault, Locks, LossReason};
use leasehold_tests::logs::LogRecorder;
use tracing::Level;

use super::{Answer, app, app_with_force, client_as, get, lock_page, parameter, send};

/// A form as a browser sends it from the console's own page.
struct Form {
    headers: Vec<(&'static str, &'static str)>,
    fields: Vec<(&'static str, String)>,
}

impl Form {
    async fn of(app: &Router, name: &str) -> Self {
        let page = get(app, &lock_page(name).replace("/lock?", "/force?")).await.text;
        let hidden = |name: &str| {
            let from = page.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap_or_default();
            from.split('"').next().unwrap_or_default().to_owned()
        };
        let (token, seen) = (hidden("token"), hidden("seen"));
        let fields = vec![
            ("seen", seen),
            ("name", name.to_owned()),
            ("token", token),
            ("confirm", name.to_owned()),
            ("reason", "stuck since noon".to_owned()),
        ];
        let headers = vec![
            ("host", "app.example"),
            ("sec-fetch-site", "same-origin"),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        Self { headers, fields }
    }

    fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.retain(|(it, _)| *it != name);
        self.headers.extend((!value.is_empty()).then_some((name, value)));
        self
    }

    fn field(mut self, name: &'static str, value: &str) -> Self {
        self.fields.retain(|(it, _)| *it != name);
        self.fields.push((name, value.to_owned()));
        self
    }

    async fn send(&self, app: &Router) -> Answer {
        let fields = self.fields.iter().map(|(name, value)| parameter(name, value));
        let body = fields.collect::<Vec<_>>().join("&");
        let mut request = Request::post("/locks/force");
        for (name, value) in &self.headers {
            request = request.header(*name, *value);
        }
        send(app, request.body(Body::from(body)).unwrap()).await
    }
}

#[tokio::test]
async fn a_console_that_only_shows_has_no_way_to_take_a_lock() {
    let locks = Locks::in_memory();
    let lease = locks.mutex("a").lock().await.unwrap();
    let app = app(&locks);
    assert_eq!(get(&app, "/locks/force?name=a").await.status, StatusCode::NOT_FOUND);
    let form = Form::of(&app, "a").await;
    let answer = form.send(&app).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert!(!get(&app, "/locks/lock?name=a").await.text.contains("/force"));
    assert!(lease.fence().is_ok());
}

#[tokio::test]
async fn a_lock_is_taken() {
    let (log, _guard) = LogRecorder::start(Level::INFO);
    let locks = Locks::in_memory();
    let lease = locks.mutex("order:42").owner("worker-7").lock().await.unwrap();
    let old = lease.fence().unwrap();
    let app = app_with_force(&locks);
    let page = get(&app, "/locks/lock?name=order:42").await.text;
    assert!(page.contains("./force?name=order%3A42"), "{page}");
    assert!(get(&app, "/locks/force?name=order:42").await.text.contains("worker-7"));

    let form = Form::of(&app, "order:42").await.field("reason", "stuck\u{1b}[31m\nsince");
    let answer = form.send(&app).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
    assert_eq!(lease.lost().await, LossReason::Forced);
    let next = answer.header("location").replacen("./", "/locks/", 1);
    let text = get(&app, &next).await.text;
    let fence = text.split("tabindex=\"0\">").nth(1).unwrap().split('<').next().unwrap();
    assert!(fence.parse::<u64>().unwrap() > old.get(), "{fence}");
    assert!(text.contains("1 holder lost it"), "{text}");

    let log = log.take();
    assert!(log.contains("a person took a lock by force in the console"), "{log}");
    assert!(log.contains(r#"reason="stuck\u{1b}[31m\nsince""#), "{log}");
    assert!(!log.contains("order:42"), "names are for `debug`: {log}");

    // Nobody can make a link that claims such a thing, for this lock or for another.
    for link in ["/locks/lock?name=order:42&forced=7", &next.replace("order%3A42", "other")] {
        assert!(!get(&app, link).await.text.contains("The lock was taken"), "{link}");
    }
    // The same form again: nobody holds it.
    let again = form.send(&app).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    assert!(
        again.text.contains("Nobody of those who were shown holds the lock any more"),
        "{}",
        again.text
    );
}

/// A page may be open for an hour. Whoever has the lock since is not in it.
#[tokio::test]
async fn whoever_was_not_shown_loses_nothing() {
    let locks = Locks::in_memory();
    let (first, second) = (locks.mutex("a"), locks.mutex("a"));
    let lease = first.lock().await.unwrap();
    let app = app_with_force(&locks);
    let form = Form::of(&app, "a").await;
    lease.release().await.unwrap();
    let lease = second.owner("innocent").lock().await.unwrap();
    let answer = form.send(&app).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    assert!(answer.text.contains("Others hold the lock by now"), "{}", answer.text);
    assert!(answer.text.contains("innocent") && lease.fence().is_ok(), "{}", answer.text);
    // The page shows who has it now, and takes it from them.
    assert_eq!(Form::of(&app, "a").await.send(&app).await.status, StatusCode::SEE_OTHER);
    assert_eq!(lease.lost().await, LossReason::Forced);
}

/// The permits of a busy semaphore go to others all the time. The one that is stuck can be taken.
#[tokio::test]
async fn a_permit_is_taken_beside_newcomers() {
    let locks = Locks::in_memory();
    let pool = locks.semaphore("pool", 3);
    let (stuck, before) = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    let app = app_with_force(&locks);
    let form = Form::of(&app, "pool").await;
    before.release().await.unwrap();
    let newcomer = pool.acquire().await.unwrap();
    let answer = form.send(&app).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
    assert_eq!(stuck.lost().await, LossReason::Forced);
    assert!(newcomer.is_held() && locks.inspect("pool").await.unwrap().held == 1);
}

/// What is to be typed is typed by a person.
#[tokio::test]
async fn no_link_fills_the_form_in() {
    let locks = Locks::in_memory();
    let _lease = locks.mutex("a").lock().await.unwrap();
    let app = app_with_force(&locks);
    let page = get(&app, "/locks/force?name=a&confirm=x:1&reason=x:2&by=x:3&seen=x:4").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(!page.text.contains("x:"), "{}", page.text);
}

#[tokio::test]
async fn forged_forms_are_refused() {
    let locks = Locks::in_memory();
    let lease = locks.mutex("a").lock().await.unwrap();
    let _other = locks.mutex("b").lock().await.unwrap();
    let app = app_with_force(&locks);
    let own = async || Form::of(&app, "a").await;
    let elsewhere = Form::of(&app_with_force(&locks), "a").await;
    let other_process = elsewhere.fields.iter().find(|it| it.0 == "token").unwrap().1.clone();
    let long = "x".repeat(10_000);
    let no_site = async || own().await.header("sec-fetch-site", "");
    let cases = [
        ("another site", own().await.header("sec-fetch-site", "cross-site"), 403),
        ("a site beside it", own().await.header("sec-fetch-site", "same-site"), 403),
        ("no page", own().await.header("sec-fetch-site", "none"), 403),
        ("odd", own().await.header("sec-fetch-site", "SAME-ORIGIN, same-origin"), 403),
        ("no browser", no_site().await, 403),
        ("another origin", no_site().await.header("origin", "http://evil.example"), 403),
        ("another port", no_site().await.header("origin", "http://app.example:81"), 403),
        ("no origin", no_site().await.header("origin", "null"), 403),
        ("a prefix", no_site().await.header("origin", "http://app.example.evil.example"), 403),
        (
            "an origin that is right, from another site",
            own()
                .await
                .header("sec-fetch-site", "cross-site")
                .header("origin", "http://app.example"),
            403,
        ),
        ("no token", own().await.field("token", ""), 403),
        ("a wrong token", own().await.field("token", &"0".repeat(36)), 403),
        ("the token of another process", own().await.field("token", &other_process), 403),
        ("no form", own().await.header("content-type", "text/plain"), 415),
        ("no type", own().await.header("content-type", ""), 415),
        ("JSON", own().await.header("content-type", "application/json"), 415),
        ("too long", own().await.field("reason", &long), 413),
        ("another name", own().await.field("confirm", "b"), 422),
        ("no name typed", own().await.field("confirm", ""), 422),
        ("no reason", own().await.field("reason", " \t "), 422),
        ("a long reason", own().await.field("reason", &"x".repeat(201)), 422),
        ("no name", own().await.field("name", "").field("confirm", ""), 400),
    ];
    for (what, form, status) in cases {
        let answer = form.send(&app).await;
        assert_eq!(answer.status.as_u16(), status, "{what}: {}", answer.text);
        assert!(answer.text.contains("<h1>"), "{what}: a page");
        assert!(lease.fence().is_ok(), "{what}");
        assert_eq!(locks.inspect("a").await.unwrap().held, 1, "{what}");
    }
    // Over HTTP to another host, browsers send the origin alone.
    let plain = no_site().await.header("origin", "http://APP.example");
    assert_eq!(plain.send(&app).await.status, StatusCode::SEE_OTHER);
    assert_eq!(lease.lost().await, LossReason::Forced);
}

/// What was typed is still there when the form is refused. A name that can't be typed is typed as
/// it is shown.
#[tokio::test]
async fn a_name_is_confirmed_as_it_is_shown() {
    let locks = Locks::in_memory();
    let name = "pay\u{202e}yap\u{200b}";
    let lease = locks.mutex(name).lock().await.unwrap();
    let app = app_with_force(&locks);
    let form = Form::of(&app, name).await.field("confirm", "payyap").field("reason", "<because>");
    let answer = form.send(&app).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(answer.text.contains("value=\"payyap\""), "{}", answer.text);
    assert!(answer.text.contains("value=\"&#60;because&#62;\""), "{}", answer.text);
    let form = form.field("confirm", r" pay\u{202e}yap\u{200b} ");
    assert_eq!(form.send(&app).await.status, StatusCode::SEE_OTHER);
    assert_eq!(lease.lost().await, LossReason::Forced);
}

#[tokio::test]
async fn a_store_that_fails_is_said() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("a").lock().await.unwrap();
    let app = app_with_force(&locks);
    let form = Form::of(&app, "a").await;
    faults.always(Fault::Refuse);
    assert_eq!(form.send(&app).await.status, StatusCode::SERVICE_UNAVAILABLE);
    let page = get(&app, "/locks/force?name=a").await;
    assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE);
    faults.heal();
    assert!(lease.fence().is_ok());
}

/// Who takes a lock learns whom to end, and how if the holder is `leasehold run`.
#[tokio::test]
async fn it_says_whom_to_end_and_how() {
    const ENDING: [&str; 2] = ["kill 4242; kill -CONT 4242", "pkill -KILL -P 4242"];
    for (service, runs) in [("leasehold run backup.sh", true), ("billing", false)] {
        let locks = client_as(service, "host-1").await;
        let lease = locks.mutex("nightly").owner("cron").note("TICKET-7").lock().await.unwrap();
        let app = app_with_force(&locks);
        let shown = get(&app, &lock_page("nightly")).await.text;
        let confirmed = get(&app, "/locks/force?name=nightly").await.text;
        assert_eq!(confirmed.contains("<code>leasehold run</code> holds it."), runs, "{confirmed}");
        let answer = Form::of(&app, "nightly").await.send(&app).await;
        let page = answer.header("location").replacen("./", "/locks/", 1);
        assert_eq!(lease.lost().await, LossReason::Forced);
        let taken = get(&app, &page).await.text;
        let box_of = taken.split("The lock was taken").nth(1).unwrap();
        let box_of = box_of.split("</div>").next().unwrap();
        for text in ["End the former holder, too", service, "host-1", "4242", "cron", "TICKET-7"] {
            assert!(box_of.contains(text), "{text}: {box_of}");
        }
        for ending in ENDING {
            for text in [&*shown, &*confirmed, box_of] {
                assert_eq!(text.contains(ending), runs, "{service}, {ending}: {text}");
            }
        }
    }
}

/// What `hold_at_least` keeps is taken, too.
#[tokio::test]
async fn a_lock_that_is_kept_is_taken() {
    let locks = Locks::in_memory();
    let kept = locks.mutex("a").hold_at_least(std::time::Duration::from_secs(60));
    kept.lock().await.unwrap().release().await.unwrap();
    let app = app_with_force(&locks);
    let page = get(&app, "/locks/force?name=a").await.text;
    assert!(page.contains("keeps it for another") && page.contains("<form"), "{page}");
    assert_eq!(Form::of(&app, "a").await.send(&app).await.status, StatusCode::SEE_OTHER);
    assert!(locks.mutex("a").try_lock().await.is_ok());
}

/// Whoever looks at the lock later sees who took it, and why.
#[tokio::test]
async fn who_took_a_lock_is_shown() {
    let locks = Locks::in_memory();
    let app = app_with_force(&locks);
    for (by, shown) in [("", "somebody in the console"), ("ann <b>", "ann &#60;b&#62;")] {
        let _lease = locks.mutex("a").lock().await.unwrap();
        let form = Form::of(&app, "a").await.field("by", by);
        assert_eq!(form.send(&app).await.status, StatusCode::SEE_OTHER);
        let page = get(&app, "/locks/lock?name=a").await.text;
        let said = format!("from 1 holder, by {shown}: stuck since noon");
        assert!(page.contains("Taken by force") && page.contains(&said), "{page}");
    }
}
