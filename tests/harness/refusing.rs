//! A proxy that lets a server answer single commands with an error, in the order of all answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::proxy;

/// A proxy in front of a server. Clones share what they refuse.
#[derive(Clone, Debug)]
pub struct Refusing {
    port: u16,
    refused: Refused,
}

/// By a lock's name: the answers to the next scripts about it, or nothing to close the connection.
type Refused = Arc<Mutex<HashMap<String, Vec<Option<String>>>>>;

impl Refusing {
    /// Starts one in front of each port; they share what they refuse. It ends with the test's runtime.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub async fn before(ports: impl IntoIterator<Item = u16>) -> Vec<Self> {
        let (refused, mut all) = (Refused::default(), Vec::new());
        for upstream in ports {
            let shared = refused.clone();
            let forward = move |from, to| forward(from, to, shared.clone());
            let port = proxy::before(upstream, forward).await;
            all.push(Self { port, refused: refused.clone() });
        }
        all
    }

    /// Its own port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The next so many scripts about this lock do not run, and are answered with this error. With `None`,
    /// the connection is closed instead.
    pub fn refuse_next(&self, count: usize, name: &str, error: Option<&str>) {
        lock(&self.refused).insert(name.to_owned(), vec![error.map(str::to_owned); count]);
    }

    /// So many scripts about this lock have come.
    #[must_use]
    pub fn has_refused(&self, name: &str) -> bool {
        !lock(&self.refused).contains_key(name)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forwards whole commands. One that is to be refused becomes a script that answers with the error.
async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, refused: Refused) {
    let (mut bytes, mut kept) = (vec![0; 1 << 16], Vec::new());
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        kept.extend_from_slice(&bytes[..count]);
        let mut passed = Vec::new();
        while let Some(words) = command(&kept) {
            let end = words.last().expect("it has words").end;
            let words: Vec<_> = words.into_iter().map(|word| &kept[word]).collect();
            match answer(&words, &refused) {
                Verdict::Error(error) => {
                    let script = format!("return redis.error_reply('{error}')");
                    let length = script.len();
                    let eval = format!("*3\r\n$4\r\nEVAL\r\n${length}\r\n{script}\r\n$1\r\n0\r\n");
                    passed.extend_from_slice(eval.as_bytes());
                }
                Verdict::Close => return,
                Verdict::Pass => passed.extend_from_slice(&kept[..end + 2]),
            }
            kept.drain(..end + 2);
        }
        if to.write_all(&passed).await.is_err() {
            return;
        }
    }
}

/// What becomes of a command.
enum Verdict {
    Pass,
    Error(String),
    Close,
}

fn answer(words: &[&[u8]], refused: &Refused) -> Verdict {
    // What is sent again with its whole text runs.
    if words[0] != b"EVALSHA" {
        return Verdict::Pass;
    }
    let mut refused = lock(refused);
    let name = refused.keys().find(|name| {
        let key = format!(":lock:{{{name}}}");
        words.iter().any(|word| word.ends_with(key.as_bytes()))
    });
    let Some(name) = name.cloned() else { return Verdict::Pass };
    let left = refused.entry(name.clone()).or_default();
    let answer = left.pop();
    if left.is_empty() {
        refused.remove(&name);
    }
    match answer {
        None => Verdict::Pass,
        Some(Some(error)) => Verdict::Error(error),
        Some(None) => Verdict::Close,
    }
}

/// Where the words of the first command are, if it is there to its end.
fn command(bytes: &[u8]) -> Option<Vec<std::ops::Range<usize>>> {
    let number = |at: usize| {
        let length = bytes.get(at..)?.windows(2).position(|it| it == b"\r\n")?;
        let digits = std::str::from_utf8(&bytes[at + 1..at + length]).expect("a number");
        Some((digits.parse::<usize>().expect("a number"), at + length + 2))
    };
    let (count, mut at) = number(0)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, begin) = number(at)?;
        at = begin + length + 2;
        if bytes.len() < at {
            return None;
        }
        words.push(begin..begin + length);
    }
    Some(words)
}
