//! The mistakes in the client.

use super::{ClientMistake, mistake};
use crate::world::faults::Fault;
use crate::world::plan::Deployment;

/// All of them. Those with 0 were not found by a hundred seeds of their worlds; the reason stands above
/// each, as far as it is known.
pub const CLIENT_MISTAKES: &[ClientMistake] = &[
    mistake(
        "nobody-cancels-after-giving-up",
        20,
        "client/in_flight.rs",
        "self.client.keeper.cancel_later(requests(), command, outcome);",
        "drop((requests(), command, outcome));",
    ),
    mistake(
        "a-late-copy-is-not-cancelled-again",
        300,
        "keeper/release.rs",
        "!again.is_empty()",
        "!again.is_empty() && refusals == Refusals::WereMet",
    )
    .among(&[Fault::Stalls])
    .without_kills(),
    mistake(
        "a-late-grant-stays-after-the-release",
        400,
        "keeper/release.rs",
        "cancel_all(&jobs, &requests, Refusals::AreRepeated).await;",
        "drop((jobs, requests));",
    )
    .among(&[Fault::Stalls])
    .without_kills(),
    // Few copies of an ask arrive after a release, and within the time for which a client waits for them.
    mistake(
        "a-forgetting-release-leaves-late-copies",
        0,
        "state/lease/releasing.rs",
        "may_forget && self.is_all_answered",
        "may_forget",
    )
    .among(&[Fault::Stalls])
    .without_kills(),
    mistake(
        "an-offer-is-believed-to-its-heartbeat",
        100,
        "client/pending.rs",
        "live.saturating_sub(offer.early)",
        "live",
    ),
    // It was found before; 100 seeds of the present worlds do not meet it.
    mistake(
        "an-offer-is-believed-for-the-whole-ttl",
        0,
        "client/pending.rs",
        "OFFER.min(self.request.ttl)",
        "self.request.ttl",
    )
    .on(Deployment::Single)
    .among(&[Fault::JumpsAhead, Fault::Blocks]),
    mistake(
        "an-offer-that-had-ended-is-taken",
        400,
        "client/pending.rs",
        "offer.until == heartbeat.until",
        "true",
    )
    .among(&[Fault::Blocks, Fault::Messages]),
    mistake(
        "a-deadline-counts-from-the-answer",
        20,
        "client/pending.rs",
        "GrantTimes::by_command(self.in_flight.sent, self.request.ttl)",
        "GrantTimes::by_command(self.now(), self.request.ttl)",
    ),
    mistake(
        "a-renewal-counts-from-its-answer",
        20,
        "keeper/renew.rs",
        "local.extend(sent, ttl);",
        "local.extend(crate::system::now_since_boot(), ttl);",
    ),
    mistake(
        "a-suspension-does-not-count",
        20,
        "system.rs",
        "world.suspended()",
        "{ let _ = world; Duration::ZERO }",
    )
    .among(&[Fault::Suspensions]),
    mistake(
        "a-forged-offer-is-believed",
        20,
        "store/redis/secret.rs",
        "(self.proof(message).as_bytes() == proof).then_some(message)",
        "{ let _ = proof; Some(message) }",
    )
    .among(&[Fault::Forgeries]),
    mistake(
        "a-forced-message-is-believed",
        20,
        "keeper/loss.rs",
        "if let Ok(true) = store.was_forced(&local.request).await {
            local.lose(LossReason::Forced);
        }",
        "drop(store); local.lose(LossReason::Forced);",
    )
    .among(&[Fault::Forgeries]),
    // No rule says how long a waiter may wait for neighbours that nobody polls.
    mistake(
        "silent-neighbours-are-waited-for",
        0,
        "local_queue/waiter.rs",
        "LIVE + PATIENCE_STEP * u32::try_from(before).unwrap_or(u32::MAX)",
        "{ let _ = before; LIVE * 100 + PATIENCE_STEP }",
    )
    .among(&[]),
    mistake(
        "a-leader-that-steps-down-leads-on",
        20,
        "api/election/standing.rs",
        "self.asked.notify_one();",
        "",
    ),
    mistake(
        "an-old-connection-is-not-killed",
        100,
        "store/redis/handshake.rs",
        "connector.server.abandoned_at(server)",
        "Vec::<LinkName>::new()",
    )
    .among(&[Fault::Stalls]),
    mistake(
        "a-repeated-ask-has-another-id",
        20,
        "client/pending.rs",
        "(self.live, self.ttl) = (live.unwrap_or_default(), self.request.ttl);",
        "if self.in_flight.unanswered_since().is_some() {
             self.request.id = self.client().next_request();
         }
         (self.live, self.ttl) = (live.unwrap_or_default(), self.request.ttl);",
    ),
    mistake(
        "a-release-that-nobody-awaits-is-forgotten",
        100,
        "state/lease/releasing.rs",
        "self.may_be_released.swap(true, Ordering::AcqRel)",
        "self.may_be_released.swap(false, Ordering::AcqRel)",
    )
    .on(Deployment::Single),
    mistake(
        "a-set-asks-with-the-limit-of-the-code",
        100,
        "engine/acquire/multi_atomic.rs",
        "asked.to_mut()[index] = request",
        "drop((index, request, asked.to_mut().len()))",
    )
    // A limit must stand for 23 s before each client must know it.
    .in_long_worlds()
    .on(Deployment::Single),
    mistake(
        "a-changed-limit-is-not-noted-by-its-own-client",
        100,
        "client/limits.rs",
        "is_alone || self.read().await.is_err()",
        "is_alone && false",
    )
    .on(Deployment::Single),
    mistake(
        "what-is-used-of-a-rate-is-given-back",
        100,
        "engine/acquire/rates.rs",
        "std::mem::take(&mut self.rates)",
        "self.rates.clone()",
    )
    .on(Deployment::Cluster),
    // A rate loses what the copy takes. Needed: a rule that a rate loses no more than its callers have used, where
    // no answer is lost for good.
    mistake(
        "a-take-is-settled-though-a-copy-may-arrive",
        0,
        "engine/acquire/multi_atomic.rs",
        "self.in_flight.unanswered_since().is_none()",
        "true",
    )
    .among(&[Fault::Stalls])
    .without_kills(),
    mistake(
        "a-job-sleeps-through-its-next-tick",
        20,
        "api/job/next.rs",
        "left + Duration::from_millis(1) + system::full_jitter(jitter)",
        "left * 100 + system::full_jitter(jitter)",
    ),
    mistake(
        "a-job-waits-a-tick-for-a-dead-run",
        60,
        "api/job/next.rs",
        "held.clamp(SHORTEST, most.max(SHORTEST))",
        "{ let _ = held; most.max(SHORTEST) }",
    ),
    mistake(
        "a-job-pauses-for-long-after-a-failure",
        20,
        "api/job/next.rs",
        "1 << self.failures.min(MOST_DOUBLINGS)",
        "1 << MOST_DOUBLINGS",
    ),
    mistake(
        "a-job-does-not-hear-that-it-may-run-again",
        20,
        "hints.rs",
        "self.jobs.wake(&key)",
        "drop(key)",
    ),
    // The next ask of the job subscribes again, and that follows a loss within seconds. Needed: a world whose
    // commands go by other connections than its messages.
    mistake(
        "a-job-does-not-subscribe-again",
        0,
        "hints/wakeups.rs",
        "self.losses.fetch_add(1, Ordering::AcqRel);",
        "",
    )
    .on(Deployment::Cluster),
    mistake(
        "a-job-does-not-ask-after-a-second-loss",
        60,
        "hints/wakeups.rs",
        "sleep(MISSED.saturating_sub(since)).await;",
        "if since < MISSED { std::future::pending::<()>().await; }",
    )
    .on(Deployment::Single),
    mistake(
        "a-lease-gives-way-while-it-is-held",
        20,
        "engine/lease/give_way.rs",
        "local.lose(LossReason::Replaced);",
        "let _ = store.release(&request, std::time::Duration::ZERO).await;",
    ),
    mistake(
        "an-idle-lease-is-taken-up-unasked",
        200,
        "local_queue/idle.rs",
        "need.whole || by_renewal.max(by_refill) < need.since",
        "{ let _ = by_renewal.max(by_refill); false }",
    )
    .on(Deployment::Single)
    .among(&[Fault::RestartsEmpty]),
    mistake(
        "an-ended-server-is-told-when-it-is-back",
        300,
        "store/redis/cluster/subscriptions.rs",
        "self.hints.deliver(Hint::Missed);
                self.restore_needed.notify_one();",
        "self.restore_needed.notify_one();",
    )
    .on(Deployment::Cluster)
    .among(&[Fault::RestartsEmpty]),
    mistake(
        "a-waiter-asks-once",
        20,
        "client/pending.rs",
        "NotGranted::Queued(ask_again)",
        "NotGranted::Queued(ask_again * 1000)",
    ),
    mistake(
        "a-lease-in-use-is-given-back-as-if-it-were-idle",
        20,
        "local_queue/lingering/recalling.rs",
        "Usage::Recalled { in_use: true }",
        "Usage::Recalled { in_use: false }",
    ),
    // The timer ends it in time, unless the whole process stands still: no world of 12 did just then.
    // `faults::lingering::an_idle_lease_is_not_taken_up_after_its_deadline` shows it.
    mistake(
        "an-idle-lease-is-taken-up-after-its-end",
        0,
        "local_queue/handoff.rs",
        "self.request.as_ref().is_some_and(is_same) && !self.is_over(now)",
        "{ let _ = now; self.request.as_ref().is_some_and(is_same) }",
    ),
    mistake(
        "an-idle-lease-outlives-its-linger",
        20,
        "local_queue/lingering/timer.rs",
        "since + linger.lasts <= now || is_over",
        "is_over",
    ),
    // It is taken up again before it goes; 40 worlds of the rule `recalls` did not see it stay.
    mistake(
        "a-recalled-lease-lingers-on",
        0,
        "local_queue/idle.rs",
        "turn.linger.as_mut().filter(|linger| !linger.is_recalled())?",
        "turn.linger.as_mut()?",
    )
    .among(&[]),
    mistake(
        "nobody-answers-a-recall",
        40,
        "hints.rs",
        "self.idle.tell(|idle| idle.recalled(&key))",
        "drop(key)",
    )
    .among(&[]),
    mistake(
        "the-next-task-has-the-same-token",
        20,
        "local_queue/handoff.rs",
        "Fence::new(fence.get() + 1)",
        "fence",
    ),
    // No rule says how long a process may hand a lock on to its own tasks.
    mistake(
        "a-turn-has-no-end",
        0,
        "local_queue/turns.rs",
        "self.add(Turn { id, weight, ends, left: TOKENS - 1, state, linger: None });",
        "let ends = ends + NEVER;
         self.add(Turn { id, weight, ends, left: u64::MAX, state, linger: None });",
    )
    .among(&[]),
    mistake(
        "an-offer-of-work-has-no-tick",
        20,
        "client/pending.rs",
        "self.heartbeat.filter(|_| !is_once)",
        "{ let _ = is_once; self.heartbeat }",
    ),
    // It was found before; 100 seeds of the present worlds do not meet it.
    mistake(
        "a-ticket-travels-before-late-copies",
        0,
        "engine/lease/detach.rs",
        "self.until_all_has_arrived().await?;",
        "",
    )
    .among(&[Fault::Stalls])
    .without_kills(),
    // Seed 23 of former worlds showed it; 100 seeds of these do not. Needed: a rule that a try is not refused for what
    // its own client has released before it asked.
    mistake(
        "a-release-is-passed-by-the-next-ask",
        0,
        "engine/acquire/single.rs",
        "refusal.is_refusal() && schedule.earlier.is_some()",
        "false",
    )
    .with_processes(1)
    .among(&[]),
    mistake(
        "a-majority-is-half",
        20,
        "store/quorum/members.rs",
        "members.len() / 2 + 1",
        "(members.len() / 2).max(1)",
    ),
    mistake(
        "clocks-are-taken-to-agree",
        20,
        "store/contract.rs",
        "ttl.saturating_sub(ttl / 100 + Duration::from_millis(2))",
        "ttl.saturating_sub(Duration::from_millis(2))",
    )
    .on(Deployment::Single)
    .among(&[Fault::Drifts]),
    mistake(
        "a-silent-connection-is-kept",
        20,
        "store/redis/server_state.rs",
        "u128::from(silent) >= patience.as_millis()",
        "{ let _ = (silent, patience); false }",
    )
    .among(&[Fault::HalfOpen]),
    // A redirection asks for a report of the slots anyway, which says the same.
    mistake(
        "a-move-is-not-remembered",
        0,
        "store/redis/cluster/topology.rs",
        "map.move_slot(slot, other)",
        "{ drop(other); false }",
    )
    .on(Deployment::Cluster)
    .among(&[Fault::Moves]),
    // It costs a redirect, and nothing else.
    mistake(
        "an-ask-moves-the-slot",
        0,
        "store/redis/cluster/topology.rs",
        "return Some(Next::Asking(other(&mut lock(&self.map))?))",
        "let mut map = lock(&self.map);
         let other = other(&mut map)?;
         map.move_slot(slot, other);",
    )
    .on(Deployment::Cluster)
    .among(&[Fault::Moves]),
    // A slot that moves excuses what fails meanwhile.
    mistake(
        "an-ask-is-followed-without-asking",
        0,
        "store/redis/cluster.rs",
        "command.route(slot, is_asking)",
        "{ let _ = is_asking; command.route(slot, false) }",
    )
    .on(Deployment::Cluster)
    .among(&[Fault::Moves]),
    // The next node that is asked says where the slot is.
    mistake(
        "the-slots-are-never-asked-for-again",
        0,
        "store/redis/cluster.rs",
        "if error.is_passing {
                // Another node may have its slots by now.
                topology.refresh();
            }",
        "",
    )
    .on(Deployment::Cluster)
    .among(&[Fault::Failovers]),
    mistake(
        "one-node-is-asked-for-the-slots",
        60,
        "store/redis/cluster/topology.rs",
        "reports[at].1 * 2 > nodes.len()",
        "reports[at].1 > 0",
    )
    .on(Deployment::Cluster)
    .among(&[Fault::Failovers]),
    // It needs a former master that keeps its connections, and a waiter that is left alone for seconds.
    // `cluster::hints_follow_a_master_that_becomes_a_replica` has its test.
    mistake(
        "hints-stay-with-the-former-master",
        0,
        "store/redis/cluster/subscriptions.rs",
        "link.address == master.address && link.has(name)",
        "link.has(name)",
    )
    .on(Deployment::Cluster)
    .among(&[Fault::Failovers]),
    // A slot that moves excuses what fails meanwhile.
    mistake(
        "a-script-that-was-cut-short-has-not-run",
        0,
        "store/redis/errors.rs",
        "says(refusal, \"non local key\")",
        "{ let _ = refusal; false }",
    )
    .on(Deployment::Cluster)
    .among(&[Fault::Moves])
    .without_kills(),
    // A failover excuses what fails meanwhile.
    mistake(
        "a-read-only-answer-keeps-its-connection",
        0,
        "store/redis/errors.rs",
        "(LinkOutcome::Broken, refused(error, true))",
        "(LinkOutcome::Answered, refused(error, true))",
    )
    .on(Deployment::Sentinel { syncs: false })
    .among(&[Fault::Failovers]),
    // The same.
    mistake(
        "a-replica-is-taken-for-the-master",
        0,
        "store/redis/handshake.rs",
        "role != b\"master\"",
        "{ let _ = role; false }",
    )
    .on(Deployment::Sentinel { syncs: false })
    .among(&[Fault::Failovers]),
    // The same.
    mistake(
        "one-sentinel-is-enough",
        0,
        "store/redis/sentinel.rs",
        "*votes * 2 > self.all.len()",
        "*votes > 0",
    )
    .on(Deployment::Sentinel { syncs: false })
    .among(&[Fault::Failovers]),
    mistake(
        "no-replica-has-to-confirm",
        20,
        "store/redis/replicated.rs",
        "it >= self.replicas",
        "{ let _ = it; true }",
    )
    .on(Deployment::Sentinel { syncs: true })
    .among(&[Fault::Lags, Fault::Failovers]),
    mistake(
        "an-unconfirmed-grant-is-not-taken-back",
        100,
        "store/redis/replicated.rs",
        "if let Err(error) = self.call(&mut link, cancel, asked.limit).await {
                return Err(StoreError { outcome: Outcome::Unknown, ..error });
            }",
        "let _ = cancel;",
    )
    .on(Deployment::Sentinel { syncs: true })
    .among(&[Fault::Lags, Fault::Blocks]),
    // In an earlier version of the worlds, seed 3 found it; now 160 seeds do not.
    mistake(
        "a-release-waits-for-a-silent-subscription",
        0,
        "local_queue/lingering/asking.rs",
        "timeout(patience, subscribing)",
        "timeout(patience * 100, subscribing)",
    )
    .on(Deployment::Cluster)
    .among(&[Fault::HalfOpen]),
    // It has to ask on a connection that is half open since before the faults ended.
    mistake(
        "a-waiter-waits-for-a-silent-subscription",
        0,
        "client/subscription.rs",
        "timeout(patience, subscription)",
        "timeout(patience * 100, subscription)",
    )
    .on(Deployment::Cluster)
    .among(&[Fault::HalfOpen]),
    // One of 7,000 worlds showed it: an old offer has to be unread. `faults::servers` has its test.
    mistake(
        "an-offer-from-before-is-believed",
        0,
        "client/pending.rs",
        "offer.until == heartbeat.until",
        "offer.until >= heartbeat.until",
    )
    .on(Deployment::Single)
    .among(&[Fault::JumpsBack, Fault::Stops, Fault::Stalls, Fault::Messages]),
    // One of 7,000 worlds showed it: the next ask has to pass the release. `leases::dropped` has its test.
    mistake(
        "a-late-grant-refuses-its-own-try",
        0,
        "engine/acquire/single.rs",
        "matches!(refusal, NotGranted::TooLate)",
        "false",
    )
    .on(Deployment::Single)
    .among(&[Fault::Suspensions, Fault::Stops]),
    mistake(
        "a-lost-connection-keeps-its-subscriptions",
        100,
        "store/redis/cluster/hint_link.rs",
        "(self.tell)(News::Lost);",
        "let _ = News::Lost;",
    )
    .on(Deployment::Cluster)
    .among(&[Fault::RestartsEmpty]),
    // A command that is redirected tells of the move, too.
    mistake(
        "a-moved-slot-ends-its-subscription",
        0,
        "store/redis/cluster/hint_link.rs",
        "(self.tell)(News::Unsubscribed(channel));",
        "let _ = News::Unsubscribed(channel);",
    )
    .on(Deployment::Cluster)
    .among(&[Fault::Moves]),
    // An unasked answer has to come between a command and its own.
    mistake(
        "the-answer-to-another-command-counts",
        0,
        "store/redis/cluster/hint_link.rs",
        "kind == confirmed && channel_of(data) == Some(channel)",
        "{ let _ = (kind, confirmed, data, channel); true }",
    )
    .on(Deployment::Cluster)
    .among(&[Fault::Moves]),
    mistake(
        "a-silent-connection-for-hints-is-kept",
        20,
        "store/redis/cluster/hint_link.rs",
        "if system::since(*lock(&self.state.heard)) >= self.limit {
                self.give_up();
            }",
        "",
    )
    .on(Deployment::Cluster)
    .among(&[Fault::HalfOpen]),
    mistake(
        "a-refused-release-is-not-tried-again",
        20,
        "keeper/release.rs",
        "error.is_shut_down || runtime_with_timers().is_none()",
        "error.is_shut_down || !error.is_passing",
    )
    .among(&[Fault::Rights])
    .without_kills(),
    mistake(
        "a-waiter-asks-without-a-pause",
        20,
        "engine/acquire/schedule.rs",
        "Some(pause.min(left))",
        "Some(pause.min(left).min(Self::FIRST / 5))",
    )
    .among(&[]),
    mistake(
        "repeats-have-no-backoff",
        20,
        "core/repeats.rs",
        "system::equal_jitter(alone.max(together))",
        "{ let _ = alone.max(together); Duration::from_millis(20) }",
    )
    .among(&[Fault::Rights])
    .without_kills(),
    // Former worlds found it, because a way was open before its bytes had arrived. A copy has to arrive after an idle
    // lease has ended, and before it can't arrive any more: 100 worlds do not meet that.
    mistake(
        "an-idle-lease-ends-and-late-copies-stay",
        0,
        "local_queue/lingering/recalling.rs",
        "answer.is_err() || may_come_back",
        "{ let _ = may_come_back; answer.is_err() }",
    )
    .on(Deployment::Single)
    .among(&[Fault::Blocks])
    .without_kills(),
    // Somebody has to leave a release alone for most of the TTL, with a waiter behind it: one world of
    // 800 did. `turns::refused_handoffs` shows it.
    mistake(
        "a-lease-with-too-little-time-is-taken-up",
        0,
        "local_queue/handing_over.rs",
        "is_over || now >= turn.ends",
        "{ let _ = is_over; now >= turn.ends }",
    )
    .among(&[]),
    // A client has to connect while the right is away, and wait after it is back: one world of 6,000 did.
    // `faults::hints::hints_come_with_the_right_to_them` shows it.
    mistake(
        "a-refused-subscription-is-not-asked-for-again",
        0,
        "store/redis/hints.rs",
        "system::since(*asked) >= RESUBSCRIBE",
        "{ let _ = asked; false }",
    )
    .on(Deployment::Single)
    .among(&[Fault::Rights]),
    mistake(
        "a-lease-has-its-neighbour-s-label",
        20,
        "core/lock_key.rs",
        "self.label = other.label;",
        "let _ = other;",
    ),
    mistake(
        "a-cancel-that-was-answered-holds-up-a-shutdown",
        20,
        "keeper/release.rs",
        "requests.iter().map(|it| jobs.begin(it.key(), Ends::Request)).collect()",
        "requests.iter().for_each(|it| {
            std::mem::forget(jobs.begin(it.key(), Ends::Request));
        });
        Vec::new()",
    ),
    mistake(
        "an-older-tick-is-caught-up",
        60,
        "api/job.rs",
        "self.asked_again(so_far).await.map(|at| at.is_some() && at >= since)",
        "drop(self.asked_again(so_far).await);
                    let _ = since;
                    Ok(true)",
    ),
];
