//! What the store said last about what people look at, for the time when it does not answer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use tokio::time::Instant;

use super::down::Down;
use super::live::Topic;

/// How many live parts are kept: those that were shown last.
const PARTS: usize = 32;

/// The live parts that were shown last, each once.
#[derive(Debug, Default)]
pub(super) struct Last(Mutex<VecDeque<Part>>);

#[derive(Clone, Debug)]
struct Part {
    topic: Topic,
    at: Instant,
    html: Arc<str>,
}

impl Last {
    /// The live part of a page and its status: what the store says now, or why it does not answer
    /// and what it said last. If it has said nothing yet: the piece that it says now.
    pub(super) fn part(
        &self,
        topic: &Topic,
        now: Result<String, (Down, String)>,
    ) -> (StatusCode, String) {
        match now {
            Ok(html) => {
                self.keep(topic, &html);
                (StatusCode::OK, html)
            }
            Err((down, piece)) => {
                let last = self.of(topic);
                let notice = down.notice(last.as_ref().map(|part| part.at.elapsed()));
                (down.status, notice + last.as_ref().map_or(&piece, |part| &part.html))
            }
        }
    }

    fn keep(&self, topic: &Topic, html: &str) {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.retain(|part| part.topic != *topic);
        parts.truncate(PARTS - 1);
        parts.push_front(Part { topic: topic.clone(), at: Instant::now(), html: html.into() });
    }

    fn of(&self, topic: &Topic) -> Option<Part> {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.iter().find(|part| part.topic == *topic).cloned()
    }
}
