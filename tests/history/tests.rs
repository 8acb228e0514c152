//! Planted violations, one for each rule, and histories that only look like one.

use super::{History, Line, Verdict, check};

/// A history. Its times are in milliseconds, which makes it shorter.
fn history(text: &str) -> History {
    let mut history = History::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let times = |word: &str| match word.strip_suffix("ms") {
            Some(number) => format!("{number}000000"),
            None => word.to_owned(),
        };
        let line = line.split(' ').map(times).collect::<Vec<_>>().join(" ");
        history.read(&format!("{line}\n"));
    }
    history
}

fn verdict(text: &str) -> Verdict {
    check(&history(text), Some(300_000_000))
}

pub(crate) fn assert_one(text: &str, rule: &str) {
    let found = verdict(text).wrong;
    assert!(found.len() == 1 && found[0].starts_with(rule), "{rule}: {found:?}");
}

pub(crate) fn assert_none(text: &str) {
    assert_eq!(verdict(text).wrong, Vec::<String>::new());
}

/// A request that is granted at `at`, in milliseconds, and asked for 2 ms earlier.
pub(crate) fn hold(id: &str, lock: &str, at: u64, until: u64, token: &str) -> String {
    let kind = match lock {
        "rw" if token == "-" => "Read 1 1",
        "rw" => "Write 1 1",
        "s" => "Permits 2 3",
        "job" => "Once 1 1",
        "re" => "Reentrant 1 1",
        _ => "Mutex 1 1",
    };
    let owner = id.split(':').next().unwrap_or_default();
    format!(
        "ask {id} {}ms {lock} {kind} {owner} 1000ms 0\n got {id} {at}ms {token}\n \
         held {id} {at}ms 900ms\n end {id} {until}ms\n freed {id} {until}ms free\n",
        at - 2
    )
}

#[test]
fn a_good_history_has_no_violation() {
    assert_none(
        &[
            hold("a:1", "m", 100, 110, "1"),
            hold("b:1", "m", 110, 200, "2"),
            hold("a:2", "rw", 100, 200, "-"),
            hold("b:2", "rw", 150, 250, "-"),
            hold("a:3", "rw", 250, 300, "5"),
            hold("a:4", "s", 100, 200, "-"),
            hold("b:4", "s", 200, 300, "-"),
            hold("a:5", "re", 100, 200, "3"),
            hold("a:6", "re", 150, 300, "3"),
            hold("b:5", "re", 300, 400, "4"),
        ]
        .concat(),
    );
}

#[test]
fn two_holders_at_a_time_are_found() {
    assert_one(
        &[hold("a:1", "m", 100, 200, "1"), hold("b:1", "m", 199, 300, "2")].concat(),
        "exclusion",
    );
}

#[test]
fn a_writer_beside_a_reader_is_found() {
    let reader = hold("a:1", "rw", 100, 200, "-");
    assert_one(&[reader.clone(), hold("b:1", "rw", 150, 300, "2")].concat(), "exclusion");
    let late_reader = hold("c:1", "rw", 250, 400, "-");
    assert_one(&[hold("b:1", "rw", 200, 300, "2"), late_reader].concat(), "exclusion");
    assert_none(&[reader, hold("b:1", "rw", 150, 300, "-")].concat());
}

#[test]
fn two_owners_at_a_time_are_found() {
    assert_one(
        &[hold("a:1", "re", 100, 200, "1"), hold("b:1", "re", 150, 300, "2")].concat(),
        "exclusion",
    );
}

#[test]
fn permits_above_the_limit_are_found() {
    assert_one(
        &[hold("a:1", "s", 100, 200, "-"), hold("b:1", "s", 150, 300, "-")].concat(),
        "limit",
    );
}

/// Its server compared it with the limit when it was granted, and does not see it taken up again.
#[test]
fn an_idle_permit_is_not_compared_again() {
    let permit = |id: &str, limit: u32, from: u32, to: u32, freed: u32| {
        format!(
            "ask {id} {from}ms s Permits 1 {limit} o 1000ms 300ms\n got {id} {from}ms -\n\
             held {id} {from}ms 1000ms\n end {id} {to}ms\n freed {id} {freed}ms lingers\n"
        )
    };
    let of_another_version = permit("b:1", 2, 300, 600, 601);
    let taken_up = permit("a:2", 1, 450, 470, 471);
    let idle = |freed| [permit("a:1", 1, 90, 100, freed), taken_up.clone()].concat();
    assert_none(&[of_another_version.clone(), idle(180)].concat());
    assert_one(&[of_another_version.clone(), idle(140)].concat(), "limit");
    // Nobody waited for the answer of a release that was dropped.
    let dropped = idle(140).replacen("lingers", "dropped", 1);
    assert_none(&[of_another_version, dropped].concat());
}

#[test]
fn a_lease_counts_to_its_deadline_after_its_holder_was_killed() {
    let killed = "ask a:1 98ms m Mutex 1 1 a 1000ms 0\n got a:1 100ms 1\n held a:1 100ms 900ms\n\
                  dead a 150ms true\n";
    assert_one(&[killed, &hold("b:1", "m", 999, 1100, "2")].concat(), "exclusion");
    assert_none(&[killed, &hold("b:1", "m", 1001, 1100, "2")].concat());
}

/// Work past the lease's end is no violation of the lock: the holder knew that it was over.
#[test]
fn a_lost_lease_counts_until_it_was_last_seen() {
    let lost = "ask a:1 98ms m Mutex 1 1 a 1000ms 0\n got a:1 100ms 1\n held a:1 100ms 900ms\n\
                held a:1 300ms 700ms\n lost a:1 500ms\n end a:1 600ms\n freed a:1 600ms lost\n";
    assert_one(&[lost, &hold("b:1", "m", 290, 310, "2")].concat(), "exclusion");
    assert_none(&[lost, &hold("b:1", "m", 301, 310, "2")].concat());
}

#[test]
fn what_a_server_forgets_counts_until_then() {
    let forgets = "fault Forgets 150ms 160ms 0 flush\n";
    let first = hold("a:1", "m", 100, 300, "1");
    assert_none(&[forgets, &first, &hold("b:1", "m", 170, 400, "2")].concat());
    // Both requests were granted after it.
    let second = hold("b:1", "m", 170, 400, "2");
    assert_one(&[forgets, &second, &hold("c:1", "m", 200, 400, "3")].concat(), "exclusion");
    // Both leases were there before it.
    assert_one(&[forgets, &first, &hold("b:1", "m", 140, 400, "2")].concat(), "exclusion");
}

#[test]
fn a_token_that_does_not_grow_is_found() {
    let first = hold("a:1", "m", 100, 200, "7");
    assert_one(&[first.clone(), hold("b:1", "m", 200, 300, "6")].concat(), "token");
    assert_one(&[first.clone(), hold("b:1", "m", 200, 300, "7")].concat(), "token");
    let between = [first, hold("b:1", "m", 200, 300, "8"), hold("c:1", "m", 300, 400, "7")];
    let found = verdict(&between.concat()).wrong;
    assert_eq!(found.len(), 2, "twice 7, and 7 after 8: {found:?}");
}

#[test]
fn a_token_is_repeated_by_its_owner_alone() {
    let first = hold("a:1", "re", 100, 200, "7");
    assert_none(&[first.clone(), hold("a:2", "re", 200, 300, "7")].concat());
    assert_one(&[first, hold("b:2", "re", 200, 300, "7")].concat(), "token");
}

#[test]
fn tokens_grow_across_a_loss_of_data() {
    let forgets = "fault Forgets 150ms 160ms 0 flush\n";
    let first = hold("a:1", "m", 100, 140, "7");
    assert_one(&[forgets, &first, &hold("b:1", "m", 200, 300, "6")].concat(), "token");
    // It was asked for before the loss, and may have been granted before the other.
    let early = "ask b:1 99ms m Mutex 1 1 b 1000ms 0\n got b:1 200ms 6\n held b:1 200ms 90ms\n";
    assert_none(&[forgets, &first, early].concat());
}

/// A request of the same process was asked for before the loss, and hands its lease on.
#[test]
fn a_token_from_before_a_loss_may_be_handed_on() {
    let forgets = "fault Forgets 150ms 1250ms 0 flush\n";
    let other = hold("b:1", "m", 160, 170, "1000");
    let heir = hold("a:2", "m", 300, 310, "501").replacen(" 298ms m ", " 180ms m ", 1);
    let first = wait("a:1", "m", 100, 290, "500");
    assert_none(&[forgets, &other, &first, &heir].concat());
    assert_one(&[forgets, &other, &heir].concat(), "token");
    let of_another_grant = wait("a:1", "m", 100, 290, "400");
    assert_one(&[forgets, &other, &of_another_grant, &heir].concat(), "token");
    let of_another_process = wait("c:1", "m", 100, 290, "500");
    assert_one(&[forgets, &other, &of_another_process, &heir].concat(), "token");
}

#[test]
fn a_server_that_takes_over_lacks_what_is_said_and_nothing_else() {
    let pair = |lock, tokens: [&str; 2]| {
        hold("a:1", lock, 100, 800, tokens[0]) + &hold("b:1", lock, 300, 400, tokens[1])
    };
    let replaced = "fault Replaced 200ms 1000ms 0 failovers\n";
    assert_one(&(pair("m", ["1000", "2000"]) + replaced), "exclusion");
    for (token, until, is_excused) in
        [(1000, 250, true), (940, 250, true), (936, 250, false), (1000, 350, false)]
    {
        let text = pair("m", ["1000", "2000"]) + replaced;
        let text = text + &format!("forgotten m {token} {until}ms\n");
        if is_excused {
            assert_none(&text);
        } else {
            assert_one(&text, "exclusion");
        }
    }
    let other = pair("m", ["1000", "2000"]) + replaced + "forgotten other 1000 250ms\n";
    assert_one(&other, "exclusion");
    // One that it grants after its end has an old token, as it should.
    let old = hold("a:1", "m", 100, 110, "3000") + &hold("b:1", "m", 300, 310, "2000") + replaced;
    assert_none(&(old.clone() + "forgotten m 2000 250ms\n"));
    // Those without a token may all be forgotten.
    assert_none(&(pair("rw", ["-", "2000"]) + replaced));
}

#[test]
fn a_server_forgets_at_any_time_of_the_fault() {
    let grants = hold("a:1", "m", 100, 110, "9000") + &hold("b:1", "m", 300, 310, "5000");
    let back = "fault Behind 90ms 90ms 1000ms jumps-back\n";
    assert_one(&(grants.clone() + back), "token");
    assert_none(&(grants + back + "fault Forgets 200ms 1300ms 0 flushes\n"));
}

#[test]
fn a_clock_that_goes_back_excuses_tokens_after_an_expiry() {
    let behind = "fault Behind 150ms 150ms 300ms clock\n";
    let expired = "ask a:1 8ms m Mutex 1 1 a 100ms 0\n got a:1 10ms 7\n held a:1 10ms 90ms\n\
                   lost a:1 120ms\n end a:1 120ms\n freed a:1 120ms lost\n";
    let smaller = hold("b:1", "m", 200, 300, "6");
    assert_none(&[behind, expired, &smaller].concat());
    assert_one(&[expired, &smaller].concat(), "token");
    let released = hold("a:1", "m", 10, 100, "7");
    assert_one(&[behind, &released, &smaller].concat(), "token");
    // The clock has made up for it.
    assert_one(&[behind, expired, &hold("b:1", "m", 1100, 1200, "6")].concat(), "token");
    // It has to make up for both steps.
    let again = "fault Behind 200ms 200ms 600ms clock\n";
    assert_none(&[behind, again, expired, &hold("b:1", "m", 1420, 1500, "6")].concat());
}

#[test]
fn who_asks_for_several_together_waits_for_one() {
    let held = "ask a:1 80ms n Mutex 1 1 a 30000ms 0\n got a:1 82ms 1\n held a:1 82ms 29000ms\n\
                end a:1 29000ms\n freed a:1 29000ms free\n";
    let ask = |id: &str, lock: &str| format!("ask {id} 90ms {lock} Mutex 1 1 b 1000ms 0\n");
    let refused = |id: &str| format!("refused {id} 20000ms gave-up\n");
    let one = [ask("b:1", "m"), refused("b:1")].concat();
    let other = [ask("b:2", "n"), refused("b:2")].concat();
    assert_one(&[held, &one].concat(), "waiting");
    assert_none(&[held, &one, &other].concat());
    // Both are free.
    let free = [one, other].concat();
    assert_eq!(verdict(&free).wrong.len(), 2);
}

/// Those who are refused in turn do not hide that nobody gets the lock.
#[test]
fn a_crowd_that_nobody_serves_is_found() {
    let dead = "ask a:1 48ms m Mutex 1 1 a 1000ms 0\n got a:1 50ms 1\n held a:1 50ms 990ms\n\
                dead a 100ms true\n";
    let crowd = (0..18).map(|nth: u64| {
        let (asked, refused) = (90 + nth * 1_000, 18_000 + nth * 1_000);
        format!("ask b{nth}:1 {asked}ms m Mutex 1 1 b 1000ms 0\n refused b{nth}:1 {refused}ms timed-out\n")
    });
    let found = verdict(&[dead, &crowd.collect::<String>()].concat()).wrong;
    assert!(found.iter().any(|it| it.starts_with("waiting")), "{found:?}");
}

/// The holder is dead at 100 ms, and its lease ends a second later.
#[test]
fn a_waiter_that_nobody_serves_is_found() {
    let dead = "ask a:1 48ms m Mutex 1 1 a 1000ms 0\n got a:1 50ms 1\n held a:1 50ms 990ms\n\
                dead a 100ms true\n";
    let waits = |until: u64| {
        format!("ask b:1 90ms m Mutex 1 1 b 1000ms 0\n refused b:1 {until}ms timed-out\n")
    };
    assert_one(&[dead, &waits(17_000)].concat(), "waiting");
    assert_none(&[dead, &waits(15_500)].concat());
    let away = "fault Away 8000ms 9000ms 0 cut\n";
    assert_none(&[dead, &waits(17_000), away].concat());
    let stopped = "stopped b 8000ms 9000ms\n";
    assert_none(&[dead, &waits(17_000), stopped].concat());
    // Another holds it meanwhile.
    let other = hold("c:1", "m", 4_000, 12_000, "2").replace("12000ms free", "12000ms lost");
    let other = other.replacen("3998ms m", "80ms m", 1);
    assert_none(&[dead, &waits(17_000), &other].concat());
}

/// The same, of a job whose work has succeeded.
fn succeed(id: &str, at: u64, token: &str, tick: u64) -> String {
    let until = at + 10;
    format!("{} done {id} {until}ms {tick}\n", hold(id, "job", at, until, token))
}

#[test]
fn a_second_success_in_a_tick_is_found() {
    let (first, second) = (succeed("a:1", 100, "1", 7), succeed("b:1", 200, "2", 7));
    assert_one(&[first.clone(), second.clone()].concat(), "once");
    assert_none(&[first.clone(), succeed("b:1", 200, "2", 8)].concat());
    assert_none(&[first.clone(), hold("b:1", "job", 200, 210, "2")].concat());
    let forgotten = "fault Forgets 120ms 130ms 0 flushes\n";
    assert_none(&[&*first, forgotten, &second].concat());
    let later = "fault Forgets 220ms 230ms 0 flushes\n";
    assert_one(&[&*first, later, &second].concat(), "once");
    for (again, is_wrong) in [("job 120ms", false), ("job 220ms", true), ("other 120ms", true)] {
        let text = [&*first, &format!("again {again} 230ms\n"), &second].concat();
        assert_eq!(verdict(&text).wrong.len(), usize::from(is_wrong), "{again}");
    }
}

#[test]
fn a_second_adoption_of_a_lease_is_found() {
    let adopt =
        |id, of, at, token| format!("{} adopt {id} {of}\n", hold(id, "m", at, at + 10, token));
    let first = adopt("b:1", "a:1", 200, "2");
    assert_one(&[first.clone(), adopt("c:1", "a:1", 300, "3")].concat(), "once");
    assert_none(&[first.clone(), adopt("c:1", "b:1", 300, "3")].concat());
    let forgotten = "fault Forgets 220ms 230ms 0 failovers\n";
    assert_none(&[&*first, forgotten, &adopt("c:1", "a:1", 300, "3")].concat());
}

/// A request that waits before it is granted, and then holds for 10 ms.
fn wait(id: &str, lock: &str, asked: u64, at: u64, token: &str) -> String {
    let early = format!(" {}ms {lock} ", at - 2);
    hold(id, lock, at, at + 10, token).replacen(&early, &format!(" {asked}ms {lock} "), 1)
}

#[test]
fn a_turn_that_lasts_for_too_long_is_found() {
    let first = hold("a:1", "m", 100, 110, "1");
    assert_none(&[first.clone(), hold("a:2", "m", 150, 160, "2")].concat());
    let late = hold("a:2", "m", 151, 160, "2");
    let both = [first, late].concat();
    assert_one(&both, "turns");
    for reason in ["stopped a 120ms 130ms\n", "neglected a:2 149ms 151ms false\n"] {
        assert_none(&[&*both, reason].concat());
    }
}

#[test]
fn a_grant_past_the_neighbour_of_one_that_is_left_alone_is_found() {
    let left_alone = "ask a:9 150ms m Mutex 1 1 a 1000ms 0\n \
                      neglected a:9 200ms 15000ms false\n refused a:9 16000ms gave-up\n";
    let waits = wait("a:1", "m", 100, 12_000, "2");
    let passes = |asked, got| [left_alone, &*waits, &*wait("b:1", "m", asked, got, "1")].concat();
    assert_none(&passes(2_000, 3_000));
    assert_none(&passes(8_200, 9_000));
    assert_one(&passes(8_201, 9_000), "order");
}

#[test]
fn a_grant_past_a_waiter_is_found() {
    let (first, second) = (wait("a:1", "m", 100, 5_000, "2"), wait("b:1", "m", 2_000, 3_000, "1"));
    let both = [first.clone(), second.clone()].concat();
    assert_one(&both, "order");
    assert_one(&[&both, "waits a:1 3401ms\n"].concat(), "order");
    assert_none(&[&both, "waits a:1 3400ms\n"].concat());
    assert!(check(&history(&both), None).wrong.is_empty(), "no order is promised");
    let in_vain = "ask a:1 100ms m Mutex 1 1 a 1000ms 0\n refused a:1 5000ms timed-out\n";
    assert_one(&[in_vain, &second].concat(), "order");
    let (reads, writes) =
        (wait("a:1", "rw", 100, 5_000, "-"), wait("b:1", "rw", 2_000, 3_000, "-"));
    assert_one(&[reads, writes].concat(), "order");

    // It came soon after, and may have been handed over inside its process.
    assert_none(&[first.clone(), wait("b:1", "m", 400, 3_000, "1")].concat());
    assert_one(&[first.clone(), wait("b:1", "m", 401, 3_000, "1")].concat(), "order");
    // The waiter's process queued it behind another request of its own.
    let own = hold("a:0", "m", 90, 2_900, "1").replace("900ms\n end", "2890ms\n end");
    let late = second.replace("3000ms", "3100ms").replace("3010ms", "3110ms");
    assert_none(&[own, first.replace(" 2\n", " 3\n"), late.replace(" 1\n", " 2\n")].concat());
    // It has the place of an earlier request of its process.
    let gave_up = "ask b:0 90ms m Mutex 1 1 b 1000ms 0\n refused b:0 2500ms timed-out\n";
    assert_none(&[&both, gave_up].concat());
    // It was handed the lease by one that held it when it came.
    let before = wait("b:0", "m", 90, 1_990, "1").replace("2000ms", "2500ms");
    let handed = second.replace(" 1\n", " 65\n");
    assert_none(&[before, first.replace(" 2\n", " 129\n"), handed].concat());
    for reason in [
        "stopped a 1000ms 1500ms\n",
        "stalled a 1000ms 1500ms\n",
        "fault Away 1000ms 1500ms 0 cut\n",
        // It waits for two locks.
        "ask a:2 100ms n Mutex 1 1 a 1000ms 0\n",
        // It only tries, and waits for releases of its own process.
        "waits a:1 0\n",
        "adopt b:1 c:1\n",
    ] {
        assert_none(&[&both, reason].concat());
    }
    let stopped = "stopped b 1000ms 1500ms\n";
    assert_one(&[&both, stopped].concat(), "order");
    // What would tell it of the waiter, it may not have read when it took up its idle lease.
    let idle = hold("b:0", "m", 50, 60, "1").replace("1000ms 0\n", "1000ms 900ms\n");
    let taken_up =
        [&*idle, &both.replace(" 2\n", " 9\n").replace(" 1\n", " 2\n"), stopped].concat();
    assert_none(&taken_up);
    // A grant of several is heard of by one after the other.
    assert_none(&[first.replace("5000ms", "3400ms").replace("5010ms", "3410ms"), second].concat());
    // An owner that re-enters does not queue.
    let (one, other) = (wait("a:1", "re", 100, 5_000, "2"), wait("b:1", "re", 2_000, 3_000, "1"));
    assert_none(&[one, other].concat());
    // Nobody waits in a queue that the waiter has left.
    let killed = "ask a:1 100ms m Mutex 1 1 a 1000ms 0\n dead a 4000ms true\n";
    assert_none(&[killed, &wait("b:1", "m", 2_000, 3_000, "1")].concat());
}

#[test]
fn a_lease_beyond_its_max_hold_is_found() {
    let held = hold("a:1", "m", 100, 600, "1");
    assert_none(&[&held, "max-hold a:1 900ms\n"].concat());
    assert_one(&[&held, "max-hold a:1 899ms\n"].concat(), "max-hold");
    // A stuck holder that is renewed for ever keeps others waiting.
    let stuck = "ask a:1 48ms m Mutex 1 1 a 1000ms 0\n got a:1 50ms 1\n held a:1 50ms 500ms\n\
                 lost a:1 560ms\n end a:1 30000ms\n freed a:1 30000ms lost\n";
    let waits = "ask b:1 90ms m Mutex 1 1 b 1000ms 0\n refused b:1 25000ms timed-out\n";
    assert_none(&[stuck, waits].concat());
    assert_one(&[stuck, waits, "max-hold a:1 500ms\n"].concat(), "waiting");
}

#[test]
fn unexpected_answers_are_found() {
    let asked = "ask a:1 98ms m Mutex 1 1 a 1000ms 0\n";
    let other = hold("b:1", "m", 90, 200, "7");
    assert_one(&[&other, asked, "refused a:1 100ms wrong-kind\n"].concat(), "answer");
    assert_one(
        &[&hold("a:1", "m", 100, 200, "7"), "freed a:1 201ms wrong-kind\n"].concat(),
        "answer",
    );
    assert_one(&hold("a:1", "m", 100, 200, "-"), "answer");
}

/// It was told that others had the lock.
#[test]
fn a_refusal_for_nobody_s_sake_is_found() {
    let refused =
        |why: &str| format!("ask a:2 90000ms m Mutex 1 1 a 1000ms 0\n refused a:2 90001ms {why}\n");
    let busy = refused("busy");
    assert_one(&busy, "refusals");
    assert_one(&[&*hold("b:1", "m", 100, 89_000, "7"), &busy].concat(), "refusals");
    assert_none(&[&*hold("b:1", "m", 100, 90_001, "7"), &busy].concat());
    // What the process itself has given back is no reason; what it holds is.
    assert_one(&[&*hold("a:1", "m", 100, 89_999, "7"), &busy].concat(), "refusals");
    assert_none(&[&*hold("a:1", "m", 100, 90_010, "7"), &busy].concat());
    let unanswered = hold("a:1", "m", 100, 89_999, "7").replace("ms free", "ms store");
    assert_none(&[&*unanswered, &busy].concat());
    assert_none(&refused("store"));
    for reason in ["fault Away 85001ms 86000ms 0 cut\n", "stopped a 86000ms 86001ms\n"] {
        assert_none(&[&*busy, reason].concat());
    }
    // The place of a dead waiter.
    let dead = "ask b:1 80000ms m Mutex 1 1 b 1000ms 0\n dead b 83000ms true\n";
    assert_none(&[dead, &busy].concat());
    // Another one of a set may be taken.
    assert_none(&[&*busy, "ask a:3 90000ms n Mutex 1 1 a 1000ms 0\n"].concat());
}

#[test]
fn a_process_that_ends_by_itself_is_found() {
    assert_one("dead a 100ms false\n", "a ended by itself");
    assert_none("dead a 100ms true\n");
}

#[test]
fn broken_histories_are_found() {
    assert_one("held a:1 100ms 900ms\n", "a:1 was never asked for");
    assert_one("hold a:1\n", "no line");
    assert_one("lost a:1 100ms 900ms\n", "no line");
    let mut torn = History::default();
    torn.read("dead a 1 true\nask a:1 98 m Mut");
    assert_eq!(
        check(&torn, None).wrong,
        Vec::<String>::new(),
        "its process was killed while it wrote"
    );
}

#[test]
fn every_line_is_read_as_it_was_written() {
    let lines = "ask a:1 98 m Reentrant 1 3 me 1000 5\ngot a:1 1 -\ngot a:1 1 7\nheld a:1 1 2\n\
                 lost a:1 3\nend a:1 4\nfreed a:1 5 free\nrefused a:1 6 busy\ndone a:1 6 9\nadopt a:1 b:2\ndead a 7 false\n\
                 stopped a 8 9\nstalled a 8 9\nmax-hold a:1 5\nwaits a:1 5\nnamed a:1\nrenewed a:1\nlasts a:1 400\n\
                 neglected a:1 7 9 true\nfault Behind 1 2 3 clock";
    for line in lines.lines() {
        assert_eq!(line.parse::<Line>().map(|line| line.to_string()), Ok(line.to_owned()));
    }
}

/// What a fault excuses is not judged, nor what a rule does not look at.
#[test]
fn a_rule_says_what_it_has_judged() {
    let judged = |lines: &[&str], rule: &str| verdict(&lines.concat()).judged.get(rule);
    let (first, next) = (hold("a:1", "m", 100, 110, "1"), hold("b:1", "m", 120, 130, "2"));
    let (cut, flush) = ("fault Away 105ms 106ms 0 cut\n", "fault Forgets 105ms 125ms 0 flush\n");
    let renewed = "renewed a:1\n";
    assert_eq!(judged(&[&first, renewed], "loss"), 1);
    assert_eq!(judged(&[&first, renewed, cut], "loss"), 0);
    assert_eq!(judged(&[&first, &next], "exclusion"), 2);
    assert_eq!(judged(&[&first, &next], "order"), 0);
    assert_eq!(judged(&[&first, &next], "token"), 1);
    let succeeds = |id: &str, at: u64| {
        [hold(id, "job", at, at + 10, "-"), format!("done {id} {}ms 7\n", at + 10)].concat()
    };
    let (once, twice) = (succeeds("a:1", 100), succeeds("b:1", 130));
    assert_eq!(judged(&[&once, &twice], "once"), 2);
    assert_eq!(judged(&[&once, &twice, flush], "once"), 1);
    let waits = "ask b:1 90ms m Mutex 1 1 b 1000ms 0\n refused b:1 25000ms timed-out\n";
    let long = "fault Away 1000ms 20000ms 0 cut\n";
    assert_eq!(judged(&[&first, waits], "waiting"), 1);
    assert_eq!(judged(&[&first, waits, long], "waiting"), 0);
}

#[test]
fn figures_are_counted() {
    let mut history = History::default();
    history.read("dead a 1 true\nfault Away 1 2 0 cut\nfault Away 3 4 0 cut\n");
    history.read("ask a:1 98 m Mutex 1 1 a 1000 5\n");
    let figures = history.figures();
    let found = ["deaths", "cut", "asked", "granted", "cut-off"].map(|name| figures.get(name));
    assert_eq!(found, [1, 2, 1, 0, 1]);
    assert!(figures.to_string().contains("2 cut, "), "{figures}");
}
