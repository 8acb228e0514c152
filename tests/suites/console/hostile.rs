//! Names, notes, owners, services and hosts that want to be more than text.

use leasehold::{Locks, Wait};

use super::{app, app_with_force, client_as, get, lock_page, parameter};

/// A name that a page must not take for HTML, nor let it change what is around it.
pub(super) const NAMES: [&str; 12] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "</title></textarea><svg onload=alert(1)>",
    "javascript:alert(1)",
    "order:{42}",
    "../../etc/passwd?x=1&y=2#z",
    "a%2Fb+c d%00",
    "\u{202e}drow\u{2066}",
    "שלום עולם",
    "<!--live-->",
    "🔒 e\u{301} \u{200b}",
];

/// The text of a page without its own tags.
fn assert_harmless(text: &str, what: &str) {
    for bad in ["<script>", "<img", "<svg onload", "onerror=alert(1)>", "\u{202e}", "\u{1b}"] {
        // The name itself is in attributes as well: what is not seen is not harmful there.
        let body = text.split("<body>").nth(1).expect("a page");
        let seen: String = body.split("data-key=\"").enumerate().fold(String::new(), |all, it| {
            all + if it.0 == 0 { it.1 } else { it.1.split_once('"').map_or("", |it| it.1) }
        });
        let seen: String = seen.split("value=\"").enumerate().fold(String::new(), |all, it| {
            all + if it.0 == 0 { it.1 } else { it.1.split_once('"').map_or("", |it| it.1) }
        });
        assert!(!seen.contains(bad), "{what}: {bad:?} in {seen}");
    }
    assert_eq!(text.matches("<script").count(), 1, "{what}");
    assert_eq!(text.matches("<!doctype").count(), 1, "{what}");
    assert_eq!(text.matches("</main>").count(), 1, "{what}");
}

/// All pages show these names of locks as text, and their links lead to them.
pub(super) async fn all_pages_are_harmless(locks: &Locks) {
    let longest = "<b>".repeat(170);
    let names: Vec<_> = NAMES.into_iter().chain([longest.as_str()]).collect();
    let mut leases = Vec::new();
    for name in &names {
        let mutex =
            locks.mutex((*name).to_owned()).owner("<i>\u{202e}").note("<u>\x1b[31m\u{202e}");
        leases.push(mutex.lock().await.unwrap_or_else(|error| panic!("{name}: {error}")));
    }
    let app = app_with_force(locks);
    let list = get(&app, "/locks").await.text;
    let client = list.split("./locks/client?").nth(1).and_then(|it| it.split('"').next()).unwrap();
    let client = format!("/locks/client?{client}");
    let text = get(&app, &client).await.text;
    assert_eq!(text.matches("data-label=\"Does\">holds").count(), names.len(), "{text}");
    for page in ["/locks", "/locks/limits", "/locks/clients", &client, "/locks/doctor"] {
        assert_harmless(&get(&app, page).await.text, page);
    }
    assert_eq!(list.matches("<tr data-key").count(), names.len(), "{list}");
    let rows = list.split("<tbody>").nth(1).unwrap();
    let links = rows.split("<a href=\"./locks/lock?").skip(1);
    let links: Vec<_> = links.collect();
    assert_eq!(links.len(), names.len());
    for link in links.into_iter().map(|link| link.split('"').next().unwrap().replace("&#38;", "&"))
    {
        let answer = get(&app, &format!("/locks/lock?{link}")).await;
        assert!(answer.text.contains("<dd>held</dd>"), "{link}");
    }
    for name in &names {
        let search = format!("/locks?{}", parameter("q", name));
        for page in [lock_page(name), lock_page(name).replace("/lock?", "/force?"), search] {
            let answer = get(&app, &page).await;
            assert!(answer.status.is_success(), "{page}");
            assert_harmless(&answer.text, &page);
        }
        // The text is there: nothing was cut out of it.
        let text = get(&app, &lock_page(name)).await.text;
        let shown = text.split("<bdi class=\"name\">").nth(1).unwrap();
        let shown = shown.split("</bdi>").next().unwrap();
        for (entity, letter) in
            [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&#38;", "&")]
        {
            assert!(!shown.contains(letter) || letter == "&", "{shown}");
            assert_eq!(shown.matches(entity).count(), name.matches(letter).count(), "{shown}");
        }
    }
}

#[tokio::test]
async fn names_are_text() {
    all_pages_are_harmless(&client_as("<b>\u{202e}\x1b]0;x\x07", "<i>\0\r\n\r\nX: y").await).await;
}

/// What a page shows in a response to hostile parameters, which are nobody's name.
#[tokio::test]
async fn problems_are_text() {
    let app = app(&Locks::in_memory());
    for text in NAMES.into_iter().chain(["a\0<script>", "\u{1b}[31m\n<script>"]) {
        for page in ["", "lock", "lock-events", "force", "client"] {
            for name in ["name", "q", "kind", "sort", "page", "forced", "id"] {
                if page == "lock-events" && name == "name" && !text.contains(char::is_control) {
                    continue; // a stream
                }
                let slash = if page.is_empty() { "" } else { "/" };
                let page = format!("/locks{slash}{page}?{}", parameter(name, text));
                assert_harmless(&get(&app, &page).await.text, &page);
            }
        }
    }
}

/// A waiter's texts are as hostile as a holder's.
#[tokio::test]
async fn waiters_are_text() {
    let locks = client_as("<b>", "<i>").await;
    let _lease = locks.mutex("a").lock().await.unwrap();
    let mutex = locks.mutex("a").owner("<script>1").note("<script>2").wait(Wait::Forever);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    while locks.inspect("a").await.unwrap().waiting == 0 {
        tokio::task::yield_now().await;
    }
    let text = get(&app(&locks), &lock_page("a")).await.text;
    assert_harmless(&text, "a waiter");
    assert_eq!(text.matches("&#60;script&#62;").count(), 2, "{text}");
    waiting.abort();
}
