//! Both stores are driven with the same random commands, and must answer alike.
//!
//! Their clocks stand still but for a millisecond before each command, and jump
//! when a step says so: so what is compared is exact, and no case takes longer
//! than its commands. What may differ is how tokens are counted (in memory for
//! the whole store, on a server by the lock and its clock): their order may not.

mod answers;
mod clock;
mod remains;
mod steps;

use std::fmt::Write;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use leasehold::LockKey;
use leasehold::store::memory::MemoryStore;
use leasehold::store::redis::RedisStore;
use leasehold::store::{
    Attempt, ClientId, Ended, Kind, Renewal, Request, RequestId, Store, StoreError, Ticket, Waiting,
};
use leasehold_tests::server::Server;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use tokio::runtime::{Builder, Runtime};

use self::answers::{Answer, Likeness};
use self::remains::Remains;
use self::steps::{Asked, Case, NAMES, Slot, Step};

/// How much time goes by before each command: so no two are at the same time.
const TICK: Duration = Duration::from_millis(1);

const CASES: u32 = 100;

#[test]
fn both_stores_answer_alike() {
    let config = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => Config::default(),
        None => Config::with_cases(CASES),
    };
    // Cases are found anew each time: what they find belongs into `conformance`.
    let config = Config { failure_persistence: None, max_shrink_time: 60_000, ..config };
    let world = World::start();
    let result = TestRunner::new(config).run(&steps::case(), |case| Run::of(&world, case));
    match result {
        Ok(()) => {}
        // It has the commands and their answers; the steps would say no more.
        Err(TestError::Fail(reason, _)) => panic!("{reason}"),
        Err(failure) => panic!("{failure}"),
    }
}

/// What all cases share: one server.
struct World {
    server: Server,
    runtime: Runtime,
    redis: RedisStore,
    raw: redis::aio::MultiplexedConnection,
}

impl World {
    fn start() -> Self {
        let server = Server::start_skewed();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let (redis, raw) = runtime.block_on(async {
            let client = ClientId::random();
            let store = RedisStore::connect(&server.url(), "leasehold", client, handle).await;
            (store.expect("the server is there"), server.redis().await)
        });
        server.stop_clock();
        Self { server, runtime, redis, raw }
    }
}

/// One command, as it is sent to both stores, and perhaps again later.
#[derive(Clone, Debug)]
struct Command {
    request: Request,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Acquire,
    /// With what each store knows of the ticket: memory, Redis.
    Wait([Waiting; 2]),
    Renew,
    Release(Duration),
    Cancel,
}

impl Command {
    async fn send(&self, store: &dyn Store, nth: usize) -> Result<Answer, StoreError> {
        let request = &self.request;
        Ok(match self.what {
            What::Acquire => Answer::Attempt(store.acquire(request, None).await?),
            What::Wait(waiting) => {
                Answer::Attempt(store.acquire(request, Some(waiting[nth])).await?)
            }
            What::Renew => Answer::Renewal(store.renew(request).await?),
            What::Release(keep) => Answer::Ended(store.release(request, keep).await?),
            What::Cancel => Answer::Cancelled(store.cancel(request).await?),
        })
    }
}

/// Somebody who acquires, again and again.
struct Actor {
    slot: Slot,
    client: ClientId,
    request: Request,
    first_asked: Option<Duration>,
    /// The tickets it was told, by memory and by Redis.
    tickets: Option<[u64; 2]>,
}

/// What somebody believes to hold.
struct Belief {
    request: Request,
    until: Duration,
    /// It was released, and nobody may have it for the rest.
    is_kept: bool,
}

struct Run<'a> {
    world: &'a World,
    paused: Runtime,
    memory: MemoryStore,
    counter: AtomicU64,
    /// The time of this case so far.
    now: Duration,
    actors: Vec<Actor>,
    sent: Vec<Command>,
    likeness: Likeness,
    beliefs: Vec<Belief>,
    remains: Remains,
}

impl<'a> Run<'a> {
    fn of(world: &'a World, case: Case) -> Result<(), TestCaseError> {
        let paused = Builder::new_current_thread().enable_time().start_paused(true).build();
        let mut run = Self {
            world,
            paused: paused.unwrap(),
            memory: MemoryStore::default(),
            counter: AtomicU64::new(0),
            now: Duration::ZERO,
            actors: Vec::new(),
            sent: Vec::new(),
            likeness: Likeness::default(),
            beliefs: Vec::new(),
            remains: Remains::default(),
        };
        let mut raw = world.raw.clone();
        world
            .runtime
            .block_on(redis::cmd("FLUSHALL").exec_async(&mut raw))
            .map_err(|error| TestCaseError::reject(error.to_string()))?;
        for slot in case.slots {
            let client = ClientId::random();
            let request = run.request(&slot, client);
            run.actors.push(Actor { slot, client, request, first_asked: None, tickets: None });
        }
        let mut log = String::new();
        for step in case.steps {
            run.step(&step, &mut log).map_err(|error| match error {
                TestCaseError::Fail(reason) => TestCaseError::fail(format!("{reason}\n{log}")),
                reject @ TestCaseError::Reject(_) => reject,
            })?;
        }
        Ok(())
    }

    fn request(&self, slot: &Slot, client: ClientId) -> Request {
        let id = RequestId::next(client, &self.counter);
        Request {
            key: LockKey::new(NAMES[slot.name]).unwrap(),
            id,
            kind: slot.kind,
            owner: None,
            ttl: slot.ttl,
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.paused.block_on(tokio::time::advance(time));
        self.world.server.jump(time);
    }

    fn step(&mut self, step: &Step, log: &mut String) -> Result<(), TestCaseError> {
        let command = match *step {
            Step::Pass(time) => {
                self.pass(time);
                let _ = writeln!(log, "{time:?} later");
                return self.look().map(drop);
            }
            Step::Again(ago) => match self.sent.iter().nth_back(ago) {
                Some(command) => command.clone(),
                None => return Ok(()),
            },
            Step::Acquire { who, is_new, wait, more } => self.ask(who, is_new, wait, more),
            Step::Renew(who) => self.command(who, What::Renew),
            Step::Release { who, keep } => self.command(who, What::Release(keep)),
            Step::Cancel(who) => self.command(who, What::Cancel),
        };
        self.pass(TICK);
        let memory = self.paused.block_on(command.send(&self.memory, 0)).expect("it never fails");
        let redis = self.world.runtime.block_on(command.send(&self.world.redis, 1));
        let redis = redis.map_err(|error| {
            // What was not answered in time says nothing of the stores.
            if error.is_passing {
                TestCaseError::reject(error.source.to_string())
            } else {
                TestCaseError::fail(format!("{command:?}: {error:?}"))
            }
        })?;
        let Command { request, what } = &command;
        let _ = writeln!(
            log,
            "{what:?} {} {:?} {:?}\n    memory {memory:?}\n    redis  {redis:?}",
            request.key.name(),
            request.id,
            request.kind
        );
        let name = command.request.key.name();
        self.likeness.check(name, memory, redis).map_err(TestCaseError::fail)?;
        self.remember(&command, memory, redis);
        self.believe(&command, memory).map_err(TestCaseError::fail)?;
        let before = self.look()?;
        match redis {
            Answer::Attempt(Attempt::Granted { .. }) => {
                let is_try = matches!(command.what, What::Acquire);
                before.allows(&self.remains, &command.request, is_try)
            }
            Answer::Renewal(Renewal::Renewed) => self.remains.has(&command.request),
            Answer::Ended(_) | Answer::Cancelled(_) => self.remains.lacks(&command.request),
            _ => Ok(()),
        }
        .map_err(TestCaseError::fail)?;
        self.sent.push(command);
        Ok(())
    }

    fn command(&self, who: usize, what: What) -> Command {
        Command { request: self.actors[who].request.clone(), what }
    }

    fn ask(&mut self, who: usize, is_new: bool, wait: Option<Asked>, more: u32) -> Command {
        if is_new {
            let request = self.request(&self.actors[who].slot, self.actors[who].client);
            let actor = &mut self.actors[who];
            (actor.request, actor.first_asked, actor.tickets) = (request, None, None);
        }
        let actor = &mut self.actors[who];
        if let (Kind::Semaphore { limit, .. }, Kind::Semaphore { limit: first, .. }) =
            (&mut actor.request.kind, actor.slot.kind)
        {
            *limit = first + more;
        }
        let Some(asked) = wait else { return self.command(who, What::Acquire) };
        // It is asked a tick from now.
        let sent = self.now + TICK;
        let age = sent.saturating_sub(*actor.first_asked.get_or_insert(sent));
        let ticket = |nth: usize| match actor.tickets.filter(|_| asked.knows_ticket) {
            Some(tickets) => Ticket::Told(tickets[nth]),
            None => Ticket::New { age },
        };
        let waiting = [0, 1].map(|nth| Waiting { live: asked.live, ticket: ticket(nth) });
        self.command(who, What::Wait(waiting))
    }

    /// Notes the tickets that were told.
    fn remember(&mut self, command: &Command, memory: Answer, redis: Answer) {
        let actor = self.actors.iter_mut().find(|actor| actor.request.id == command.request.id);
        if let (
            Some(actor),
            Answer::Attempt(Attempt::Queued { ticket: first, .. }),
            Answer::Attempt(Attempt::Queued { ticket: second, .. }),
        ) = (actor, memory, redis)
        {
            actor.tickets = Some([first, second]);
        }
    }

    /// Holds the answers against what others were told before: whoever holds a
    /// mutex holds it alone.
    fn believe(&mut self, command: &Command, answer: Answer) -> Result<(), String> {
        let (request, now) = (&command.request, self.now);
        self.beliefs.retain(|belief| belief.until > now);
        let mine = self.beliefs.iter().position(|belief| belief.request.id == request.id);
        match (answer, &command.what) {
            (Answer::Attempt(Attempt::Granted { .. }) | Answer::Renewal(Renewal::Renewed), _) => {
                mine.map(|at| self.beliefs.swap_remove(at));
                let until = now + request.ttl;
                self.beliefs.push(Belief { request: request.clone(), until, is_kept: false });
            }
            (Answer::Ended(Ended::Kept), &What::Release(keep)) => {
                // A repeat has the same answer, and keeps it no longer.
                let mine = mine.map(|at| &mut self.beliefs[at]).filter(|mine| !mine.is_kept);
                if let Some(mine) = mine {
                    (mine.until, mine.is_kept) = (now + keep, true);
                }
            }
            (Answer::Attempt(_), _) => {}
            _ => drop(mine.map(|at| self.beliefs.swap_remove(at))),
        }
        let here = self.beliefs.iter().filter(|belief| belief.request.key == request.key);
        let kinds: Vec<_> = here.map(|belief| belief.request.kind).collect();
        if kinds.contains(&Kind::Mutex) && kinds.len() > 1 {
            return Err(format!("at the same time: {kinds:?}"));
        }
        Ok(())
    }

    /// Looks at all that is stored on the server, and gives what was there before.
    fn look(&mut self) -> Result<Remains, TestCaseError> {
        let mut raw = self.world.raw.clone();
        let remains = self
            .world
            .runtime
            .block_on(Remains::look(&mut raw))
            .map_err(|error| TestCaseError::reject(error.to_string()))?;
        remains.check().map_err(TestCaseError::fail)?;
        Ok(std::mem::replace(&mut self.remains, remains))
    }
}
