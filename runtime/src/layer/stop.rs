//! What stops a handler before it has answered: the loss of its lock, or its time-out.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Sleep, sleep};

use super::held::{Boxed, Held};
use super::policy::Policy;
use super::reject::Refusal;
use crate::core::error::LossReason;

/// What a handler is stopped by, once its response has to be waited for. A handler that is ready at
/// once needs neither.
#[derive(Default)]
pub(super) struct Stop {
    loss: Option<Boxed<LossReason>>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Stop {
    /// Ready when the handler is to be dropped.
    pub(super) fn poll(
        &mut self,
        policy: &Policy,
        held: Option<&Held>,
        cx: &mut Context<'_>,
    ) -> Poll<Refusal> {
        if let Some(needed) = policy.needed(held) {
            // A loss is pending until its reason is known.
            let loss = self.loss.get_or_insert_with(|| needed.lost());
            if let Poll::Ready(reason) = loss.as_mut().poll(cx) {
                return Poll::Ready(Refusal::Lost(reason));
            }
        }
        let Some(time) = policy.timeout else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(time)));
        timer.as_mut().poll(cx).map(|()| Refusal::TookTooLong)
    }
}
