//! Which server and which prefix the pages show.

use axum::Router;
use leasehold::{Fault, Locks};
use leasehold_console::Console;

use super::{app, get};

const PAGES: [&str; 10] = [
    "",
    "?q=a",
    "?kind=none",
    "/lock?name=a",
    "/force?name=a",
    "/jobs",
    "/limits",
    "/clients",
    "/doctor",
    "/no/such/page",
];

#[tokio::test]
async fn each_page_says_which_server_and_which_prefix() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let _lease = locks.mutex("a").lock().await.unwrap();
    let console = Console::new(&locks)
        .server_name("rediss://user:secret@redis-1:6379/2?protocol=resp3")
        .prefix("bill<b>ing")
        .allow_force(true);
    let app = Router::new().nest("/locks", console.router());
    for is_down in [false, true] {
        if is_down {
            faults.always(Fault::Refuse);
        }
        for page in PAGES {
            let text = get(&app, &format!("/locks{page}")).await.text;
            for wanted in [
                " on redis-1:6379/2</title>",
                "<dt>Server</dt> <dd><bdi>redis-1:6379/2</bdi></dd>",
                "<dt>Prefix</dt> <dd><bdi>bill&#60;b&#62;ing</bdi></dd>",
            ] {
                assert!(text.contains(wanted), "{page} has no {wanted}: {text}");
            }
            assert!(!text.contains("secret") && !text.contains("user:"), "{page}: {text}");
        }
    }
}

/// A console that does not know them says nothing of them.
#[tokio::test]
async fn a_console_without_a_name_names_no_server() {
    let text = get(&app(&Locks::in_memory()), "/locks").await.text;
    assert!(!text.contains("<dt>Server</dt>") && !text.contains("<dt>Prefix</dt>"), "{text}");
    assert!(text.contains(" – Leasehold</title>"), "{text}");
}
