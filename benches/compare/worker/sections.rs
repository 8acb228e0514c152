//! Tasks that come and go under one lock, and write down when.

use std::io::{BufWriter, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::setup::{ping, ready};
use crate::clock::{nanos, now};
use crate::contender::{Client, Contender};
use crate::failure::Failure;

/// The time for tasks that still wait at the end: enough if each is served in its turn. Peers that
/// starve some of their tasks would take many seconds.
const DRAIN: Duration = Duration::from_secs(1);

/// The work of each process.
#[derive(Args, Clone, Debug)]
pub(crate) struct Sections {
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long, value_enum)]
    pub(crate) contender: Contender,
    /// Number of clients, each with a connection of its own
    #[arg(long, default_value_t = 1)]
    pub(crate) clients: usize,
    /// Number of tasks of each client
    #[arg(long)]
    pub(crate) tasks: usize,
    /// Time in which it begins new sections
    #[arg(long)]
    pub(crate) run_ms: u64,
    /// Time that it stays in each
    #[arg(long)]
    pub(crate) hold_us: u64,
    /// A semaphore with this limit; without, a mutex
    #[arg(long)]
    pub(crate) limit: Option<u32>,
    /// Measures PINGs before
    #[arg(long)]
    pub(crate) ping: bool,
    /// A mutex for each task
    #[arg(long)]
    pub(crate) own_keys: bool,
}

impl Sections {
    /// This many tasks with one mutex, which do nothing under it.
    pub(crate) fn new(tasks: usize) -> Self {
        Self {
            url: String::new(),
            contender: Contender::Ours,
            clients: 1,
            tasks,
            run_ms: 0,
            hold_us: 0,
            limit: None,
            ping: false,
            own_keys: false,
        }
    }

    /// The same as a command line, for a program that knows these options.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--url".to_owned(), self.url.clone()];
        let numbers = [
            ("--clients", self.clients as u64),
            ("--tasks", self.tasks as u64),
            ("--run-ms", self.run_ms),
            ("--hold-us", self.hold_us),
        ];
        for (name, number) in numbers {
            arguments.extend([name.to_owned(), number.to_string()]);
        }
        if let Some(limit) = self.limit {
            arguments.extend(["--limit".to_owned(), limit.to_string()]);
        }
        arguments.extend(self.ping.then(|| "--ping".to_owned()));
        arguments.extend(self.own_keys.then(|| "--own-keys".to_owned()));
        arguments
    }

    pub(super) async fn run(self) -> Result<(), Failure> {
        let hold = Duration::from_micros(self.hold_us);
        if self.ping {
            let paced = nanos(ping(&self.url, hold).await?);
            let at_once = nanos(ping(&self.url, Duration::ZERO).await?);
            println!("{{\"ping\":[{paced},{at_once}]}}");
        }
        let mut clients = Vec::new();
        for _ in 0..self.clients {
            clients.push(self.contender.connect(&self.url).await?);
        }
        ready().await?;
        let until = now() + Duration::from_millis(self.run_ms);
        let (mut running, mut all) = (JoinSet::new(), Vec::new());
        for task in 0..self.clients * self.tasks {
            let client = clients[task / self.tasks].clone();
            let written = Arc::<Mutex<Vec<_>>>::default();
            all.push(written.clone());
            running.spawn(self.clone().come_and_go(client, task, until, written));
        }
        let drain = until.saturating_sub(now()) + DRAIN;
        let finish = async {
            while let Some(done) = running.join_next().await {
                done??;
            }
            Ok::<_, Failure>(())
        };
        if let Ok(finished) = timeout(drain, finish).await {
            finished?;
        }
        let mut output = BufWriter::new(std::io::stdout().lock());
        for (task, written) in all.into_iter().enumerate() {
            let written = written.lock().unwrap_or_else(PoisonError::into_inner);
            for [asked, start, end] in &*written {
                writeln!(output, "[{task},{asked},{start},{end}]")?;
            }
        }
        output.flush()?;
        // Tasks that still wait stop waiting.
        std::process::exit(0)
    }

    async fn come_and_go(
        self,
        client: Client,
        task: usize,
        until: Duration,
        written: Arc<Mutex<Vec<[u64; 3]>>>,
    ) -> Result<(), Failure> {
        let mut lock = match self.limit {
            Some(limit) => client.semaphore("bench", limit),
            None if self.own_keys => client.mutex(&format!("bench-{task}")),
            None => client.mutex("bench"),
        };
        loop {
            let asked = now();
            if asked >= until {
                return Ok(());
            }
            let held = lock.acquire().await?;
            let start = now();
            if self.hold_us > 0 {
                tokio::time::sleep(Duration::from_micros(self.hold_us)).await;
            }
            let end = now();
            held.release().await?;
            let record = [asked, start, end].map(nanos);
            written.lock().unwrap_or_else(PoisonError::into_inner).push(record);
        }
    }
}
