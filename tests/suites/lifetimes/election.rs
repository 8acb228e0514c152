//! Leader election: who leads and for how long, the states that handles tell, and stepping down.

#[cfg(feature = "servers")]
mod on_servers;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::store::fault_injection::FaultInjector;
use leasehold::{
    Election, ElectionHandle, ElectionState, Fault, Fence, LeaseHandle, LockError, Locks, Step,
};
use leasehold_tests::polls::{drop_after, is_pending};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::{SECOND, TTL, another};

/// The current leader, as the work sees it.
#[derive(Default)]
struct Seen {
    now: AtomicU32,
    most: AtomicU32,
    terms: std::sync::Mutex<Vec<(u32, Fence)>>,
}

struct Leading(Arc<Seen>);

impl Leading {
    fn begin(seen: &Arc<Seen>, who: u32, lease: &LeaseHandle) -> Self {
        let now = seen.now.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most.fetch_max(now, Ordering::SeqCst);
        seen.terms.lock().unwrap().push((who, lease.fence().unwrap()));
        Self(seen.clone())
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Seen {
    /// The leaders in order. Checks that the tokens grew, and that no two led at once.
    fn leaders(&self) -> Vec<u32> {
        let terms = self.terms.lock().unwrap();
        assert!(terms.is_sorted_by_key(|(_, fence)| *fence), "{terms:?}");
        assert_eq!(self.most.load(Ordering::SeqCst), 1);
        terms.iter().map(|(who, _)| *who).collect()
    }
}

/// An election whose leader has this number for its name.
fn election(locks: &Locks, who: u32) -> Election {
    locks.mutex("leader").ttl(TTL).owner(who.to_string()).election()
}

/// Campaigns, and leads until it is stopped.
fn candidate(
    locks: &Locks,
    who: u32,
    seen: &Arc<Seen>,
) -> (ElectionHandle, JoinHandle<Result<(), LockError>>) {
    campaign(election(locks, who), who, seen)
}

fn campaign(
    mut election: Election,
    who: u32,
    seen: &Arc<Seen>,
) -> (ElectionHandle, JoinHandle<Result<(), LockError>>) {
    let (handle, seen) = (election.handle(), seen.clone());
    let campaign = tokio::spawn(async move {
        election
            .lead(|lease| {
                let leading = Leading::begin(&seen, who, &lease);
                async move {
                    pending::<()>().await;
                    drop(leading);
                }
            })
            .await
    });
    (handle, campaign)
}

/// The name of the leader that this candidate follows.
fn followed(state: &ElectionState) -> Option<u32> {
    match state {
        ElectionState::Following { leader, owner, .. } => {
            let leader = leader.as_ref().expect("a store in memory knows its clients");
            assert_eq!(leader.process, std::process::id());
            Some(owner.as_deref()?.parse().expect("a number"))
        }
        _ => None,
    }
}

fn led(state: &ElectionState) -> Option<Fence> {
    match state {
        ElectionState::Leading { fence, .. } => Some(*fence),
        _ => None,
    }
}

/// Three in turn: each follower learns within a third of the TTL who leads now.
#[tokio::test(start_paused = true)]
async fn a_follower_learns_of_the_next_leader() {
    let (first, faults) = Locks::in_memory_with_faults();
    let (second, third) = (another(faults.store()), another(faults.store()));
    let seen = Arc::<Seen>::default();
    let (mut one, _first) = candidate(&first, 1, &seen);
    one.changed().await;
    let (mut two, _second) = candidate(&second, 2, &seen);
    while followed(&two.changed().await.unwrap()) != Some(1) {}
    let (mut three, _third) = candidate(&third, 3, &seen);
    while followed(&three.changed().await.unwrap()) != Some(1) {}

    assert!(one.step_down(TTL * 100));
    while !two.is_leader() {
        two.changed().await;
    }
    let begun = Instant::now();
    assert_eq!(followed(&three.changed().await.unwrap()), Some(2));
    assert!(begun.elapsed() <= TTL / 3, "{:?}", begun.elapsed());
    assert_eq!((two.transitions(), three.transitions()), (1, 1));
}

/// What a candidate sends: without a handle no question who leads, with one a question now and
/// then; a leader sends renewals alone.
#[tokio::test(start_paused = true)]
async fn only_a_follower_with_a_handle_asks_who_leads() {
    let (_locks, faults) = Locks::in_memory_with_faults();
    let [leader, plain, watched] =
        [(); 3].map(|()| Arc::new(FaultInjector::over(faults.store().clone())));
    let seen = Arc::<Seen>::default();
    let (mut one, _leads) = candidate(&another(&leader), 1, &seen);
    one.changed().await;
    let mut unseen = election(&another(&plain), 2);
    let _plain = tokio::spawn(async move { unseen.lead(|_| pending::<()>()).await });
    let (two, _follows) = candidate(&another(&watched), 3, &seen);
    let mut waits = one.clone();
    let waits = tokio::spawn(async move { waits.changed().await });
    sleep(TTL * 10).await;
    assert!(!waits.is_finished(), "nothing changes");

    assert!(one.is_leader() && followed(&two.state()) == Some(1));
    let [leader, plain, watched] = [leader, plain, watched].map(|client| client.log());
    assert!(leader.iter().skip(1).all(|sent| *sent == "renew"), "{leader:?}");
    assert!(!plain.contains(&"inspect"), "{plain:?}");
    let asked = watched.iter().filter(|sent| **sent == "inspect").count();
    assert!((30..=60).contains(&asked), "{asked} questions in ten TTLs");
}

#[tokio::test(start_paused = true)]
async fn a_leader_steps_down_and_campaigns_again_after_the_pause() {
    let (first, faults) = Locks::in_memory_with_faults();
    let (seen, second) = (Arc::<Seen>::default(), another(faults.store()));
    let (mut one, first_campaign) = candidate(&first, 1, &seen);
    assert_eq!(one.state(), ElectionState::Idle, "its task has not run");
    assert!(led(&one.changed().await.unwrap()).is_some(), "the lock was free");
    let (mut two, second_campaign) = candidate(&second, 2, &seen);
    assert_eq!(two.changed().await, Some(ElectionState::Campaigning));
    assert_eq!(followed(&two.changed().await.unwrap()), Some(1));
    assert_eq!((one.transitions(), two.transitions()), (0, 0), "one leader, and no change");
    assert!(!two.step_down(SECOND), "it does not lead");

    let begun = Instant::now();
    assert!(one.step_down(TTL * 2));
    assert!(one.step_down(SECOND), "it still leads; the first pause counts");
    assert_eq!(one.changed().await, Some(ElectionState::Idle));
    assert!(!one.step_down(SECOND), "it has stepped down");
    assert!(led(&two.changed().await.unwrap()).is_some(), "the lock was released at once");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(one.changed().await, Some(ElectionState::Campaigning));
    assert_eq!(begun.elapsed(), TTL * 2);
    assert_eq!(followed(&one.changed().await.unwrap()), Some(2));

    second_campaign.abort();
    while !one.is_leader() {
        one.changed().await;
    }
    assert_eq!(seen.leaders(), [1, 2, 1]);
    assert_eq!((one.transitions(), two.transitions()), (2, 1));
    first_campaign.abort();
    assert_eq!(one.changed().await, Some(ElectionState::Idle));
    assert_eq!(one.changed().await, None, "the election was dropped");
}

/// The work itself asks, without a pause, and nobody else is there: it leads again, under another
/// lease.
#[tokio::test(start_paused = true)]
async fn work_steps_down_by_itself() {
    let locks = Locks::in_memory();
    let mut election = election(&locks, 1);
    let standing = election.handle();
    let mut fences = Vec::new();
    let led = election.lead(|lease| {
        let (standing, term) = (&standing, fences.len());
        fences.push(lease.fence().unwrap());
        async move {
            if term == 4 {
                return lease.fence().unwrap();
            }
            assert!(standing.step_down(Duration::ZERO));
            pending().await
        }
    });
    let last = led.await.unwrap();
    assert!(fences.len() == 5 && fences.is_sorted() && fences[4] == last, "{fences:?}");
    assert_eq!((standing.state(), standing.transitions()), (ElectionState::Idle, 4));
}

/// A leader whose commands are lost leads until its own deadline. Its handle tells the end at once
/// then, and a pause that it asks for afterwards belongs to no later leadership.
#[tokio::test(start_paused = true)]
async fn a_cut_off_leader_is_none_from_its_deadline_on() {
    let (_locks, faults) = Locks::in_memory_with_faults();
    let cut_off = Arc::new(FaultInjector::over(faults.store().clone()));
    let seen = Arc::<Seen>::default();
    let (mut one, campaign) = candidate(&another(&cut_off), 1, &seen);
    sleep(TTL * 3 + SECOND / 10).await;
    assert!(one.is_leader() && seen.leaders() == [1], "it is renewed");
    one.changed().await;
    cut_off.always(None, Fault::LoseCommand);
    let begun = Instant::now();
    assert_eq!(one.changed().await, Some(ElectionState::Campaigning));
    let led_for = begun.elapsed();
    assert!(!one.is_leader() && !one.step_down(TTL * 100));
    assert!(TTL < led_for + SECOND && led_for < TTL, "{led_for:?}");

    let (two, next) = candidate(&another(faults.store()), 2, &seen);
    sleep(TTL).await;
    assert!(two.is_leader());
    assert_eq!(seen.leaders(), [1, 2], "never two at once");
    assert_eq!(one.state(), ElectionState::Campaigning, "the store does not answer");
    cut_off.heal(None);
    assert_eq!(followed(&one.changed().await.unwrap()), Some(2));
    next.abort();
    assert!(led(&one.changed().await.unwrap()).is_some(), "no pause was left over");
    assert_eq!(seen.leaders(), [1, 2, 1]);
    campaign.abort();
}

/// The answer to the question who leads is missing: a follower does not go on telling the old one.
#[tokio::test(start_paused = true)]
async fn a_follower_without_answers_follows_nobody() {
    let (first, faults) = Locks::in_memory_with_faults();
    let deaf = Arc::new(FaultInjector::over(faults.store().clone()));
    let seen = Arc::<Seen>::default();
    let (mut one, _first) = candidate(&first, 1, &seen);
    one.changed().await;
    let (mut two, _second) = candidate(&another(&deaf), 2, &seen);
    while followed(&two.changed().await.unwrap()).is_none() {}
    for fault in [Fault::Unreachable, Fault::LoseReply, Fault::LoseCommand] {
        deaf.always(Some(Step::Inspect), fault);
        let begun = Instant::now();
        assert_eq!(two.changed().await, Some(ElectionState::Campaigning), "{fault:?}");
        assert!(begun.elapsed() <= TTL / 3 * 2, "{fault:?}: {:?}", begun.elapsed());
        deaf.heal(None);
        assert_eq!(followed(&two.changed().await.unwrap()), Some(1), "{fault:?}");
    }
    assert_eq!(two.transitions(), 0);
}

#[tokio::test(start_paused = true)]
async fn every_end_leaves_it_idle() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let mut finished = election(&locks, 1);
    let standing = finished.handle();
    let is_free = async || another(faults.store()).mutex("leader").try_lock().await.is_ok();
    assert!(finished.lead(async |_| standing.is_leader()).await.unwrap());
    assert!(standing.state() == ElectionState::Idle && is_free().await);
    let led =
        locks.lead("leader", async |lease| LeaseHandle::current().unwrap().key() == lease.key());
    assert!(led.await.unwrap(), "the lock was free");
    // It may lead again.
    assert!(finished.lead(async |_| standing.is_leader()).await.unwrap());
    assert_eq!((standing.state(), standing.transitions()), (ElectionState::Idle, 1));

    let mut panics = election(&locks, 1);
    let mut standing = panics.handle();
    let panicked =
        tokio::spawn(async move { panics.lead(async |_| -> () { panic!("on purpose") }).await });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!((standing.state(), standing.changed().await), (ElectionState::Idle, None));
    assert!(is_free().await);

    let mut refused = election(&locks, 1);
    let (standing, _permit) = (refused.handle(), locks.semaphore("other", 1).acquire().await);
    let wrong = locks.lead("other", async |_| ()).await;
    assert!(matches!(wrong, Err(LockError::WrongKind { .. })), "{wrong:?}");
    let wrong = locks.lead("", async |_| ()).await;
    assert!(matches!(wrong, Err(LockError::InvalidKey { .. })), "{wrong:?}");
    let (mut leads, _task) = candidate(&locks, 2, &Arc::default());
    leads.changed().await;
    let stopped = tokio::spawn(async move { refused.lead(|_| pending::<()>()).await });
    sleep(SECOND).await;
    assert!(followed(&standing.state()).is_some());
    // A pause ends with the client too.
    assert!(leads.step_down(TTL * 100));
    sleep(SECOND).await;
    assert!(standing.is_leader());
    locks.shutdown().await;
    assert!(matches!(stopped.await.unwrap(), Err(LockError::ShutDown)));
    assert_eq!(standing.state(), ElectionState::Idle);
    while leads.changed().await.is_some() {}
    assert!(is_free().await);
}

/// Dropped at each of its awaits, an election leaves no lock and no leader.
#[tokio::test(start_paused = true)]
async fn a_dropped_election_leaves_nothing() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let other = another(faults.store());
    let mut most = 0;
    for polls in 0..40 {
        let mut election = election(&locks, 1);
        let standing = election.handle();
        let steps = standing.clone();
        let lead = election.lead(|_| {
            let steps = &steps;
            async move {
                tokio::task::yield_now().await;
                steps.step_down(SECOND);
                pending::<()>().await;
            }
        });
        assert!(drop_after(polls, lead).await.is_none());
        assert_eq!(standing.state(), ElectionState::Idle, "after {polls} polls");
        assert!(!standing.is_leader());
        most = most.max(standing.transitions());
        assert!(other.mutex("leader").try_lock().await.is_ok(), "after {polls} polls");
    }
    assert!(most > 3, "it led again and again: {most}");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_skips_no_state() {
    let (locks, _faults) = Locks::in_memory_with_faults();
    let (mut standing, campaign) = candidate(&locks, 1, &Arc::default());
    let mut other = standing.clone();
    for _ in 0..3 {
        assert!(is_pending(&mut Box::pin(standing.changed())).await);
    }
    tokio::task::yield_now().await;
    assert!(drop_after(0, standing.changed()).await.is_none());
    assert!(led(&standing.changed().await.unwrap()).is_some());
    assert!(led(&other.changed().await.unwrap()).is_some(), "each handle has its own");
    assert!(is_pending(&mut Box::pin(standing.changed())).await);
    campaign.abort();
    assert_eq!(standing.changed().await, Some(ElectionState::Idle));
}

#[tokio::test(start_paused = true)]
async fn the_future_is_dropped_before_it_campaigns_again() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let seen = Arc::<Seen>::default();
    let (_, campaign) = candidate(&locks, 1, &seen);
    for _ in 0..5 {
        sleep(TTL).await;
        let _ = another(faults.store()).force_release("leader").await.unwrap();
    }
    sleep(TTL).await;
    assert_eq!(seen.leaders(), [1; 6]);
    campaign.abort();
}

#[tokio::test(start_paused = true)]
async fn max_hold_lets_each_candidate_lead_in_turn() {
    let (_locks, faults) = Locks::in_memory_with_faults();
    let seen = Arc::<Seen>::default();
    let candidates = [1, 2, 3].map(|who| {
        let mutex = another(faults.store()).mutex("leader").ttl(TTL).max_hold(TTL * 2);
        campaign(mutex.election(), who, &seen)
    });
    sleep(TTL * 13).await;
    let leaders = seen.leaders();
    assert!(leaders.len() >= 6, "{leaders:?}");
    assert!(leaders.windows(3).all(|turn| turn.iter().sum::<u32>() == 6), "{leaders:?}");
    for (_, campaign) in candidates {
        campaign.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn the_leader_steps_down_when_its_client_is_shut_down() {
    let (first, faults) = Locks::in_memory_with_faults();
    let (seen, second) = (Arc::<Seen>::default(), another(faults.store()));
    let (_, one) = candidate(&first, 1, &seen);
    sleep(SECOND).await;
    let (_, two) = candidate(&second, 2, &seen);
    sleep(SECOND).await;
    let begun = Instant::now();
    let report = first.shutdown().await;
    assert_eq!(begun.elapsed(), Duration::ZERO, "it steps down at once");
    assert_eq!((report.released, report.left), (1, 0));
    assert!(matches!(one.await.unwrap(), Err(LockError::ShutDown)));
    sleep(SECOND).await;
    assert_eq!(seen.leaders(), [1, 2], "the next one did not wait for a TTL");
    two.abort();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_ends_no_campaign() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let seen = Arc::<Seen>::default();
    faults.always(Fault::LoseCommand);
    let (_, campaign) = candidate(&locks, 1, &seen);
    sleep(TTL * 10).await;
    assert!(!campaign.is_finished());
    faults.heal();
    sleep(TTL).await;
    assert_eq!(seen.leaders(), [1]);
    campaign.abort();
}

/// Those that campaign do not replace the leader.
#[tokio::test(start_paused = true)]
async fn a_leader_is_not_replaced() {
    let (first, faults) = Locks::in_memory_with_faults();
    let (seen, second) = (Arc::<Seen>::default(), another(faults.store()));
    let [one, two] = [(first, 1), (second, 2)].map(|(locks, who)| {
        campaign(locks.mutex("leader").ttl(TTL).replace(true).election(), who, &seen)
    });
    sleep(TTL * 7).await;
    assert_eq!(seen.leaders(), [1]);
    assert!(!one.1.is_finished() && !two.1.is_finished());
}
