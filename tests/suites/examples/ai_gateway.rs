//! The example of a gateway for language models: eight processes, streams that are read, cut, given up
//! and killed, and an operator who changes the limits meanwhile. No limit is exceeded, and nothing is left.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use leasehold::{Locks, Rate};
use leasehold_tests::process::{Process, example};
use leasehold_tests::server::{Server, signal};
use leasehold_tests::waiting::{until, until_some, work_for};
use reqwest::{Client, Response};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// So many streams begin in each phase, between two changes of the limits.
const STREAMS_OF_A_PHASE: usize = 16;
const CLIENTS: usize = 48;

/// Microseconds by the clock that all processes of the machine have in common.
type Micros = u64;

fn now() -> Micros {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("it is after 1970");
    now.as_micros().try_into().expect("it is before 500,000")
}

/// The limits of the example's code: for a tenant, by its plan.
fn of_tenant(tenant: &str) -> (u32, Rate, Rate) {
    if tenant.starts_with("free-") {
        (2, Rate::per_minute(120).burst(10), Rate::per_minute(3_000).burst(500))
    } else {
        (6, Rate::per_minute(1_200).burst(60), Rate::per_minute(36_000).burst(1_000))
    }
}

const MODELS: [(&str, u32); 2] = [("small", 8), ("large", 3)];
const ALL: u32 = 12;

fn start(server: Option<&Server>) -> (Process, String) {
    let mut app = example("ai_gateway");
    app.env_remove("REDIS_URL").env("ADDR", "127.0.0.1:0");
    app.env("TOKEN_MS", "10").env("LEASE_SECONDS", "6");
    if let Some(server) = server {
        app.env("REDIS_URL", server.url());
    }
    let mut process = Process::start(&mut app);
    let line = process.line().expect("it says where it listens");
    let url = line.strip_prefix("listening on ").expect("an address").to_owned();
    (process, format!("{url}/completions"))
}

/// What a client asks for.
#[derive(Clone, Debug)]
struct Asked {
    tenant: String,
    model: &'static str,
    max_tokens: u32,
}

impl Asked {
    fn new(tenant: &str, model: &'static str, max_tokens: u32) -> Self {
        Self { tenant: tenant.to_owned(), model, max_tokens }
    }

    fn request(&self, client: &Client, url: &str, id: usize) -> reqwest::RequestBuilder {
        let Self { tenant, model, max_tokens } = self;
        let body = format!(
            r#"{{"model": "{model}", "prompt": "a prompt of 20 bytes", "max_tokens": {max_tokens}}}"#
        );
        let request = client.post(url).bearer_auth(tenant);
        request.header("x-request-id", id).body(body)
    }

    fn cost(&self) -> u32 {
        self.max_tokens + 5
    }
}

/// A refusal: status, problem and the label of the lock or rate.
type Refusal = (u16, String, String);

/// A refused client learns which limit it was, and when to come again.
async fn refusal(response: Response) -> (Refusal, Duration) {
    let status = response.status().as_u16();
    let header = |name| Some(response.headers().get(name)?.to_str().unwrap().to_owned());
    let (retry_after, rates) = (header("retry-after"), header("ratelimit"));
    let text = response.text().await.unwrap();
    let problem: Value = serde_json::from_str(&text).expect(&text);
    let lock = problem["lock"].as_str().expect(&text).to_owned();
    let kind = problem["type"].as_str().unwrap().rsplit_once("problem=").unwrap().1.to_owned();
    let is_of = |locks: &[&str]| locks.contains(&lock.as_str());
    let (permits, of_rates) = (["tenant", "model", "all"], ["requests", "tokens"]);
    let after = match (status, kind.as_str()) {
        (429, "full") if is_of(&permits) => {
            assert_eq!(retry_after.as_deref(), Some("1"), "{text}");
            Duration::ZERO // it has waited
        }
        (429, "crowded") if is_of(&permits) || is_of(&of_rates) => {
            assert_eq!(retry_after.as_deref(), Some("1"), "{text}");
            Duration::from_millis(100)
        }
        (429, "rate-limited") if is_of(&of_rates) => {
            let exact = problem["retry_after_ms"].as_u64().expect(&text);
            let seconds = exact.div_ceil(1000).max(1);
            assert_eq!(retry_after, Some(seconds.to_string()), "{text}");
            let rates = rates.expect("it says how the rate stands");
            assert!(rates.contains(&format!("\"{lock}\";r=0;t={seconds}")), "{rates}");
            Duration::from_millis(exact.min(100))
        }
        (503, "closed") if is_of(&permits) => {
            assert_eq!(retry_after, None, "nobody knows when it is opened");
            Duration::from_millis(20)
        }
        _ => panic!("{status} {text}"),
    };
    ((status, kind, lock), after)
}

/// How a client ends its stream.
#[derive(Clone, Copy, Debug)]
enum End {
    Read,
    /// After the first token.
    Cut,
    /// It gives up if the stream has not begun after this time.
    GiveUp(Duration),
}

#[derive(Debug, Default)]
struct Counts {
    read: usize,
    cut: usize,
    gave_up: usize,
    died: usize,
    refused: BTreeMap<Refusal, usize>,
}

/// What the clients and the operator share.
struct Load {
    urls: Vec<String>,
    is_killed: Vec<AtomicBool>,
    /// When each request was sent, by its id.
    sent: Mutex<Vec<(Micros, Asked)>>,
    /// Streams whose head has come.
    begun: AtomicUsize,
    is_over: AtomicBool,
    counts: Mutex<Counts>,
}

impl Load {
    fn new(urls: Vec<String>) -> Self {
        let is_killed = urls.iter().map(|_| AtomicBool::new(false)).collect();
        let (sent, begun, is_over) =
            (Mutex::default(), AtomicUsize::new(0), AtomicBool::new(false));
        Self { urls, is_killed, sent, begun, is_over, counts: Mutex::default() }
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.counts.lock().unwrap());
    }

    fn is_alive(&self, app: usize) -> bool {
        !self.is_killed[app].load(Ordering::SeqCst)
    }

    /// A response that has begun a stream, or a refusal and how long the client stays away.
    async fn begin(
        &self,
        client: &Client,
        app: usize,
        asked: &Asked,
    ) -> reqwest::Result<Result<Response, (Refusal, Duration)>> {
        let id = {
            let mut sent = self.sent.lock().unwrap();
            sent.push((now(), asked.clone()));
            sent.len() - 1
        };
        let response = asked.request(client, &self.urls[app], id).send().await?;
        if response.status() != 200 {
            return Ok(Err(refusal(response).await));
        }
        let rates: Vec<_> = response.headers().get_all("ratelimit").iter().collect();
        assert_eq!(rates.len(), 2, "it says how both rates stand: {rates:?}");
        self.begun.fetch_add(1, Ordering::SeqCst);
        Ok(Ok(response))
    }

    /// One stream. Returns how long the client then stays away.
    async fn stream(
        &self,
        client: &Client,
        app: usize,
        asked: &Asked,
        end: End,
    ) -> reqwest::Result<Duration> {
        let answer = self.begin(client, app, asked);
        let answer = if let End::GiveUp(after) = end {
            let Ok(answer) = timeout(after, answer).await else {
                self.count(|counts| counts.gave_up += 1);
                return Ok(Duration::ZERO);
            };
            answer?
        } else {
            answer.await?
        };
        let mut response = match answer {
            Ok(response) => response,
            Err((refusal, pause)) => {
                self.count(|counts| *counts.refused.entry(refusal).or_default() += 1);
                return Ok(pause);
            }
        };
        let mut text = response.chunk().await?.expect("a token").to_vec();
        if matches!(end, End::Cut) {
            drop(response); // and with it the connection
            self.count(|counts| counts.cut += 1);
            return Ok(Duration::ZERO);
        }
        while let Some(more) = response.chunk().await? {
            text.extend(more);
        }
        let text = String::from_utf8(text).unwrap();
        assert!(text.ends_with("data: [DONE]\n\n"), "it has lost its permits: {text}");
        self.count(|counts| counts.read += 1);
        Ok(Duration::ZERO)
    }

    /// Asks the living processes for streams until the operator has done its work.
    async fn ask_on_and_on(self: Arc<Self>, number: usize) {
        let (client, tenant) = (Client::new(), ["free-ann", "pro-bob", "pro-eve"][number % 3]);
        for turn in number.. {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            let app = turn % self.urls.len();
            if !self.is_alive(app) {
                continue;
            }
            let model = if turn % 5 < 2 { "large" } else { "small" };
            let (tokens, end) = match turn % 7 {
                0 | 1 => (if tenant == "free-ann" { 60 } else { 300 }, End::Cut),
                2 | 3 => (10, End::GiveUp(Duration::from_millis(50))),
                _ => (5 + u32::try_from(turn % 10).unwrap(), End::Read),
            };
            let pause = self.stream(&client, app, &Asked::new(tenant, model, tokens), end).await;
            let pause = pause.unwrap_or_else(|error| {
                assert!(!self.is_alive(app), "{error:?}");
                self.count(|counts| counts.died += 1);
                Duration::ZERO
            });
            work_for(pause).await; // as it was told
        }
    }
}

/// What an operator's limit is for: one semaphore, or all with a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Name(&'static str),
    Label(&'static str),
}

/// The limits that are set after a change. Until all processes know them, some go by those before.
#[derive(Clone, Default)]
struct Limits {
    /// When the change began.
    since: Micros,
    /// When all processes knew it.
    known: Micros,
    set: BTreeMap<Of, u32>,
}

impl Limits {
    fn of(&self, name: &str, label: &'static str, code: u32) -> u32 {
        let by_name = self.set.iter().find(|(of, _)| matches!(of, Of::Name(of) if *of == name));
        let by_label = || self.set.get(&Of::Label(label));
        by_name.map(|(_, limit)| limit).or_else(by_label).copied().unwrap_or(code)
    }
}

struct Operator {
    load: Arc<Load>,
    locks: Locks,
    history: Vec<Limits>,
}

impl Operator {
    async fn change(&mut self, of: Of, limit: Option<u32>) {
        let mut next = self.history.last().cloned().unwrap_or_default();
        next.since = now();
        let limits = self.locks.limits();
        let handle = match of {
            Of::Name(name) => limits.name(name),
            Of::Label(label) => limits.label(label),
        };
        if let Some(limit) = limit {
            next.set.insert(of, limit);
            handle.why("the test").set(limit).await.unwrap();
        } else {
            next.set.remove(&of);
            assert!(handle.unset().await.unwrap(), "it was set");
        }
        self.until_known().await;
        next.known = now();
        self.history.push(next);
    }

    /// Waits until each living process knows all limits. Processes read all of them together. So one that
    /// refuses a tenant because of a limit that was set last knows the others, too.
    async fn until_known(&self) {
        let tenant = format!("pro-probe-{}", self.history.len());
        let closed = || self.locks.limits().name(format!("1:tenant:{tenant}"));
        closed().set(0).await.unwrap();
        let (client, asked) = (Client::new(), Asked::new(&tenant, "small", 0));
        let apps = (0..self.load.urls.len()).filter(|app| self.load.is_alive(*app));
        join_all(apps.map(|app| {
            let (client, asked) = (&client, &asked);
            until("all know the limits", async move || {
                let begin = self.load.begin(client, app, asked);
                let patience = Duration::from_millis(200);
                let Ok(answer) = timeout(patience, begin).await else { return false };
                matches!(answer.unwrap(), Err(((503, _, lock), _)) if lock == "tenant")
            })
        }))
        .await;
        assert!(closed().unset().await.unwrap());
    }

    /// Waits until so many more streams have begun.
    async fn watch(&self) {
        let begun = || self.load.begun.load(Ordering::SeqCst);
        let enough = begun() + STREAMS_OF_A_PHASE;
        until("more streams begin", async || begun() >= enough).await;
    }

    /// Kills a process in the middle of a stream. Returns a time at which its streams still ran.
    async fn kill(&self, app: usize, process: &mut Process) -> Micros {
        let client = Client::new();
        let asked = Asked::new(["pro-dan", "pro-fay"][app], "small", 900);
        let mut stream = None;
        until("a stream begins", async || {
            stream = self.load.begin(&client, app, &asked).await.unwrap().ok();
            stream.is_some()
        })
        .await;
        let mut stream = stream.unwrap();
        assert!(stream.chunk().await.unwrap().is_some());
        self.load.is_killed[app].store(true, Ordering::SeqCst);
        let killed = now();
        process.kill();
        while let Ok(more) = stream.chunk().await {
            assert!(more.is_some(), "its end can't come");
        }
        let held = self.locks.inspect(format!("1:tenant:{}", asked.tenant)).await.unwrap().held;
        assert_eq!(held, 1, "its permits stay until its lease ends");
        killed
    }
}

/// A stream, by the log of its process.
#[derive(Clone, Debug)]
struct Stream {
    asked: Asked,
    sent: Micros,
    begun: Micros,
    /// When it has ended, or its process was killed.
    ended: Micros,
}

/// The streams of a process, which has ended.
fn streams(lines: &[String], killed: Option<Micros>, sent: &[(Micros, Asked)]) -> Vec<Stream> {
    let ended: HashMap<usize, Micros> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("end ")?.split_once(' '))
        .map(|(id, at)| (id.parse().unwrap(), at.parse().unwrap()))
        .collect();
    let begun = lines.iter().filter_map(|line| line.strip_prefix("begin "));
    let stream = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let [id, tenant, model, cost, begun] = words[..] else { panic!("{line}") };
        let id: usize = id.parse().unwrap();
        let (sent, asked) = sent[id].clone();
        assert_eq!((tenant, model), (asked.tenant.as_str(), asked.model));
        assert_eq!(cost, asked.cost().to_string());
        let ended = ended.get(&id).copied().or(killed).expect("a stream has an end");
        Stream { asked, sent, begun: begun.parse().unwrap(), ended }
    };
    begun.map(stream).collect()
}

/// Checks that no more of these streams run at a time than the limit in force allows. `limit` says what
/// that is for a stream. Returns the greatest number.
///
/// A permit is granted after its request was sent and before its stream begins, and it is held at least
/// until the stream has ended. One of the streams that run at the same time got its permit last: one that
/// began after all of them were sent. The limit of that one counts.
fn never_over(
    streams: &[&Stream],
    history: &[Limits],
    limit: impl Fn(&Stream, &Limits) -> u32,
) -> usize {
    let allowed = |stream: &Stream| {
        let in_force = history.iter().enumerate().filter(|(n, limits)| {
            let next = history.get(n + 1);
            limits.since <= stream.begun && next.is_none_or(|next| next.known >= stream.sent)
        });
        in_force.map(|(_, limits)| limit(stream, limits)).max().expect("one was in force")
    };
    let mut most = 0;
    for newest in streams {
        let at = newest.begun;
        let open = || {
            streams.iter().filter(move |it| (it.begun..it.ended).contains(&at) || it.begun == at)
        };
        let last_sent = open().map(|it| it.sent).max().unwrap();
        let last = open().filter(|it| it.begun >= last_sent);
        let limit = last.map(|it| allowed(it)).max().unwrap();
        let count = open().count();
        assert!(
            count <= usize::try_from(limit).unwrap(),
            "{count} at a time, and the limit is {limit}: {:?}",
            open().collect::<Vec<_>>()
        );
        most = most.max(count);
    }
    most
}

/// Checks that in no time more has begun than the burst, and the rate in that time. A stream takes its
/// part after its request was sent and before it begins. Returns how much of what was allowed began, at most.
fn never_faster(streams: &[&Stream], rate: Rate, weight: impl Fn(&Stream) -> u32) -> f64 {
    let mut fullest = 0.0_f64;
    for first in streams {
        for last in streams.iter().filter(|last| last.begun >= first.sent) {
            let inside =
                streams.iter().filter(|it| it.sent >= first.sent && it.begun <= last.begun);
            let taken: u32 = inside.map(|it| weight(it)).sum();
            let micros = f64::from(u32::try_from(last.begun - first.sent + 2).unwrap());
            let in_time = f64::from(rate.count()) * micros / (rate.period().as_secs_f64() * 1e6);
            let most = f64::from(rate.most_at_once()) + in_time;
            assert!(
                f64::from(taken) <= most,
                "{taken} in {micros} µs at {rate}: {first:?} {last:?}"
            );
            fullest = fullest.max(f64::from(taken) / most);
        }
    }
    fullest
}

/// Takes all permits at once, which works when nobody has one, and gives them back.
async fn take_all(locks: &Locks, tenants: &BTreeSet<String>) {
    let mut all = locks.together().weighted_permit("3:all", ALL, ALL);
    for (model, limit) in MODELS {
        all = all.weighted_permit(format!("2:model:{model}"), limit, limit);
    }
    for tenant in tenants {
        let (limit, ..) = of_tenant(tenant);
        all = all.weighted_permit(format!("1:tenant:{tenant}"), limit, limit);
    }
    all.wait(Duration::from_secs(20)).lock().await.unwrap().release().await.unwrap();
}

/// What is left on the server is what stays for a time by design: nothing is held or waited for.
async fn only_what_stays(server: &Server) {
    let mut redis = server.redis().await;
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut redis).await.unwrap();
    for key in keys {
        let ttl: i64 = redis::cmd("PTTL").arg(&key).query_async(&mut redis).await.unwrap();
        assert_ne!(ttl, -1, "{key} has an expiry");
        let role = key.split(':').nth(1).unwrap();
        // `lock` is the record of a free lock, which stays for a minute.
        assert!(["tokens", "limits", "client", "rate", "lock"].contains(&role), "{key}");
    }
}

/// What the operator does. After each change, some streams begin.
const CHANGES: [(Of, Option<u32>); 10] = [
    (Of::Label("tenant"), Some(1)),
    (Of::Name("3:all"), Some(4)),
    (Of::Name("2:model:large"), Some(0)),
    (Of::Name("1:tenant:pro-eve"), Some(5)),
    (Of::Label("tenant"), None),
    (Of::Label("model"), Some(2)),
    (Of::Name("3:all"), Some(30)),
    (Of::Name("2:model:large"), None),
    (Of::Label("model"), None),
    (Of::Name("1:tenant:pro-eve"), None),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_limit_is_exceeded_and_nothing_is_left() {
    let server = Server::start();
    let (mut apps, urls): (Vec<_>, Vec<_>) = (0..8).map(|_| start(Some(&server))).unzip();
    let (load, locks) = (Arc::new(Load::new(urls)), Locks::connect(&server.url()).await.unwrap());
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(load.clone().ask_on_and_on(number));
    }

    let history = vec![Limits::default()];
    let mut operator = Operator { load: load.clone(), locks: locks.clone(), history };
    let mut killed = [None; 8];
    operator.watch().await;
    for (number, (of, limit)) in CHANGES.into_iter().enumerate() {
        operator.change(of, limit).await;
        operator.watch().await;
        if let Some(app) = [1, 5].iter().position(|when| *when == number) {
            killed[app] = Some(operator.kill(app, &mut apps[app]).await);
        }
    }
    operator.change(Of::Name("3:all"), None).await;
    operator.watch().await;
    load.is_over.store(true, Ordering::SeqCst);
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }

    // The processes live, and would renew what they had not released.
    let tenants = load.sent.lock().unwrap().iter().map(|(_, asked)| asked.tenant.clone()).collect();
    take_all(&locks, &tenants).await;
    assert_eq!(locks.limits().list().await.unwrap(), []);

    // Told to end, they finish their streams.
    let client = Client::new();
    let mut last = Vec::new();
    for app in 2..8 {
        let asked = Asked::new(&format!("pro-last-{app}"), "small", 20);
        // On a busy machine the server may answer too late, and a client is told to come again.
        last.push(
            until_some("a stream", async || load.begin(&client, app, &asked).await.unwrap().ok())
                .await,
        );
    }
    apps[2..].iter().for_each(|app| signal("-TERM", &app.pid()));
    for stream in last {
        let text = stream.text().await.unwrap();
        assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    }
    let mut all = Vec::new();
    let sent = load.sent.lock().unwrap().clone();
    for (app, killed) in apps.iter_mut().zip(killed) {
        let lines = app.rest();
        if killed.is_none() {
            assert!(app.is_success());
            assert!(lines.last().unwrap().starts_with("ended: "), "{lines:?}");
        }
        all.extend(streams(&lines, killed, &sent));
    }
    server.until_all_is_free().await;
    only_what_stays(&server).await;

    let all: Vec<_> = all.iter().collect();
    let history = &operator.history;
    let of = |is_of: &dyn Fn(&Asked) -> bool| -> Vec<_> {
        all.iter().copied().filter(|stream| is_of(&stream.asked)).collect()
    };
    let in_all = never_over(&all, history, |_, limits| limits.of("3:all", "all", ALL));
    println!("{} streams, {in_all} at a time", all.len());
    for (model, code) in MODELS {
        let (name, streams) = (format!("2:model:{model}"), of(&|asked| asked.model == model));
        let most = never_over(&streams, history, |_, limits| limits.of(&name, "model", code));
        println!("{model}: {} streams, {most} at a time", streams.len());
    }
    for tenant in &tenants {
        let (code, requests, tokens) = of_tenant(tenant);
        let (name, streams) = (format!("1:tenant:{tenant}"), of(&|asked| asked.tenant == *tenant));
        let most = never_over(&streams, history, |_, limits| limits.of(&name, "tenant", code));
        let of_requests = never_faster(&streams, requests, |_| 1);
        let of_tokens = MODELS.map(|(model, _)| {
            let streams = of(&|asked| asked.tenant == *tenant && asked.model == model);
            never_faster(&streams, tokens, |stream| stream.asked.cost())
        });
        if !tenant.starts_with("pro-probe") {
            let streams = streams.len();
            println!(
                "{tenant}: {streams} streams, {most} at a time, {of_requests:.2} {of_tokens:.2?}"
            );
        }
    }
    let counts = load.counts.lock().unwrap();
    println!("{counts:?}");
    let Counts { read, cut, gave_up, died, refused } = &*counts;
    assert!(read + cut >= 200 && [cut, gave_up].iter().all(|count| **count > 10) && *died > 0);
    for (status, problem) in [(429, "full"), (429, "rate-limited"), (503, "closed")] {
        assert!(refused.keys().any(|it| (it.0, it.1.as_str()) == (status, problem)));
    }
}

/// The next request of a tenant is refused at once, and learns that it was its tenant's queue.
#[tokio::test]
async fn a_full_queue_is_said_at_once() {
    let (_app, url) = start(None);
    let load = Load::new(vec![url]);
    let (client, mut open) = (Client::new(), Vec::new());
    for (model, _) in MODELS {
        let asked = Asked::new("free-ann", model, 480);
        open.push(load.begin(&client, 0, &asked).await.unwrap().unwrap());
    }
    let asked = Asked::new("free-ann", "small", 1);
    let answers = join_all((0..40).map(|_| load.begin(&client, 0, &asked))).await;
    let mut refused = BTreeMap::<_, usize>::new();
    for answer in answers {
        let Err((refusal, _)) = answer.unwrap() else { panic!("its tenant has two streams") };
        *refused.entry(refusal).or_default() += 1;
    }
    let of_tenant = |problem: &str| (429, problem.to_owned(), "tenant".to_owned());
    let keys: Vec<_> = refused.keys().cloned().collect();
    assert_eq!(keys, [of_tenant("crowded"), of_tenant("full")], "{refused:?}");
    assert!(refused[&of_tenant("full")] >= 32, "{refused:?}");
}
