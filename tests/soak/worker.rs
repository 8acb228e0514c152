//! A process that acquires, holds and releases, and writes down what it knows.

mod holding;
mod probes;
mod tickets;
mod wishes;

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use leasehold::{LockError, Locks, QuorumLocks};
use leasehold_history::Line;
use leasehold_tests::waiting::work_for;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub(crate) use self::probes::{PROBES, Probe};
use self::tickets::Tickets;
pub(crate) use self::wishes::LIMIT;
use self::wishes::Wish;
use crate::Failure;
use crate::clock::{millis, nanos, now};
use crate::journal::Journal;
use crate::ledger::Ledger;
use crate::stalls;

/// The tasks of a process.
const TASKS: usize = 6;

/// The longest wait of a request. The longest that a waiter may be passed over must fit into it.
const LONGEST_WAIT: Duration = Duration::from_secs(25);

/// No lease is longer.
pub(crate) const LONGEST_TTL: Duration = Duration::from_secs(2);

/// For how long a started server of the quorum does not count.
pub(crate) const LONGEST_TTL_OF_QUORUM: Duration = Duration::from_secs(3);

/// What a process is started with.
pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) seed: u64,
    pub(crate) is_planted: bool,
    pub(crate) deployment: String,
    pub(crate) urls: Vec<String>,
}

/// A client of a deployment.
#[derive(Clone)]
pub(crate) enum Client {
    All(Locks),
    Quorum(QuorumLocks),
}

/// What the tasks of a process share.
struct Shared {
    client: Client,
    name: String,
    journal: Journal,
    requests: AtomicU64,
    ending: watch::Receiver<bool>,
    is_planted: bool,
    ledger: Option<Ledger>,
    tickets: Tickets,
}

impl Worker {
    pub(crate) fn parse(words: &[String]) -> Result<Self, Failure> {
        let [name, file, seed, is_planted, deployment, urls @ ..] = words else {
            return Err("worker NAME FILE SEED PLANTED DEPLOYMENT URL…".into());
        };
        Ok(Self {
            name: name.clone(),
            file: file.clone(),
            seed: seed.parse()?,
            is_planted: is_planted.parse()?,
            deployment: deployment.clone(),
            urls: urls.to_vec(),
        })
    }

    /// The words that start it.
    pub(crate) fn words(&self) -> Vec<String> {
        let (seed, is_planted) = (self.seed.to_string(), self.is_planted.to_string());
        let own = [&self.name, &self.file, &seed, &is_planted, &self.deployment];
        own.into_iter().chain(&self.urls).cloned().collect()
    }

    /// Works until its input ends, which also happens when the director dies.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(self.work())
    }

    async fn work(&self) -> Result<(), Failure> {
        let client = Client::connect(&self.deployment, &self.urls)?;
        let (end, ending) = watch::channel(false);
        let folder = Path::new(&self.file).parent().ok_or("the history is in a folder")?;
        let shared = Arc::new(Shared {
            client: client.clone(),
            name: self.name.clone(),
            journal: Journal::create(self.file.as_ref())?,
            requests: AtomicU64::new(0),
            ending,
            is_planted: self.is_planted,
            ledger: Ledger::find(folder),
            tickets: Tickets::in_folder(folder.join("tickets"))?,
        });
        let (journal, worker) = (shared.journal.clone(), self.name.clone());
        stalls::watch(move |from, to| {
            journal.note(&Line::Stalled { worker: worker.clone(), from, to });
        });
        let mut rng = Rng::with_seed(self.seed);
        fastrand::seed(rng.u64(..));
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            tasks.spawn(turns(shared.clone(), task, rng.fork()));
        }
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            end.send_replace(true);
        });
        while let Some(ended) = tasks.join_next().await {
            ended?;
        }
        match client {
            Client::All(locks) => locks.shutdown().await,
            Client::Quorum(locks) => locks.shutdown().await,
        };
        Ok(())
    }
}

impl Client {
    /// A client that connects in the background, because its servers may be away.
    pub(crate) fn connect(deployment: &str, urls: &[String]) -> Result<Self, Failure> {
        let builder = Locks::builder().service("soak").command_timeout(Duration::from_millis(300));
        Ok(match deployment {
            "quorum" => {
                let builder = builder.longest_ttl(LONGEST_TTL_OF_QUORUM);
                Self::Quorum(builder.connect_quorum_lazy(urls)?)
            }
            "replicated" => {
                let wait = Duration::from_millis(200);
                Self::All(builder.sync_replicas(1, wait).connect_lazy(&urls[0])?)
            }
            _ => Self::All(builder.connect_lazy(&urls[0])?),
        })
    }
}

async fn turns(shared: Arc<Shared>, task: usize, mut rng: Rng) {
    while !shared.is_ending() {
        work_for(millis(&mut rng, 0..60)).await;
        shared.turn(task, &mut rng).await;
    }
}

impl Shared {
    /// One request, and what becomes of it.
    async fn turn(&self, task: usize, rng: &mut Rng) {
        let owner = format!("{}.{task}", self.name);
        let is_planted = self.is_planted && rng.u8(..8) == 0;
        let wish = match &self.client {
            _ if is_planted => Wish::planted(),
            Client::All(_) if self.ledger.is_some() && rng.u8(..6) == 0 => {
                Wish::of_ledger(rng, &owner)
            }
            Client::All(_)
                if rng.u8(..4) == 0
                    && let Some(wish) = self.tickets.take(rng) =>
            {
                wish
            }
            Client::All(_) => Wish::random(rng, &owner),
            Client::Quorum(_) => Wish::random_on_quorum(rng, &owner),
        };
        let wait = match rng.u8(..8) {
            0 | 1 => Duration::ZERO,
            2..=5 => millis(rng, 0..3_000),
            _ => LONGEST_WAIT,
        };
        // Some requests are dropped on their way.
        let patience = if rng.u8(..10) == 0 { millis(rng, 0..300) } else { LONGEST_WAIT * 4 };
        let asked: Vec<_> = wish.parts.iter().map(|part| (part, self.id())).collect();
        let at = now();
        for (part, id) in &asked {
            self.journal.note(&Line::Ask {
                id: id.clone(),
                at,
                lock: part.lock.to_owned(),
                kind: part.kind,
                units: part.units,
                limit: part.limit,
                owner: wish.owner.clone(),
                ttl: nanos(wish.ttl),
                linger: nanos(wish.linger),
            });
        }
        for (_, id) in &asked {
            self.journal.note(&Line::Waits { id: id.clone(), time: nanos(wait) });
        }
        if let Some(time) = wish.max_hold.map(nanos) {
            for (_, id) in &asked {
                self.journal.note(&Line::MaxHold { id: id.clone(), time });
            }
        }
        // On a quorum, one server that has forgotten and another that is away may end a lease.
        if wish.is_kept() && matches!(self.client, Client::All(_)) {
            for (_, id) in &asked {
                self.journal.note(&Line::Renewed { id: id.clone() });
            }
        }
        if let Some((of, _)) = &wish.ticket {
            self.journal.note(&Line::Adopt { id: asked[0].1.clone(), of: of.clone() });
        }
        let mut ending = self.ending.clone();
        let ended = tokio::select! {
            ended = timeout(patience, wish.acquire(&self.client, wait)) => ended.ok(),
            _ = ending.wait_for(|is_ending| *is_ending) => None,
        };
        let at = now();
        let ids: Vec<_> = asked.into_iter().map(|(_, id)| id).collect();
        match ended {
            Some(Ok(guard)) => self.hold(guard, &ids, &wish, at, is_planted, rng).await,
            Some(Err(error)) => self.refused(&ids, at, &reason(&error)),
            None => self.refused(&ids, at, "gave-up"),
        }
    }

    fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    fn refused(&self, ids: &[String], at: u64, why: &str) {
        for id in ids {
            self.journal.note(&Line::Refused { id: id.clone(), at, why: why.to_owned() });
        }
    }

    fn id(&self) -> String {
        format!("{}:{}", self.name, self.requests.fetch_add(1, Ordering::Relaxed))
    }
}

/// An error in one word.
fn reason(error: &LockError) -> String {
    match error {
        LockError::Busy { .. } => "busy".to_owned(),
        LockError::TimedOut { .. } => "timed-out".to_owned(),
        LockError::Store { .. } => "store".to_owned(),
        LockError::Quorum { .. } => "quorum".to_owned(),
        LockError::Lost { .. } => "lost".to_owned(),
        LockError::TicketEnded { .. } => "ticket-ended".to_owned(),
        LockError::ShutDown => "shut-down".to_owned(),
        LockError::Done { .. } => "done".to_owned(),
        other => format!("{other:?}").replace(char::is_whitespace, "_"),
    }
}
