//! The console in a real browser: what people do with it, what an attacker would like it to do, and
//! who can read it.

mod chromium;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use leasehold::store::Store;
use leasehold::store::memory::MemoryStore;
use leasehold::{Fault, Lease, Locks, LossReason, Wait};
use leasehold_console::Console;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{until, work_for};
use tokio::net::TcpListener;
use tokio::runtime::{self, Runtime};
use tokio::task::JoinHandle;

use self::chromium::Tab;
use super::{app_with_force, client_as, client_on, hostile};

const LONG: Duration = Duration::from_secs(60);

/// Serves an app until this is dropped, in a runtime of its own.
struct Served {
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Served {
    async fn at(address: &str, app: Router) -> Self {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let address = address.to_owned();
        let listener = runtime.spawn(async { TcpListener::bind(address).await.unwrap() });
        let listener = listener.await.unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, runtime: Some(runtime) }
    }

    /// Ends all connections.
    fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    async fn start(app: Router) -> Self {
        Self::at("127.0.0.1:0", app).await
    }

    fn url(&self, page: &str) -> String {
        format!("http://{}/locks{page}", self.address)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Nothing went wrong in the page, and it asked no other host.
async fn assert_clean(tab: &mut Tab, console: &Served) {
    let report = tab.report().await;
    assert!(report.errors.is_empty(), "{:#?}", report.errors);
    assert!(!report.requests.is_empty());
    let own = format!("http://{}/locks", console.address);
    for request in report.requests {
        assert!(request.starts_with(&own) || request.starts_with("data:"), "{request}");
    }
}

/// Somebody who waits for a lock, until this is aborted.
async fn waiter(locks: &Locks, name: &str, owner: &str) -> JoinHandle<Lease> {
    let before = locks.inspect(name.to_owned()).await.unwrap().waiting;
    let waiting = locks.mutex(name.to_owned()).owner(owner).note("waits its turn");
    let waiting = waiting.wait(Wait::Forever);
    let waiting = tokio::spawn(async move { waiting.lock().await.unwrap() });
    let queued = async || locks.inspect(name.to_owned()).await.unwrap().waiting;
    until("one more waits", async || queued().await > before).await;
    waiting
}

/// With the keyboard alone, somebody finds a lock, sees it change hands, and takes it.
#[tokio::test]
async fn a_lock_is_found_watched_and_taken_with_the_keyboard() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let (here, there) = (locks.mutex("order:42"), Locks::connect(&server.url()).await.unwrap());
    let _other = locks.mutex("invoice:1").lock().await.unwrap();
    let lease = here.owner("worker-1").lock().await.unwrap();
    let console = Served::start(app_with_force(&locks)).await;
    let mut tab = Tab::open().await;

    tab.go(&console.url("")).await;
    tab.sees("invoice:1").await;
    tab.press("Tab").await;
    let first = tab.value("document.activeElement.textContent").await;
    assert_eq!(first, "Skip to the content");
    tab.tab_to("it.id === 'q'").await;
    tab.write("order").await;
    tab.press("Enter").await;
    tab.loaded().await;
    let text = tab.text().await;
    assert!(text.contains("order:42") && !text.contains("invoice:1"), "{text}");
    tab.sees("Live").await;

    tab.tab_to("it.textContent === 'order:42'").await;
    tab.press("Enter").await;
    tab.loaded().await;
    tab.sees("worker-1").await;
    tab.sees("Live").await;
    tab.tab_to("it.textContent.startsWith('Take the lock')").await;
    tab.value("window.same = document.activeElement").await;
    let waiting = waiter(&there, "order:42", "worker-2").await;
    tab.sees("waits its turn").await;
    lease.release().await.unwrap();
    let lease = waiting.await.unwrap();
    tab.until("!document.body.innerText.includes('worker-1')").await;
    tab.sees("Nobody waits for it").await;
    tab.until("document.querySelectorAll('.chart polyline.held').length > 0").await;
    tab.until("window.same === document.activeElement && window.same.isConnected").await;

    tab.press("Enter").await;
    tab.loaded().await;
    tab.tab_to("it.id === 'confirm'").await;
    tab.write("order:41").await;
    tab.tab_to("it.id === 'reason'").await;
    tab.write("worker-2 is stuck").await;
    assert_clean(&mut tab, &console).await;
    tab.press("Enter").await;
    tab.loaded().await;
    tab.sees("is not the name of this lock").await;
    let errors = tab.report().await.errors;
    assert!(errors.iter().all(|error| error.contains("422")), "{errors:?}");
    assert!(lease.fence().is_ok());
    tab.tab_to("it.id === 'confirm'").await;
    tab.value("document.activeElement.select()").await;
    tab.write("order:42").await;
    tab.tab_to("it.type === 'submit'").await;
    tab.press("Enter").await;
    tab.loaded().await;
    tab.sees("The lock was taken").await;
    assert_eq!(lease.lost().await, LossReason::Forced);
    tab.sees("Nobody holds it").await;
    assert_clean(&mut tab, &console).await;
}

/// A live list neither moves the focus nor loses it, and each row is where it belongs.
#[tokio::test]
async fn the_focus_stays_while_the_list_changes() {
    let locks = Locks::in_memory();
    let mutex = |name: &str| locks.mutex(name.to_owned());
    let _leases = [mutex("b").lock().await.unwrap(), mutex("d").lock().await.unwrap()];
    let console = Served::start(app_with_force(&locks)).await;
    let mut tab = Tab::open().await;
    tab.go(&console.url("?sort=name")).await;
    tab.sees("Live").await;
    tab.tab_to("it.textContent === 'd'").await;
    tab.value("window.same = document.activeElement").await;
    let names =
        "[...document.querySelectorAll('#live tbody th a')].map(it => it.textContent).join()";
    let (a, _c) = (mutex("a").lock().await.unwrap(), mutex("c").lock().await.unwrap());
    tab.until(&format!("{names} === 'a,b,c,d'")).await;
    tab.until("document.activeElement === window.same").await;
    a.release().await.unwrap();
    let _e = mutex("e").lock().await.unwrap();
    tab.until(&format!("{names} === 'b,c,d,e'")).await;
    tab.until("document.activeElement === window.same").await;
    assert_clean(&mut tab, &console).await;
}

#[tokio::test]
async fn hostile_names_do_nothing() {
    let locks = client_as("<script>alert(1)</script>", "<img src=http://evil.example/>").await;
    let mut leases = Vec::new();
    let longest = "\u{5d0}<b>".repeat(102);
    for name in hostile::NAMES.into_iter().chain([&*longest]) {
        let mutex = locks.mutex(name.to_owned()).owner("<script>alert(2)</script>").ttl(LONG);
        let mutex = mutex.note("<img src=x onerror=alert(3)>\u{202e}");
        leases.push((name, mutex.lock().await.unwrap()));
    }
    let console = Served::start(app_with_force(&locks)).await;
    let mut tab = Tab::open().await;
    tab.view(390, 844, true).await;
    let scripts =
        "document.scripts.length === 1 && !document.querySelector('img, main svg:not([role])')";
    let fits = "document.documentElement.scrollWidth <= 390";
    for page in ["", "/limits", "/clients", "/doctor"] {
        tab.go(&console.url(page)).await;
        if page.is_empty() {
            tab.sees("Live").await;
        }
        tab.until(scripts).await;
        tab.until(fits).await;
    }
    for (name, _) in &leases {
        tab.go(&console.url("")).await;
        // The link of its row leads to it.
        let open = format!(
            "[...document.querySelectorAll('tr[data-key]')].find(it => it.dataset.key === {}).querySelector('a').click()",
            serde_json::json!(name)
        );
        tab.value(&open).await;
        tab.loaded().await;
        tab.sees("Live").await;
        tab.sees("<script>alert(2)</script>").await;
        tab.until(scripts).await;
        tab.until(fits).await;
        tab.value("document.querySelector('a.danger').click()").await;
        tab.loaded().await;
        let value = tab.value("document.querySelector('input[name=name]').value").await;
        assert_eq!(value, *name);
        tab.until(scripts).await;
        tab.until(fits).await;
    }
    assert_clean(&mut tab, &console).await;
}

/// axe-core finds nothing wrong: contrast, labels, structure, by day and by night, on a desk and on
/// a phone.
#[tokio::test]
async fn everybody_can_read_it() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let _lease = locks.mutex("order:42").owner("worker-1").note("a note").ttl(LONG).lock().await;
    let _permit = locks.semaphore("reports", 4).ttl(LONG).acquire().await.unwrap();
    locks.limits().label("a:{b}").by("ann").why("incident 42").set(0).await.unwrap();
    let waiting = waiter(&locks, "order:42", "worker-2").await;
    let console = Console::new(&locks).server_name("redis-1:6379").prefix("billing");
    let console = console.allow_force(true).allow_limits(true).allow_run_again(true).router();
    let console = Served::start(Router::new().nest("/locks", console)).await;
    let mut tab = Tab::open().await;
    let pages =
        ["", "/lock?name=order:42", "/force?name=order:42", "/limits", "/clients", "/doctor"];
    let order = locks.inspect("order:42").await.unwrap();
    let client = format!("/client?id={}", order.holders[0].client.as_ref().unwrap().id);
    let more = ["?sort=for", "/lock?name=free", "/jobs", &client, "?q=none", "/none"];
    let pages = pages.into_iter().chain(more).chain(["?down", "/lock?name=order:42&down"]);
    for page in pages {
        if page.ends_with("down") {
            faults.always(Fault::Refuse);
        }
        tab.go(&console.url(page)).await;
        if page.ends_with(":42") && page.starts_with("/lock") {
            tab.until("document.querySelectorAll('.chart polyline').length === 2").await;
        }
        for (width, is_phone) in [(1_280, false), (390, true)] {
            tab.view(width, 844, is_phone).await;
            let fits = tab.value("document.documentElement.scrollWidth").await;
            assert!(fits.as_u64() <= Some(width.into()), "{page}: {fits} of {width}");
            for scheme in ["light", "dark"] {
                tab.scheme(scheme).await;
                let found = tab.violations().await;
                assert!(found.is_empty(), "{page}, {scheme}, {width}: {found:#?}");
            }
        }
    }
    faults.heal();
    waiting.abort();
}

/// On a phone, a cell is its title and beside it one text, which is not broken at each change of
/// its style.
#[tokio::test]
async fn a_cell_is_one_text_on_a_phone() {
    let locks = client_as("leasehold run backup.sh", "host-1").await;
    let _lease = locks.mutex("order:42").owner("cron").ttl(LONG).lock().await.unwrap();
    let console = Served::start(app_with_force(&locks)).await;
    let mut tab = Tab::open().await;
    tab.view(390, 844, true).await;
    tab.go(&console.url("/lock?name=order:42")).await;
    // "… on host-1" is one line, and what follows begins where that does.
    let places = "[...document.querySelectorAll('tbody th bdi')].map(it => it.getClientRects()[0])";
    let same_line = format!("(([a, b]) => Math.abs(a.bottom - b.bottom) < 40)({places})");
    tab.until(&same_line).await;
    for page in ["/lock?name=order:42", "/clients", ""] {
        tab.go(&console.url(page)).await;
        // All of a cell is to the right of its title.
        let outside = "[...document.querySelectorAll('tbody th *, tbody td *')].filter(it => \
            it.getClientRects().length && it.getBoundingClientRect().left < \
            it.closest('th, td').getBoundingClientRect().left + 110).length === 0";
        tab.until(outside).await;
    }
}

#[tokio::test]
async fn it_works_without_javascript() {
    let locks = Locks::in_memory();
    let lease = locks.mutex("order:42").owner("worker-1").ttl(LONG).lock().await.unwrap();
    let _other = locks.mutex("invoice:1").lock().await.unwrap();
    let console = Served::start(app_with_force(&locks)).await;
    let mut tab = Tab::open().await;
    let off = serde_json::json!({ "value": true });
    tab.call("Emulation.setScriptExecutionDisabled", off).await;
    tab.go(&console.url("")).await;
    tab.sees("Without JavaScript").await;
    let first = "document.querySelector('tbody th').innerText";
    for wanted in ["invoice:1", "order:42"] {
        tab.tab_to("it.closest('thead') && it.innerText.startsWith('Name')").await;
        tab.press("Enter").await;
        tab.loaded().await;
        assert_eq!(tab.value(first).await, wanted, "a click sorts, the next turns it round");
    }
    tab.tab_to("it.id === 'q'").await;
    tab.write("order").await;
    tab.press("Enter").await;
    tab.loaded().await;
    let text = tab.text().await;
    assert!(text.contains("order:42") && !text.contains("invoice:1"), "{text}");
    for link in ["order:42", "Take the lock from its holders…"] {
        tab.tab_to(&format!("it.textContent === '{link}'")).await;
        tab.press("Enter").await;
        tab.loaded().await;
        tab.sees("worker-1").await;
    }
    tab.tab_to("it.id === 'confirm'").await;
    tab.write("order:42").await;
    tab.tab_to("it.id === 'reason'").await;
    tab.write("stuck").await;
    tab.press("Enter").await;
    tab.loaded().await;
    tab.sees("The lock was taken").await;
    assert_eq!(lease.lost().await, LossReason::Forced);
    let report = tab.report().await;
    assert!(report.requests.iter().all(|it| !it.contains("events") && !it.contains("script")));
    assert!(report.errors.is_empty(), "{:?}", report.errors);
}

/// The page says when it is not live, and becomes live again by itself: when the app is gone, and
/// when the store is.
#[tokio::test]
async fn the_live_part_comes_back() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let _lease = locks.mutex("a").owner("worker-1").ttl(LONG).lock().await.unwrap();
    let app = || app_with_force(&locks);
    let mut console = Served::start(app()).await;
    let mut tab = Tab::open().await;
    faults.always(Fault::Refuse);
    tab.go(&console.url("/lock?name=a")).await;
    tab.sees("The lock store failed").await;
    faults.heal();
    tab.sees("worker-1").await;
    tab.sees("Live: ").await;
    tab.until("!!document.querySelector('a.danger')").await;
    faults.always(Fault::Refuse);
    tab.sees("Not live: the lock store does not answer").await;
    tab.sees("as of ").await;
    let text = tab.text().await;
    assert!(text.contains("worker-1") && !text.contains("Live: "), "{text}");
    tab.until("!document.querySelector('a.danger')").await;
    faults.heal();
    tab.sees("Live: ").await;
    tab.until("!document.body.innerText.includes('as of ')").await;
    tab.until("document.getElementById('status').getAttribute('role') === 'status'").await;

    // The runtime ends with all its connections.
    let address = console.address.to_string();
    console.stop();
    tab.sees("Not live: the connection is lost. The page is as of ").await;
    tab.sees("worker-1").await;
    let _served = Served::at(&address, app()).await;
    tab.sees("Live: ").await;
}

#[tokio::test]
#[ignore = "writes the pictures of the guide; run it with `--ignored`"]
async fn pictures_of_the_guide() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let locks = client_on(&store, "billing", "host-1").await;
    let others = [("billing", "host-2"), ("orders", "host-3")];
    let [second, third] =
        others.map(async |(service, host)| client_on(&store, service, host).await);
    let (second, third) = (second.await, third.await);
    let minute = |name: &str| locks.mutex(name.to_owned()).ttl(LONG);
    let _leases = [
        minute("nightly-report").owner("scheduler").lock().await.unwrap(),
        minute("invoice:2024-117").note("TICKET-7: moved by hand").lock().await.unwrap(),
        locks.semaphore("pdf-export", 4).ttl(LONG).acquire_many(2).await.unwrap(),
        locks.semaphore("pdf-export", 4).ttl(LONG).acquire().await.unwrap(),
        locks.rw_lock("catalogue").ttl(LONG).read().await.unwrap(),
        locks.reentrant_mutex("cart:77").owner("alice").ttl(LONG).lock().await.unwrap(),
    ];
    let lease = minute("order:42").owner("worker-1").note("capture payment").lock().await.unwrap();
    let waiting = waiter(&second, "order:42", "worker-2").await;
    let last = waiter(&third, "order:42", "worker-3").await;
    let console = Console::new(&locks).server_name("redis-1:6379").prefix("leasehold");
    let console = console.allow_force(true).router();
    let console = Served::start(Router::new().nest("/locks", console)).await;
    let mut tab = Tab::open().await;
    tab.view(1_000, 820, false).await;
    tab.go(&console.url("/lock?name=order:42")).await;
    // The chart is a line from then on.
    work_for(Duration::from_secs(9)).await;
    lease.release().await.unwrap();
    work_for(Duration::from_secs(7)).await;
    tab.scheme("dark").await;
    write_picture(&mut tab, "lock").await;
    tab.scheme("light").await;
    tab.view(1_000, 700, false).await;
    tab.go(&console.url("")).await;
    tab.sees("Live").await;
    write_picture(&mut tab, "list").await;
    tab.view(390, 844, true).await;
    write_picture(&mut tab, "phone").await;
    last.abort();
    drop(waiting);
}

async fn write_picture(tab: &mut Tab, name: &str) {
    let path = format!("{}/../docs/guide/images/console-{name}.png", env!("CARGO_MANIFEST_DIR"));
    let picture = tab.picture().await;
    assert!(picture.len() < 200_000, "{name}: {} bytes", picture.len() * 3 / 4);
    let decode = "import base64, sys; sys.stdout.buffer.write(base64.b64decode(sys.stdin.read()))";
    let mut python = std::process::Command::new("python3")
        .args(["-c", decode])
        .stdin(std::process::Stdio::piped())
        .stdout(std::fs::File::create(path).unwrap())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut python.stdin.take().unwrap(), picture.as_bytes()).unwrap();
    assert!(python.wait().unwrap().success());
}
