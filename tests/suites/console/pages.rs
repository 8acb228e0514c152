//! What the pages show, where they can be nested, and what they refuse.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures_util::StreamExt;
use futures_util::future::join_all;
use http::{Method, Request, StatusCode};
use leasehold::{Fault, Locks, Wait};
use leasehold_console::console;
use tokio::time::Instant;
use tower::ServiceExt;

use super::live::Viewer;
use super::{app, app_with_force, client_as, get, lock_page, send};

const LONG: Duration = Duration::from_secs(60);

/// The links, forms and files of a page.
fn links(text: &str) -> Vec<String> {
    let links = ["href=\"", "src=\"", "action=\"", "data-events=\""].iter().flat_map(|attribute| {
        text.split(attribute).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()))
    });
    links.filter(|link| !link.starts_with("data:") && !link.starts_with('#')).collect()
}

/// Follows a relative link as a browser does.
fn followed(page: &str, link: &str) -> String {
    let mut path = page.split('?').next().unwrap().rsplit_once('/').unwrap().0.to_owned();
    for part in link.split('?').next().unwrap().split('/').filter(|part| *part != ".") {
        path = match part {
            ".." => path.rsplit_once('/').expect("it does not leave the app").0.to_owned(),
            part => format!("{path}/{part}"),
        };
    }
    let query = link.split_once('?').map(|(_, query)| format!("?{}", query.replace("&#38;", "&")));
    path + &query.unwrap_or_default()
}

#[tokio::test]
async fn it_can_be_nested_anywhere() {
    let locks = Locks::in_memory();
    let _lease = locks.mutex("order:42").lock().await.unwrap();
    let apps = [
        ("", console(&locks)),
        ("/locks", Router::new().nest("/locks", console(&locks))),
        ("/a/b", Router::new().nest("/a", Router::new().nest("/b", console(&locks)))),
        ("/x:y/locks", Router::new().nest("/{tenant}/locks", console(&locks))),
        ("/service", Router::new().nest_service("/service", console(&locks))),
    ];
    for (base, app) in apps {
        let mut pages: Vec<_> = [
            "",
            "?q=order",
            "/lock?name=order:42",
            "/limits",
            "/clients",
            "/client?id=a",
            "/doctor",
        ]
        .map(|page| format!("{base}{page}"))
        .to_vec();
        if base.is_empty() {
            pages[..2].clone_from_slice(&["/".to_owned(), "/?q=order".to_owned()]);
        }
        if base == "/service" {
            pages.extend(["/service/".to_owned(), "/service/?q=order".to_owned()]);
        }
        for page in pages {
            let answer = get(&app, &page).await;
            assert_eq!(answer.status, StatusCode::OK, "{page}");
            let links = links(&answer.text);
            assert!(links.len() > 4, "{page}: {links:?}");
            for link in &links {
                assert!(link.starts_with("./") || link.starts_with("../"), "{page}: {link}");
                let target = followed(&page, link);
                if link.contains("events") {
                    // Links in what comes later lead to the same places.
                    let (_, html) = Viewer::of(&app, &target).await.next().await.unwrap();
                    for link in self::links(&html) {
                        assert!(links.contains(&link), "{page}: {link} and not of {links:?}");
                    }
                    continue;
                }
                assert_eq!(get(&app, &target).await.status, StatusCode::OK, "{page}: {link}");
            }
        }
        // A page that is not there leads to the list, however deep it is.
        let missing = format!("{base}/no/such/page");
        let answer = get(&app, &missing).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
        for link in links(&answer.text) {
            let target = followed(&missing, &link);
            assert_eq!(get(&app, &target).await.status, StatusCode::OK, "{missing}: {link}");
        }
    }
}

/// Without JavaScript, links and forms sort and search the list, and lead to the form that takes a lock.
#[tokio::test]
async fn links_and_forms_do_all_but_the_live_part() {
    let locks = Locks::in_memory();
    let _lease = locks.mutex("order:42").owner("worker-1").ttl(LONG).lock().await.unwrap();
    let _other = locks.mutex("invoice:1").ttl(LONG).lock().await.unwrap();
    let app = app_with_force(&locks);
    let open = async |page: &str| (page.to_owned(), get(&app, page).await.text);
    let link = |(page, text): &(String, String), part: &str| {
        let link = links(text).into_iter().find(|link| link.contains(part));
        followed(page, &link.unwrap_or_else(|| panic!("{page} has no {part}: {text}")))
    };
    let list = open("/locks").await;
    assert!(list.1.contains("<noscript><p class=\"hint\">Without JavaScript"), "{}", list.1);
    let by_name = open(&link(&list, "sort=name")).await;
    let reversed = open(&link(&by_name, "sort=-name")).await;
    for (list, is_reversed) in [(by_name, false), (reversed, true)] {
        let [invoice, order] = ["invoice:1", "order:42"].map(|name| list.1.rfind(name).unwrap());
        assert_eq!(order < invoice, is_reversed, "{}", list.1);
    }
    assert!(list.1.contains("method=\"get\" action=\"./locks\"") && list.1.contains(" name=\"q\""));
    let found = open("/locks?q=order&kind=").await;
    assert!(!found.1.contains("invoice:1"), "{}", found.1);
    let lock = open(&link(&found, "/lock?name=order%3A42")).await;
    assert!(lock.1.contains("worker-1"), "{}", lock.1);
    let form = open(&link(&lock, "/force?")).await;
    // `force::a_lock_is_taken` sends these fields there.
    assert_eq!(link(&form, "/force"), "/locks/force");
    assert!(form.1.contains("<form class=\"force\" method=\"post\""), "{}", form.1);
    for field in ["name", "token", "seen", "confirm", "reason"] {
        assert!(form.1.contains(&format!(" name=\"{field}\"")), "{field}: {}", form.1);
    }
}

#[tokio::test]
async fn each_response_is_protected() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let app = app(&locks);
    let mut pages =
        ["", "/lock?name=a", "/limits", "/clients", "/doctor", "/script.js", "/style.css"]
            .map(|page| format!("/locks{page}"))
            .to_vec();
    pages.extend(["/locks/none", "/locks/lock", "/locks?kind=x"].map(str::to_owned));
    for is_down in [false, true] {
        if is_down {
            faults.always(Fault::Refuse);
        }
        for page in &pages {
            let answer = get(&app, page).await;
            let policy = answer.header("content-security-policy");
            assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{page}");
            assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"));
            assert_eq!(answer.header("x-content-type-options"), "nosniff", "{page}");
            assert_eq!(answer.header("referrer-policy"), "same-origin", "{page}");
            let is_file = page.ends_with("js") || page.ends_with("css");
            let kept = if is_file { "no-cache" } else { "no-store" };
            assert_eq!(answer.header("cache-control"), kept, "{page}");
            // The policy forbids both.
            assert!(is_file || !answer.text.contains("style="), "{page}");
            assert!(is_file || !answer.text.contains("<script>"), "{page}");
        }
    }
}

#[tokio::test]
async fn a_browser_may_keep_the_files() {
    let app = app(&Locks::in_memory());
    let page = get(&app, "/locks").await.text;
    for link in links(&page).iter().filter(|link| link.contains("?v=")) {
        let file = get(&app, &followed("/locks", link)).await;
        assert!(file.header("cache-control").contains("immutable"), "{link}");
        let request = Request::get(followed("/locks", link));
        let request = request.header("if-none-match", file.header("etag"));
        let again = send(&app, request.body(Body::empty()).unwrap()).await;
        assert_eq!((again.status, &*again.text), (StatusCode::NOT_MODIFIED, ""), "{link}");
    }
}

#[tokio::test]
async fn the_list_has_all_kinds_and_finds_them() {
    let locks = client_as("billing", "host-1").await;
    let _mutex = locks.mutex("order:1").lock().await.unwrap();
    let _semaphore = locks.semaphore("reports", 4).acquire_many(2).await.unwrap();
    let _reader = locks.rw_lock("catalogue").read().await.unwrap();
    let _owner = locks.reentrant_mutex("order:2").owner("me").lock().await.unwrap();
    let kept = locks.mutex("nightly").hold_at_least(LONG).lock().await.unwrap();
    kept.release().await.unwrap();
    let app = app(&locks);
    let all = ["catalogue", "nightly", "order:1", "order:2", "reports"];
    let cases: [(&str, &[&str]); 8] = [
        ("?sort=name", &all),
        ("?q=&sort=name", &all),
        ("?q=order&sort=name", &["order:1", "order:2"]),
        ("?q=*1", &["order:1"]),
        ("?q=order:?&kind=reentrant", &["order:2"]),
        ("?kind=rw", &["catalogue"]),
        ("?kind=semaphore&q=port", &["reports"]),
        ("?q=none", &[]),
    ];
    for (query, wanted) in cases {
        let answer = get(&app, &format!("/locks{query}")).await;
        assert_eq!(answer.status, StatusCode::OK);
        let rows = answer.text.split("<tr data-key=\"").skip(1);
        let names: Vec<_> = rows.map(|row| row.split('"').next().unwrap()).collect();
        assert_eq!(names, wanted, "{query}");
    }
    let text = get(&app, "/locks").await.text;
    assert!(text.contains("billing on host-1") && text.contains("kept for 59s"), "{text}");
}

#[tokio::test]
async fn a_lock_is_shown_with_its_holders_and_its_queue() {
    let locks = client_as("billing", "host-1").await;
    let mutex = locks.mutex("order:42");
    let lease = mutex.clone().owner("worker-7").note("TICKET-7").lock().await.unwrap();
    let waiting = mutex.owner("worker-8").note("TICKET-8").wait(Wait::Forever);
    let waiting = tokio::spawn(async move { waiting.lock().await });
    while locks.inspect("order:42").await.unwrap().waiting == 0 {
        tokio::task::yield_now().await;
    }
    let text = get(&app(&locks), &lock_page("order:42")).await.text;
    let fence = lease.fence().unwrap().to_string();
    for wanted in
        ["worker-7", "TICKET-7", "worker-8", "TICKET-8", "process 4242", "billing", &fence]
    {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(!text.contains("force"), "it only shows");
    waiting.abort();

    let text = get(&app(&locks), &lock_page("free")).await.text;
    assert!(text.contains("<dd>free</dd>") && text.contains("Nobody holds it"), "{text}");
    // A name that no literal of a program may have.
    let braces = get(&app(&locks), &lock_page("{id}")).await;
    assert_eq!(braces.status, StatusCode::OK);
}

#[tokio::test]
async fn clients_are_counted() {
    let locks = client_as("billing", "host-1").await;
    let _two = join_all(["a", "b"].map(async |name| locks.mutex(name).try_lock().await)).await;
    let text = get(&app(&locks), "/locks/clients").await.text;
    let row = text.split("<tbody>").nth(1).unwrap().split("</tbody>").next().unwrap();
    assert!(row.contains("billing") && row.contains("host-1") && row.contains("4242"), "{row}");
    assert!(row.contains("data-label=\"Holds\">2<"), "{row}");
    assert_eq!(row.matches("<tr>").count(), 1);
}

/// A page has 200 rows, and there are 50 pages. Each lock is on one of them.
#[tokio::test]
async fn pages_are_bounded() {
    let locks = Locks::in_memory();
    let names = (0..450).map(|n| format!("lock:{n:03}"));
    let leases = names.map(async |name| locks.mutex(name).ttl(LONG).try_lock().await);
    let _leases = join_all(leases).await;
    let app = app(&locks);
    let mut seen = std::collections::BTreeSet::new();
    for (page, count, wanted) in [("1", 200, "2"), ("2", 200, "3"), ("3", 50, "")] {
        let text = get(&app, &format!("/locks?q=lock&sort=name&page={page}")).await.text;
        let rows = text.split("<tr data-key=\"").skip(1);
        let names: Vec<_> = rows.map(|row| row.split('"').next().unwrap().to_owned()).collect();
        assert_eq!(names.len(), count, "page {page}");
        seen.extend(names);
        let next = text.split("rel=\"next\"").count() > 1;
        assert_eq!(next, !wanted.is_empty(), "page {page}");
        assert_eq!(text.contains(&format!("page={wanted}\" rel=\"next\"")), next);
        assert_eq!(text.contains("data-events"), page == "1", "only the first page is live");
    }
    assert_eq!(seen.len(), 450);
    for page in ["0", "51", "-1", "x", "1.5", "99999999999999999999"] {
        let answer = get(&app, &format!("/locks?page={page}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{page}");
    }
}

#[tokio::test]
async fn odd_requests_are_refused() {
    let app = app(&Locks::in_memory());
    let long = format!("/locks?q={}", "a".repeat(513));
    let huge = format!("/locks?q={}", "a".repeat(20_000));
    let no_name = lock_page(&"x".repeat(600));
    for path in [
        "/locks?q=%ff",
        "/locks/lock?name=%C3%28",
        "/locks?kind=nothing",
        "/locks?sort=nothing",
        "/locks?sort=-",
        "/locks/lock",
        "/locks/lock?name=",
        "/locks/lock?name=a%00b",
        "/locks/lock?nom=a",
        "/locks/lock-events?name=",
        "/locks/list-events?kind=x",
        &long,
        &huge,
        &no_name,
    ] {
        let answer = get(&app, path).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
        assert!(answer.text.contains("<h1>"), "{path}: a page");
    }
    for path in ["/locks", "/locks/lock?name=a", "/locks/limits", "/locks/clients", "/locks/doctor"]
    {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            let request = Request::builder().method(&method).uri(path);
            let answer = send(&app, request.body(Body::empty()).unwrap()).await;
            assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        }
        let head = Request::head(path).body(Body::empty()).unwrap();
        assert_eq!(send(&app, head).await.status, StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_store_is_said() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let _leases =
        join_all(["a", "b"].map(async |name| locks.mutex(name).ttl(LONG).try_lock().await)).await;
    let app = app(&locks);
    faults.always(Fault::Refuse);
    for page in ["/locks", "/locks?q=a", "/locks/lock?name=a", "/locks/clients"] {
        let answer = get(&app, page).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{page}");
        assert!(answer.text.contains("The lock store failed"), "{page}: {}", answer.text);
        assert!(answer.text.contains("Check that the server runs"), "{page}");
        // It recovers by itself.
        assert_eq!(answer.text.contains("data-events"), page != "/locks/clients", "{page}");
    }
    faults.heal();
    assert_eq!(get(&app, "/locks").await.status, StatusCode::OK);
    // Nothing else is known of this list: what was found is shown.
    faults.pass(2);
    faults.next(Fault::Refuse);
    let answer = get(&app, "/locks?sort=for").await;
    assert_eq!(answer.text.matches("<tr data-key").count(), 1);
    assert!(answer.text.contains("The list ends here"), "{}", answer.text);
    assert!(answer.text.ends_with("</html>\n") || answer.text.ends_with("</html>"));
}

/// The head does not wait for a slow store. What was found within 5 seconds follows.
#[tokio::test(start_paused = true)]
async fn the_head_comes_before_the_locks() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let names = ["a", "b", "c"];
    let lease = async |name| locks.mutex(name).ttl(LONG).try_lock().await;
    let _leases = join_all(names.map(lease)).await;
    faults.pass(2);
    faults.always(Fault::Delay(Duration::from_secs(10)));
    let begun = Instant::now();
    let request = Request::get("/locks").body(Body::empty()).unwrap();
    let response = app(&locks).oneshot(request).await.unwrap();
    let mut body = response.into_body().into_data_stream();
    let mut chunks = Vec::new();
    while let Some(chunk) = body.next().await {
        let text = String::from_utf8(chunk.unwrap().into()).unwrap();
        let count = text.matches("<tr data-key").count();
        chunks.push((begun.elapsed().as_secs(), text.contains("<h1>"), count));
        assert_eq!(text.contains("it has looked at 1."), count > 0, "{text}");
        assert_eq!(text.contains("looks again after 50s"), count > 0, "{text}");
    }
    assert_eq!(chunks, [(2, true, 0), (5, false, 1)]);
}

/// The page about the servers does not call them healthy if it knows nothing.
#[tokio::test]
async fn the_doctor_knows_what_it_has_not_read() {
    let text = get(&app(&Locks::in_memory()), "/locks/doctor").await.text;
    assert!(text.contains("nothing was read") && !text.contains("class=\"box done\""), "{text}");
}

/// The one that hangs, and not the one whose lease ends first.
#[tokio::test(start_paused = true)]
async fn a_row_names_the_holder_that_has_held_longest() {
    let (hangs, faults) = Locks::in_memory_with_faults();
    let works = Locks::over(faults.store().clone());
    let minute = std::time::Duration::from_secs(60);
    let _hangs = hangs.semaphore("pool", 2).ttl(minute).note("old").acquire().await.unwrap();
    tokio::time::sleep(minute / 3000).await;
    let _works = works.semaphore("pool", 2).ttl(minute / 12).acquire().await.unwrap();
    let info = hangs.inspect("pool").await.unwrap();
    let longest = info.longest_holder().unwrap();
    assert_eq!(longest.note.as_deref(), Some("old"));
    assert!(info.holders[0].note.is_none(), "the other one ends first");
    let page = get(&app(&hangs), "/locks").await.text;
    let since = leasehold_console::short(longest.held_for.unwrap());
    assert!(page.contains(&since[..2]), "{page}");
}
