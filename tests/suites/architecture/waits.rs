//! No test measures the machine. Whatever lets time go by is in `tests/harness/waiting.rs`, or runs on a
//! paused clock; and no assertion says that something took less than some real time.
//!
//! The tests are read as tokens, so that what stands in macros is seen, too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::{files, project};

/// The file that sleeps for all others.
const WAITING: &str = "harness/waiting.rs";

/// The simulation has a clock of its own.
const SIMULATION: &str = "simulation/";

/// Functions that run on a paused clock, though nothing in their file pauses it: with the reason.
const PAUSED: &[(&str, &str, &str)] = &[
    ("harness/backend.rs", "pass", "`start` pauses the clock of each test of a store in memory"),
    ("suites/kinds/jobs.rs", "an_hour_has_begun", "tests on a paused clock call it"),
];

/// How often each function uses `pass`. A new row needs a reason why no condition tells that enough time
/// has gone by.
const PASSES: &[(&str, &str, usize)] = &[
    ("harness/backend/shared.rs", "pass", 1),
    ("harness/worker/outlived.rs", "end", 1),
    ("suites/console/cost.rs", "a_hundred_thousand_locks", 1),
    ("suites/console/on_servers.rs", "fifty_viewers_cost_as_much_as_one", 1),
    ("suites/faults/idle.rs", "an_idle_lease_is_not_taken_up_a_second_after_a_flush", 1),
    ("suites/state_machine/clock.rs", "a_servers_clock_goes_as_the_test_says", 1),
    ("suites/waiting/no_hints.rs", "a_lost_connection_for_hints_returns_during_a_wait", 1),
];

/// Functions that assert that something took less than a real time, and why a busy machine fails none of
/// them.
const TIMED: &[(&str, &str, &str)] = &[
    (
        "harness/leaks.rs",
        "until_all_is_free",
        "a lease that nobody releases lasts for 30 s, and 20 s are enough",
    ),
    (
        "suites/layer/lingering.rs",
        "requests_send_almost_no_commands",
        "it counts commands, and allows more of them the longer it takes",
    ),
];

/// What a function does with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// `sleep(…)` or `sleep_until(…)`.
    Sleeps,
    /// `thread::sleep(…)`, on whichever clock.
    Blocks,
    /// `pass(…)`, but no method of this name.
    Passes,
    /// `assert!(begun.elapsed() < …)`. Also with `<=`, with the sides exchanged, in `contains(&…)` and in
    /// `assert_eq!`; with `Instant::now() - begun`; and with a name that a `let` has bound to such a time.
    Timed,
}

/// The clock of a function, as far as it says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clock {
    Paused,
    Real,
}

/// One use of time.
#[derive(Debug)]
struct Use {
    what: What,
    /// The outermost function that it is in.
    function: String,
    line: usize,
    is_paused: bool,
}

/// The uses of time in a file.
#[derive(Default)]
struct Reader {
    uses: Vec<(Use, Option<Clock>)>,
    clocks: Vec<Clock>,
    /// The functions around the token that is read, from the outermost.
    within: Vec<(String, Option<Clock>)>,
    /// Names that are bound to a time that something took.
    times: BTreeSet<String>,
}

fn uses(text: &str) -> Vec<Use> {
    let mut reader = Reader::default();
    reader.read(&text.parse().expect("a file of Rust"));
    let is_paused = reader.clocks.contains(&Clock::Paused) && !reader.clocks.contains(&Clock::Real);
    let clock = |clock: Option<Clock>| clock.map_or(is_paused, |clock| clock == Clock::Paused);
    reader.uses.into_iter().map(|(it, of)| Use { is_paused: clock(of), ..it }).collect()
}

impl Reader {
    fn read(&mut self, tokens: &TokenStream) {
        let tokens: Vec<_> = tokens.clone().into_iter().collect();
        let (mut attributes, mut at) = (Vec::new(), 0);
        while let Some(token) = tokens.get(at) {
            let (before, after) = (&tokens[..at], &tokens[at + 1..]);
            at += 1;
            match token {
                TokenTree::Punct(sign) if sign.as_char() == '#' => {
                    attributes.extend(after.first().map(squeezed));
                    at += 1;
                }
                TokenTree::Punct(sign) if sign.as_char() == ';' => attributes.clear(),
                TokenTree::Ident(word) if word == "fn" => {
                    at += self.read_function(after, &attributes);
                    attributes.clear();
                }
                TokenTree::Ident(word) => {
                    if word == "let" {
                        self.bind(after);
                    }
                    if let Some(what) = self.what(&word.to_string(), before, after) {
                        self.note(what, word.span().start().line);
                    }
                }
                TokenTree::Group(group) => {
                    self.read(&group.stream());
                    if group.delimiter() == Delimiter::Brace {
                        attributes.clear();
                    }
                }
                _ => {}
            }
        }
    }

    /// Reads the function whose name comes next. Returns how many tokens it has.
    fn read_function(&mut self, tokens: &[TokenTree], attributes: &[String]) -> usize {
        let is_end = |token: &TokenTree| body(token).is_some() || is(token, ";");
        let Some(end) = tokens.iter().position(is_end) else { return 0 };
        let Some(body) = body(&tokens[end]) else { return end };
        let clock = clock(attributes, &squeezed(&tokens[end]));
        self.clocks.extend(clock);
        self.within.push((tokens[0].to_string(), clock));
        let times = self.times.clone();
        self.read(&body);
        self.times = times;
        self.within.pop();
        end + 1
    }

    fn note(&mut self, what: What, line: usize) {
        let clock = self.within.iter().rev().find_map(|(_, clock)| *clock);
        let function = self.within.first().map_or("a macro", |(name, _)| name).to_owned();
        self.uses.push((Use { what, function, line, is_paused: false }, clock));
    }

    fn what(&self, word: &str, before: &[TokenTree], after: &[TokenTree]) -> Option<What> {
        let arguments = after.first().filter(|it| is_list(it));
        let is_method = before.last().is_some_and(|it| is(it, "."));
        let is_of_thread = before.iter().rev().nth(2).is_some_and(|it| is(it, "thread"));
        match word {
            "sleep" if arguments.is_some() && is_of_thread => Some(What::Blocks),
            "sleep" | "sleep_until" if arguments.is_some() && !is_method => Some(What::Sleeps),
            "pass" if arguments.is_some() && !is_method => Some(What::Passes),
            "assert" | "debug_assert" | "assert_eq" | "debug_assert_eq" => {
                let TokenTree::Group(group) = after.get(1)? else { return None };
                let arguments: Vec<_> = group.stream().into_iter().collect();
                let mut arguments = arguments.split(|it| is(it, ","));
                let is_timed = if word.ends_with("_eq") {
                    arguments.take(2).any(|it| self.is_time(it))
                } else {
                    arguments.next().is_some_and(|condition| self.is_upper_bound(condition))
                };
                is_timed.then_some(What::Timed)
            }
            _ => None,
        }
    }

    /// Remembers the names of `let` that are bound to a time.
    fn bind(&mut self, tokens: &[TokenTree]) {
        let statement = tokens.split(|it| is(it, ";")).next().unwrap_or_default();
        let Some(equals) = statement.iter().position(|it| is(it, "=")) else { return };
        let (names, values) = (&statement[..equals], &statement[equals + 1..]);
        let pairs = match (names, values) {
            ([TokenTree::Group(names)], [TokenTree::Group(values)]) => {
                let parts = |of: &proc_macro2::Group| -> Vec<Vec<TokenTree>> {
                    let of: Vec<_> = of.stream().into_iter().collect();
                    of.split(|it| is(it, ",")).map(<[_]>::to_vec).collect()
                };
                parts(names).into_iter().zip(parts(values)).collect()
            }
            _ => vec![(names.to_vec(), values.to_vec())],
        };
        for (names, value) in pairs {
            let is_closure = value.first().is_some_and(|it| is(it, "|") || is(it, "move"));
            let is_time = !is_closure && self.is_time(&value);
            for name in names.iter().map(ToString::to_string) {
                if is_time {
                    self.times.insert(name);
                } else {
                    self.times.remove(&name);
                }
            }
        }
    }

    /// True if a condition holds only for a time that is short enough.
    fn is_upper_bound(&self, condition: &[TokenTree]) -> bool {
        condition.split(|it| is(it, "&") || is(it, "|")).any(|part| {
            let compares = |at: &usize| {
                let before = at.checked_sub(1).map(|at| part[at].to_string());
                let is_other = before.is_some_and(|it| [":", "-", "="].contains(&&*it));
                !is_other && (is(&part[*at], "<") || is(&part[*at], ">"))
            };
            let has = part.iter().position(|it| is(it, "contains")).map(|at| &part[at + 1..]);
            match (0..part.len()).find(compares) {
                Some(at) if is(&part[at], "<") => self.is_time(&part[..at]),
                Some(at) => self.is_time(&part[at + 1..]),
                None => has.is_some_and(|list| self.is_time(list)),
            }
        })
    }

    /// True if an expression is a time that something took.
    fn is_time(&self, tokens: &[TokenTree]) -> bool {
        let is_taken = tokens.windows(2).any(|it| is(&it[0], "elapsed") && is_list(&it[1]));
        let is_asked = |it: &[TokenTree]| is(&it[0], "now") && is_list(&it[1]) && is(&it[2], "-");
        is_taken
            || tokens.windows(3).any(is_asked)
            || tokens.iter().any(|token| match token {
                TokenTree::Group(group) => {
                    self.is_time(&group.stream().into_iter().collect::<Vec<_>>())
                }
                TokenTree::Ident(name) => self.times.contains(&name.to_string()),
                _ => false,
            })
    }
}

/// The clock of a function with these attributes and this body.
fn clock(attributes: &[String], body: &str) -> Option<Clock> {
    let of_tokio = attributes.iter().find(|it| it.starts_with("[tokio::test"));
    if body.contains("start_paused(true)")
        || of_tokio.is_some_and(|it| it.contains("start_paused=true"))
    {
        return Some(Clock::Paused);
    }
    let is_test = attributes.iter().any(|it| it == "[test]");
    (of_tokio.is_some() || is_test && body.contains("block_on(")).then_some(Clock::Real)
}

fn squeezed(token: &TokenTree) -> String {
    token.to_string().split_whitespace().collect()
}

fn is(token: &TokenTree, text: &str) -> bool {
    match token {
        TokenTree::Ident(word) => word == text,
        TokenTree::Punct(sign) => sign.as_char().to_string() == text,
        _ => false,
    }
}

fn is_list(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis)
}

fn body(token: &TokenTree) -> Option<TokenStream> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group.stream()),
        _ => None,
    }
}

/// All uses of time in the tests, each with its file.
static ALL: LazyLock<Vec<(String, Use)>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for (file, text) in files(&project().join("tests")) {
        let is_read = ["sleep", "pass(", "elapsed", "now()"].iter().any(|it| text.contains(it));
        if is_read && file != WAITING && !file.starts_with(SIMULATION) {
            all.extend(uses(&text).into_iter().map(|it| (file.clone(), it)));
        }
    }
    assert!(all.len() > 300, "the tests are gone: {}", all.len());
    all
});

/// True if no list allows the use.
fn is_refused((file, it): &(String, Use)) -> bool {
    let is_listed = |list: &[(&str, &str, &str)]| {
        list.iter().any(|&(of, name, _)| (of, name) == (&**file, &*it.function))
    };
    match it.what {
        What::Sleeps => !it.is_paused && !is_listed(PAUSED),
        What::Blocks => true,
        What::Passes => false,
        What::Timed => !it.is_paused && !is_listed(TIMED),
    }
}

/// Fails for each use that is refused and meant, with what to do in its place.
fn refuse(is_meant: impl Fn(What) -> bool, instead: &str) {
    let is_wrong = |found: &&(String, Use)| is_refused(found) && is_meant(found.1.what);
    let wrong: Vec<_> = ALL
        .iter()
        .filter(is_wrong)
        .map(|(file, it)| format!("{file}:{} in `{}`", it.line, it.function))
        .collect();
    assert!(wrong.is_empty(), "{instead}\n{}", wrong.join("\n"));
}

#[test]
fn tests_wait_by_the_harness() {
    refuse(
        |what| what != What::Timed,
        "Await a condition, with `until` of tests/harness/waiting.rs. If the time is that of work, take \
         `work_for`.",
    );
}

#[test]
fn no_test_asserts_that_something_took_little_time() {
    refuse(
        |what| what == What::Timed,
        "A busy machine fails this. Count commands, or compare with `OwnTime` of tests/harness/waiting.rs.",
    );
}

/// A row that allows nothing is taken off.
#[test]
fn each_exception_is_used() {
    for (list, what) in [(PAUSED, What::Sleeps), (TIMED, What::Timed)] {
        for (file, function, why) in list {
            let is_it = |(of, it): &(String, Use)| {
                of == file && it.function == *function && it.what == what && !it.is_paused
            };
            assert!(ALL.iter().any(is_it) && !why.is_empty(), "tests/{file}: `{function}`");
        }
    }
}

#[test]
fn few_tests_let_real_time_go_by() {
    let mut found = BTreeMap::<(String, String), usize>::new();
    for (file, it) in ALL.iter().filter(|(_, it)| it.what == What::Passes) {
        *found.entry((file.clone(), it.function.clone())).or_default() += 1;
    }
    let rows = |rows: &BTreeMap<(String, String), usize>| {
        let row = |((file, function), count): (&(String, String), &usize)| {
            format!("    ({file:?}, {function:?}, {count}),")
        };
        rows.iter().map(row).collect::<Vec<_>>().join("\n")
    };
    let listed: BTreeMap<_, _> = PASSES
        .iter()
        .map(|&(file, function, count)| ((file.to_owned(), function.to_owned()), count))
        .collect();
    assert!(
        found == listed,
        "Is there a condition to await? If there is none, this is the table:\n{}",
        rows(&found)
    );
    assert!(PASSES.len() <= 40, "{} functions let real time go by", PASSES.len());
}

/// What the other tests look for is found, and what is alike is not.
#[test]
fn each_use_of_time_is_found() {
    let found = |attribute: &str, body: &str| -> Vec<(What, bool)> {
        let text = format!("{attribute}\nasync fn case() {{ {body} }}");
        uses(&text).iter().map(|it| (it.what, it.is_paused)).collect()
    };
    let (real, paused) = ("#[tokio::test]", "#[tokio::test(start_paused = true)]");
    for (body, what) in [
        ("sleep(SECOND).await;", What::Sleeps),
        ("tokio::time::sleep_until(then).await;", What::Sleeps),
        ("tokio::select! { () = sleep(SECOND) => {} }", What::Sleeps),
        ("std::thread::sleep(SECOND);", What::Blocks),
        ("waiting::pass(SECOND, \"\").await;", What::Passes),
        ("assert!(begun.elapsed() < SECOND, \"{begun:?}\");", What::Timed),
        ("assert!(is_held && SECOND >= begun.elapsed());", What::Timed),
        ("assert!(Instant::now() - begun <= SECOND);", What::Timed),
        ("assert_eq!(begun.elapsed().as_secs(), 8);", What::Timed),
        ("let took = begun.elapsed(); assert!(took < SECOND);", What::Timed),
        (
            "let (took, n) = (begun.elapsed(), 1); assert!((ZERO..SECOND).contains(&took));",
            What::Timed,
        ),
    ] {
        assert_eq!(found(real, body), [(what, false)], "{body}");
        assert_eq!(found(paused, body), [(what, true)], "{body}");
        assert_eq!(found("", body), [(what, false)], "nothing pauses its clock: {body}");
    }
    for body in [
        "backend.pass(SECOND).await; use tokio::time::sleep;",
        "assert!(begun.elapsed() >= SECOND && n < 7);",
        "let (took, n) = (begun.elapsed(), 1); assert!(n < 2);",
        "while begun.elapsed() < SECOND {}",
        "assert!(parsed::<u64>() > 1 && time.passed() < SECOND);",
    ] {
        assert_eq!(found(real, body), [], "{body}");
    }
    let helper = "async fn helper() { sleep(SECOND).await; }";
    let of_file = |text: &str| uses(&format!("{helper} {text}"))[0].is_paused;
    assert!(of_file("#[tokio::test(start_paused = true)] async fn case() {}"));
    assert!(of_file("#[test] fn case() { builder.start_paused(true).build().block_on(run()) }"));
    assert!(!of_file(
        "#[tokio::test(start_paused = true)] async fn a() {} #[tokio::test] async fn b() {}"
    ));
}
