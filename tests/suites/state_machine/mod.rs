//! Both stores get the same random commands, and must answer alike.
//!
//! Their clocks move by a millisecond before each command, and jump when a step says so. So all
//! times are exact, and no case takes longer than its commands. After each command both stores must
//! show the same holders and waiters, and clients may not believe in leases that exclude each other.
//! What else is stored, the oracle of the simulation judges, after each call of a script. The tokens
//! may differ, because memory counts them for the whole store, and a server by the lock and its
//! clock. Their order may not differ. In the cases for members of a quorum, memory has a clock as
//! well, and both clocks are set back at times.

mod answers;
mod beliefs;
mod clock;
mod commands;
mod steps;

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use leasehold::LockKey;
use leasehold::store::memory::{Clock, MemoryStore};
use leasehold::store::redis::{RedisStore, Settings};
use leasehold::store::{
    Ask, Attempt, ClientId, Kind, Note, Owner, QueuePosition, Request, RequestId, Stamp, Waiting,
};
use leasehold_tests::server::Server;
use leasehold_tests::skew::micros;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use tokio::runtime::{Builder, Runtime};

use self::answers::{Answer, Likeness};
use self::beliefs::Beliefs;
use self::commands::{Command, Repair, What};
use self::steps::{self as step, Asked, Case, NAMES, OWNERS, Question, Slot, Step, Token, Whose};

/// The time that passes before each command, so no two commands come at the same time.
const TICK: Duration = Duration::from_millis(1);

/// The time at which a case begins. Clocks are set back by less.
const BEGINNING: Duration = Duration::from_secs(1_000_000);

/// After this time nothing is left of earlier commands.
const LONG: Duration = Duration::from_secs(300);

/// More requests than one command goes through, and their TTL.
const CROWD: usize = 70;
const SHORT: Duration = Duration::from_secs(1);

/// A note that looks like the fields around it.
const NOTE: &str = "why @x :2 e~!+ w";

const CASES: u32 = 100;

#[test]
fn both_stores_answer_alike() {
    hold(&steps::case(), false);
}

#[test]
fn both_stores_answer_alike_as_one_of_several() {
    hold(&steps::case_of_several(), true);
}

fn hold(cases: &impl Strategy<Value = Case>, have_clocks: bool) {
    let config = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => Config::default(),
        None => Config::with_cases(CASES),
    };
    // The cases are random each time. A bug that they find gets a test in `conformance`.
    let config = Config { failure_persistence: None, max_shrink_time: 60_000, ..config };
    let world = World::start(have_clocks);
    let result = TestRunner::new(config).run(cases, |case| Run::of(&world, case, have_clocks));
    match result {
        Ok(()) => {}
        // The reason contains the commands and their answers. The steps would add nothing.
        Err(TestError::Fail(reason, _)) => panic!("{reason}"),
        Err(failure) => panic!("{failure}"),
    }
}

/// The server that all cases share.
struct World {
    server: Server,
    runtime: Runtime,
    redis: RedisStore,
    raw: redis::aio::MultiplexedConnection,
}

impl World {
    /// With `have_clocks`, the server is a member of a quorum.
    fn start(have_clocks: bool) -> Self {
        let server = Server::start_skewed();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let (redis, raw) = runtime.block_on(async {
            let (client, url, settings) = (ClientId::random(), server.url(), Settings::default());
            let store = if have_clocks {
                let member =
                    RedisStore::connect_quorum_server(&url, &settings, client, handle).await;
                member.expect("the server is there").store
            } else {
                let store = RedisStore::connect(&url, &settings, client, handle).await;
                store.expect("the server is there")
            };
            (store, server.redis().await)
        });
        server.stop_clock();
        Self { server, runtime, redis, raw }
    }
}

/// A client that acquires again and again.
struct Actor {
    slot: Slot,
    client: ClientId,
    request: Request,
    /// The request is for an adoption: it never asks for the lock itself.
    adopts: bool,
    first_asked: Option<Duration>,
    /// The positions that memory and Redis told it.
    positions: Option<[u64; 2]>,
    /// The ends of the heartbeats that they told it, even as another request.
    heartbeats: Option<[Stamp; 2]>,
}

struct Run<'a> {
    world: &'a World,
    paused: Runtime,
    memory: MemoryStore,
    /// Memory's, if it goes by one.
    clock: Option<Arc<Clock>>,
    counter: AtomicU64,
    /// The time of this case so far.
    now: Duration,
    /// The time by which the clocks were set back.
    jumped: Duration,
    actors: Vec<Actor>,
    sent: Vec<Command>,
    likeness: Likeness,
    beliefs: Beliefs,
    /// The server's clock, in microseconds.
    clock_us: u64,
    was_crowded: bool,
}

impl<'a> Run<'a> {
    fn of(world: &'a World, case: Case, have_clocks: bool) -> Result<(), TestCaseError> {
        let paused = Builder::new_current_thread().enable_time().start_paused(true).build();
        let mut run = Self {
            world,
            paused: paused.unwrap(),
            memory: MemoryStore::default(),
            clock: None,
            counter: AtomicU64::new(0),
            now: BEGINNING,
            jumped: Duration::ZERO,
            actors: Vec::new(),
            sent: Vec::new(),
            likeness: Likeness::default(),
            beliefs: Beliefs::default(),
            clock_us: 0,
            was_crowded: false,
        };
        let mut raw = world.raw.clone();
        world
            .runtime
            .block_on(redis::cmd("FLUSHALL").exec_async(&mut raw))
            .map_err(|error| TestCaseError::reject(error.to_string()))?;
        for slot in case.slots {
            // The first two are of one process.
            let other = run.actors.first().filter(|_| run.actors.len() == 1);
            let client = other.map_or_else(ClientId::random, |other| other.client);
            let request = run.request(&slot, client);
            run.actors.push(Actor {
                slot,
                client,
                request,
                adopts: false,
                first_asked: None,
                positions: None,
                heartbeats: None,
            });
        }
        run.look()?;
        if have_clocks {
            let _paused = run.paused.enter();
            let clock = Arc::new(Clock::new(run.clock_us));
            run.memory = MemoryStore::by(clock.clone());
            run.clock = Some(clock);
        }
        let mut log = String::new();
        for step in case.steps {
            run.step(&step, &mut log).map_err(|error| match error {
                TestCaseError::Fail(reason) => TestCaseError::fail(format!("{reason}\n{log}")),
                reject @ TestCaseError::Reject(_) => reject,
            })?;
        }
        run.pass(LONG + run.jumped);
        // The greatest token outlives all locks, by a day, and so does who took one by force.
        let stays =
            |key: &&String| *key == "leasehold:tokens" || key.starts_with("leasehold:freed:");
        let mut raw = world.raw.clone();
        let keys = redis::cmd("KEYS").arg("*").to_owned();
        let keys: Vec<String> = world
            .runtime
            .block_on(keys.query_async(&mut raw))
            .map_err(|error| TestCaseError::reject(error.to_string()))?;
        let left: Vec<_> = keys.iter().filter(|key| !stays(key)).collect();
        if left.is_empty() { Ok(()) } else { Err(TestCaseError::fail(format!("{left:?}\n{log}"))) }
    }

    fn request(&self, slot: &Slot, client: ClientId) -> Request {
        let id = RequestId::next(client, &self.counter);
        let (key, kind) = (LockKey::new(NAMES[slot.name]).unwrap(), slot.kind);
        let note = Note::new(NOTE).filter(|_| slot.has_note);
        Request { key, id, kind, owner: slot.owner.map(owner), note, ttl: slot.ttl }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.paused.block_on(tokio::time::advance(time));
        self.world.server.jump(time);
    }

    /// Sets both clocks back.
    fn jump_back(&mut self, time: Duration) {
        self.beliefs.pass(self.now);
        self.now = self.now.saturating_sub(time);
        self.jumped += time;
        self.world.server.jump_back(time);
        if let Some(clock) = &self.clock {
            // Removes ended leases, as a command on the server does.
            self.paused.block_on(async {
                for name in NAMES {
                    let look = self.memory.inspect(&LockKey::new(name).unwrap());
                    look.await.expect("memory answers");
                }
            });
            clock.jump(-micros(time));
        }
    }

    fn step(&mut self, step: &Step, log: &mut String) -> Result<(), TestCaseError> {
        let command = match *step {
            Step::Pass(time) => {
                self.pass(time);
                let _ = writeln!(log, "{time:?} later");
                return self.look();
            }
            Step::JumpBack(time) => {
                self.jump_back(time);
                let _ = writeln!(log, "back by {time:?}");
                self.likeness.is_set_back = true;
                return self.look();
            }
            Step::Again(ago) => match self.sent.iter().nth_back(ago) {
                Some(command) if self.may_be_repeated(command) => command.clone(),
                _ => return Ok(()),
            },
            Step::Acquire { who, is_new, wait, more } => self.ask(who, is_new, wait, more),
            Step::Crowd { who, wait } => return self.crowd(who, wait, log),
            Step::AcquireAll { are_new } => self.ask_for_all(are_new),
            Step::Renew(whose) => self.command_of(whose, What::Renew),
            Step::KeepOffer(who) => match self.actors[who].heartbeats {
                Some(until) => self.command(who, What::KeepOffer(until)),
                None => return Ok(()),
            },
            Step::Adopt { who, from, ticket } => return self.adopt(who, from, ticket, log),
            Step::Release { whose, keep } => self.command_of(whose, What::Release(keep)),
            Step::Complete(whose) => self.command_of(whose, What::Complete),
            Step::Cancel(whose) => self.command_of(whose, What::Cancel),
            Step::Linger { whose, usage } => self.command_of(whose, What::Linger(usage)),
            Step::Introduce { who, lasts } => self.command(who, What::Introduce(lasts)),
            Step::Vote { who, is_new, again } => {
                if is_new {
                    self.start_anew(who);
                }
                self.command(who, What::Vote(again))
            }
            Step::Repair { whose, token, lasts } => self.repair(whose, token, lasts),
            Step::Ask(who, question) => self.command(
                who,
                match question {
                    Question::Inspect => What::Inspect,
                    Question::IsHeldBy(nth) => What::IsHeldBy(owner(nth)),
                    Question::ForceRelease => What::ForceRelease,
                    Question::WasForced => What::WasForced,
                },
            ),
        };
        self.send(command, log)
    }

    fn send(&mut self, command: Command, log: &mut String) -> Result<(), TestCaseError> {
        self.pass(TICK);
        let had_it = self.has(&command.request);
        let (memory, redis) = self.ask_both(&command)?;
        let _ = writeln!(log, "{command:?}\n    memory {memory:?}\n    redis  {redis:?}");
        self.likeness.check(&command, &memory, &redis).map_err(TestCaseError::fail)?;
        self.remember(&command, &memory, &redis);
        self.beliefs.hear(&command, &redis, self.now, had_it).map_err(TestCaseError::fail)?;
        // The server removes holders that have ended later than memory. They would count after the clock
        // was set back, and of a crowd one command removes a part.
        if !self.likeness.is_set_back && !self.was_crowded {
            let look = Command { request: command.request.clone(), what: What::Inspect };
            let (memory, redis) = self.ask_both(&look)?;
            self.likeness.check(&look, &memory, &redis).map_err(TestCaseError::fail)?;
        }
        self.sent.push(command);
        self.look()
    }

    /// The answers of memory and of the server.
    fn ask_both(&self, command: &Command) -> Result<(Answer, Answer), TestCaseError> {
        let redis = self.world.runtime.block_on(command.send(&self.world.redis, 1));
        let redis = redis.map_err(|error| {
            // A command without an answer in time says nothing about the stores.
            if error.is_passing {
                TestCaseError::reject(error.source.to_string())
            } else {
                TestCaseError::fail(format!("{command:?}: {error:?}"))
            }
        })?;
        let memory = self.paused.block_on(command.send(&self.memory, 0)).expect("it never fails");
        Ok((memory, redis))
    }

    /// True if a request holds the lock, or has an offer of it. It may be one of a crowd that is not shown.
    fn has(&self, request: &Request) -> bool {
        // Memory reads its clock when the command is made. Outside of the runtime, that is not paused.
        let look = async { self.memory.inspect(&request.key).await.expect("it never fails") };
        let info = self.paused.block_on(look);
        let id = format!("{:?}", request.id);
        let is_crowd = u64::try_from(info.holders.len()).is_ok_and(|shown| shown < info.held);
        is_crowd || info.holders.iter().any(|holder| holder.member().starts_with(&id))
    }

    fn crowd(&mut self, who: usize, wait: bool, log: &mut String) -> Result<(), TestCaseError> {
        self.was_crowded = true;
        for _ in 0..CROWD {
            self.start_anew(who);
            let request = &mut self.actors[who].request;
            request.ttl = SHORT;
            if let Kind::Semaphore { limit, .. } = &mut request.kind {
                *limit = 1000;
            }
            let waiting =
                Waiting { live: SHORT, position: QueuePosition::New { age: Duration::ZERO } };
            let what = if wait { What::Wait([waiting; 2]) } else { What::Acquire };
            self.send(self.command(who, what), log)?;
        }
        Ok(())
    }

    fn adopt(
        &mut self,
        who: usize,
        from: Whose,
        ticket: step::Ticket,
        log: &mut String,
    ) -> Result<(), TestCaseError> {
        let from = self.command_of(from, What::Inspect).request;
        self.start_anew(who);
        self.actors[who].adopts = true;
        let request = &mut self.actors[who].request;
        request.key = from.key.clone();
        // A ticket brings its note along.
        request.note.clone_from(&from.note);
        if matches!(ticket, step::Ticket::Wrong) {
            // A mutex keeps its owner through every adoption.
            if request.kind.is_mutex() && from.kind.is_mutex() {
                request.owner.clone_from(&from.owner);
            }
        } else {
            (request.kind, request.owner) = (from.kind, from.owner.clone());
        }
        if matches!(ticket, step::Ticket::GivenUp) {
            self.send(self.command(who, What::Cancel), log)?;
        }
        self.send(self.command(who, What::Adopt(from)), log)
    }

    fn command(&self, who: usize, what: What) -> Command {
        Command { request: self.actors[who].request.clone(), what }
    }

    fn command_of(&self, whose: Whose, what: What) -> Command {
        let holder = self.beliefs.nth(whose.who).filter(|_| whose.is_holder);
        let request = holder.unwrap_or(&self.actors[whose.who].request).clone();
        Command { request, what }
    }

    fn ask(&mut self, who: usize, is_new: bool, wait: Option<Asked>, more: u32) -> Command {
        if is_new || self.actors[who].adopts {
            self.start_anew(who);
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
        let position = |nth: usize| match actor.positions.filter(|_| asked.knows_position) {
            Some(positions) => QueuePosition::Assigned(positions[nth]),
            None => QueuePosition::New { age },
        };
        let waiting = [0, 1].map(|nth| Waiting { live: asked.live, position: position(nth) });
        self.command(who, What::Wait(waiting))
    }

    fn ask_for_all(&mut self, are_new: bool) -> Command {
        let [first, second] = [self.actors.len() - 2, self.actors.len() - 1];
        if are_new {
            self.start_anew(first);
            self.start_anew(second);
        }
        self.command(first, What::AcquireAll(self.actors[second].request.clone()))
    }

    fn repair(&self, whose: Whose, token: Token, lasts: Duration) -> Command {
        let Command { request, .. } = self.command_of(whose, What::Inspect);
        let name = request.key.name();
        let tokens = match token {
            Token::None => [0; 2],
            Token::Told(ago) => self.likeness.token(name, ago),
            Token::Ahead(time) => self.greater_token(name, time),
            Token::Now(ahead) => [self.clock_us + count(TICK + ahead); 2],
        };
        // A lease that a majority restores has a token.
        let is_none = tokens == [0; 2] && request.kind.is_fenced() && !lasts.is_zero();
        let tokens = if is_none { self.greater_token(name, Duration::ZERO) } else { tokens };
        Command { request, what: What::Repair(Repair { tokens, lasts }) }
    }

    /// A token greater than all, from a server whose clock is this far ahead.
    fn greater_token(&self, name: &str, ahead: Duration) -> [u64; 2] {
        // It is sent a tick from now.
        let of_clock = self.clock_us + count(TICK + ahead);
        let [memory, redis] = self.likeness.greatest(name);
        [memory, redis].map(|token| of_clock.max(token + 1))
    }

    /// False for a token that was made up before others were granted.
    fn may_be_repeated(&self, command: &Command) -> bool {
        match command.what {
            What::Repair(repair) => {
                self.likeness.are_one(command.request.key.name(), repair.tokens)
            }
            _ => true,
        }
    }

    fn start_anew(&mut self, who: usize) {
        let request = self.request(&self.actors[who].slot, self.actors[who].client);
        let actor = &mut self.actors[who];
        (actor.request, actor.adopts) = (request, false);
        (actor.first_asked, actor.positions) = (None, None);
    }

    /// Notes the positions that the stores told.
    fn remember(&mut self, command: &Command, memory: &Answer, redis: &Answer) {
        let actor = self.actors.iter_mut().find(|actor| actor.request.id == command.request.id);
        if let (
            Some(actor),
            Answer::Attempt(Attempt::Queued { position: first, until, .. }),
            Answer::Attempt(Attempt::Queued { position: second, until: until_ms, .. }),
        ) = (actor, memory, redis)
        {
            actor.positions = Some([*first, *second]);
            actor.heartbeats = Some([*until, *until_ms]);
        }
    }

    /// Reads the server's clock. Keys that have ended go when somebody looks at them, and would be there
    /// again once the clock is set back.
    fn look(&mut self) -> Result<(), TestCaseError> {
        let mut raw = self.world.raw.clone();
        let mut commands = redis::pipe();
        commands.cmd("TIME");
        for name in NAMES {
            let key = LockKey::new(name).expect("a name");
            for role in ["lock", "holders", "queue", "waiters", "intent", "done"] {
                commands.cmd("EXISTS").arg(key.in_store("leasehold", role)).ignore();
            }
        }
        let answers = self.world.runtime.block_on(commands.query_async(&mut raw));
        let [(seconds, micros)]: [(u64, u64); 1] =
            answers.map_err(|error| TestCaseError::reject(error.to_string()))?;
        self.clock_us = seconds * 1_000_000 + micros;
        Ok(())
    }
}

fn count(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).expect("less than a second")
}

fn owner(nth: usize) -> Owner {
    Owner::new(OWNERS[nth]).expect("a name")
}
