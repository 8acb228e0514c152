//! Clients with a connection and a lock of their own, which acquire and release: first at a pace,
//! then as fast as it goes.

use std::io::{BufWriter, Write};
use std::time::Duration;

use clap::Args;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::setup::ready;
use crate::clock::{nanos, own_cpu};
use crate::contender::{Client, Contender};
use crate::failure::Failure;

/// The number of clients that connect at the same time.
const TOGETHER: usize = 16;

#[derive(Args, Clone, Debug)]
pub(crate) struct Paced {
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long, value_enum)]
    pub(crate) contender: Contender,
    /// Number of clients, each with a connection of its own
    #[arg(long)]
    pub(crate) clients: usize,
    /// Time from one pair of a client to its next, while it keeps to the pace
    #[arg(long)]
    pub(crate) pace_ms: u64,
    /// Time in which it keeps to the pace
    #[arg(long)]
    pub(crate) at_pace_ms: u64,
    /// Pause until it goes as fast as it can
    #[arg(long)]
    pub(crate) pause_ms: u64,
    /// Time in which it does
    #[arg(long)]
    pub(crate) flat_out_ms: u64,
}

/// The nanoseconds of each pair: at the pace, and flat out.
type Latencies = [Vec<u64>; 2];

impl Paced {
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--url".to_owned(), self.url.clone()];
        arguments.extend(["--contender".to_owned(), self.contender.name()]);
        let numbers = [
            ("--clients", self.clients as u64),
            ("--pace-ms", self.pace_ms),
            ("--at-pace-ms", self.at_pace_ms),
            ("--pause-ms", self.pause_ms),
            ("--flat-out-ms", self.flat_out_ms),
        ];
        for (name, number) in numbers {
            arguments.extend([name.to_owned(), number.to_string()]);
        }
        arguments
    }

    /// Prints a row for each of the two: 0 or 1, the processor time of this process, and the time of
    /// each pair, all in nanoseconds.
    pub(super) async fn run(self) -> Result<(), Failure> {
        let clients = self.connect().await?;
        ready().await?;
        let begun = Instant::now();
        let mut running = JoinSet::new();
        for (number, client) in clients.into_iter().enumerate() {
            running.spawn(self.clone().work(client, number, begun));
        }
        let at_pace = Duration::from_millis(self.at_pace_ms);
        let mut cpu = [own_cpu(); 4];
        sleep_until(begun + at_pace).await;
        cpu[1] = own_cpu();
        sleep_until(begun + at_pace + Duration::from_millis(self.pause_ms)).await;
        cpu[2] = own_cpu();
        let mut all = Latencies::default();
        while let Some(done) = running.join_next().await {
            for (all, some) in all.iter_mut().zip(done??) {
                all.extend(some);
            }
        }
        cpu[3] = own_cpu();
        let mut output = BufWriter::new(std::io::stdout().lock());
        for (phase, latencies) in all.iter().enumerate() {
            let used = cpu[2 * phase + 1].saturating_sub(cpu[2 * phase]);
            write!(output, "[{phase},{}", nanos(used))?;
            for latency in latencies {
                write!(output, ",{latency}")?;
            }
            writeln!(output, "]")?;
        }
        output.flush()?;
        // The keys go with the server.
        std::process::exit(0)
    }

    /// Connects all clients. Each does a pair, so that the rest measures none that is the first.
    async fn connect(&self) -> Result<Vec<Client>, Failure> {
        let (mut clients, mut running) = (Vec::new(), JoinSet::new());
        for number in 0..self.clients {
            if running.len() >= TOGETHER {
                clients.extend(running.join_next().await.transpose()?.transpose()?);
            }
            let (contender, url) = (self.contender, self.url.clone());
            running.spawn(async move {
                let client = contender.connect(&url).await?;
                client.mutex(&own_name(number)).acquire_free().await?.release().await?;
                Ok::<_, Failure>(client)
            });
        }
        while let Some(client) = running.join_next().await {
            clients.push(client??);
        }
        Ok(clients)
    }

    async fn work(
        self,
        client: Client,
        number: usize,
        begun: Instant,
    ) -> Result<Latencies, Failure> {
        let pace = Duration::from_millis(self.pace_ms);
        let paced_until = begun + Duration::from_millis(self.at_pace_ms);
        let mut lock = client.mutex(&format!("{}-again", own_name(number)));
        let mut pair = async || -> Result<u64, Failure> {
            let asked = Instant::now();
            lock.acquire_free().await?.release().await?;
            Ok(nanos(asked.elapsed()))
        };
        let mut latencies = Latencies::default();
        // The clients of all processes are spread over the pace.
        let mut ticks = interval_at(begun + pace.mul_f64(fastrand::f64()), pace);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while ticks.tick().await < paced_until {
            latencies[0].push(pair().await?);
        }
        let flat_out = paced_until + Duration::from_millis(self.pause_ms);
        sleep_until(flat_out).await;
        let until = flat_out + Duration::from_millis(self.flat_out_ms);
        while Instant::now() < until {
            latencies[1].push(pair().await?);
        }
        Ok(latencies)
    }
}

/// The lock of a client, which no client of another process has.
fn own_name(number: usize) -> String {
    format!("paced-{}-{number}", std::process::id())
}
