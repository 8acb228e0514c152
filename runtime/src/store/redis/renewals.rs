//! Renewals that are due together: one pipeline, and an answer to each.

use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::{ErrorKind, Pipeline, RedisError, Value};
use tokio::time::{Instant as Timer, timeout_at};

use super::command::{Command, integers, is_wrong_type, limit, unreadable};
use super::connection::{Connections, PATIENCE};
use super::fault::{self, Fault};
use super::{RedisStore, Servers, script};
use crate::LossReason;
use crate::store::{Renewal, Renewals, Request, StoreError};

impl RedisStore {
    pub(super) fn renew_together(&self, requests: &[Request]) -> Renewals {
        // The shortest lease must not wait for the others' answers.
        let limit = requests.iter().map(limit).min().unwrap_or(PATIENCE);
        let connections = match &self.servers {
            Servers::One(connections) => connections.clone(),
            // They are on several nodes: the driver sorts them, command by command.
            #[cfg(feature = "cluster")]
            Servers::Cluster(_) => {
                let renew = |request| self.send(self.renewal(request), limit, read);
                return Box::pin(join_all(requests.iter().map(renew).collect::<Vec<_>>()));
            }
        };
        // An empty pipeline is an error to the driver, and would cost the connection.
        if requests.is_empty() {
            return Box::pin(ready(Vec::new()));
        }
        let commands: Vec<_> = requests.iter().map(|request| self.renewal(request)).collect();
        let running = self.runtime.spawn(run(connections, commands, limit));
        let count = requests.len();
        Box::pin(async move {
            let answers = running.await;
            let ended = || (0..count).map(|_| Err(fault::shut_down())).collect();
            answers.unwrap_or_else(|_| ended()).into_iter().map(read).collect()
        })
    }

    pub(super) fn renewal(&self, request: &Request) -> Command {
        self.of(request, &script::RENEW).millis(request.ttl)
    }
}

/// What a renewal was answered.
pub(super) fn read(answer: Result<Value, StoreError>) -> Result<Renewal, StoreError> {
    let answer = match answer {
        Err(error) if is_wrong_type(&error) => return Ok(Renewal::NotHeld(LossReason::Taken)),
        answer => answer?,
    };
    Ok(match *integers(&answer) {
        [1] => Renewal::Renewed,
        [0] => Renewal::NotHeld(LossReason::Expired),
        [2] => Renewal::NotHeld(LossReason::Taken),
        _ => return Err(unreadable(&answer)),
    })
}

/// Sends commands at once, and waits for all of their answers, for at most `limit`.
async fn run(
    connections: Arc<Connections>,
    commands: Vec<Command>,
    limit: Duration,
) -> Vec<Result<Value, StoreError>> {
    let deadline = Timer::now() + limit;
    let all = |error: &dyn Fn() -> StoreError| commands.iter().map(|_| Err(error())).collect();
    let Ok(Ok(mut link)) = timeout_at(deadline, connections.get()).await else {
        return all(&|| connections.no_connection());
    };
    let mut pipeline = Pipeline::with_capacity(commands.len());
    for command in &commands {
        pipeline.add_command(command.cmd.clone());
    }
    let sent = Instant::now();
    let answers = timeout_at(deadline, async {
        let answers = link.send_all(&pipeline, commands.len()).await?;
        if answers.len() != commands.len() {
            let error = (ErrorKind::UnexpectedReturnType, "not as many answers as commands");
            return Err(RedisError::from(error));
        }
        // Forgotten scripts are sent along; each with its own command.
        let again = commands.iter().zip(answers).map(|(command, answer)| {
            let mut link = link.clone();
            async move {
                match answer.extract_error() {
                    Err(error) if error.code() == Some("NOSCRIPT") => {
                        link.send(&command.with_body()).await
                    }
                    answer => answer,
                }
            }
        });
        Ok::<_, RedisError>(join_all(again).await)
    })
    .await;
    match answers {
        Ok(Ok(answers)) => {
            let sort = |answer: Result<Value, RedisError>| match answer {
                Ok(value) => (Fault::Answered, Ok(value)),
                Err(error) => {
                    let (fault, error) = fault::sort(error);
                    (fault, Err(error))
                }
            };
            let sorted = answers.into_iter().map(sort).map(|(fault, answer)| {
                connections.judge(&link, sent, fault);
                answer
            });
            sorted.collect()
        }
        Ok(Err(error)) => {
            let (fault, _) = fault::sort(error.clone());
            connections.judge(&link, sent, fault);
            all(&|| fault::sort(error.clone()).1)
        }
        Err(_) => {
            connections.judge(&link, sent, Fault::Silent);
            all(&fault::silent)
        }
    }
}
