//! A body drops all that it carries before its lock is free, however it ends.

use std::{
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Mutex, PoisonError},
    task::{Context, Waker},
};

use leasehold::{LeaseHandle, LeaseState, LockError, Locks, LossReason, distributed_lock};
use tokio::task;

/// The events of a test, in their order.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Log {
    fn note(&self, text: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Notes how the lease stands that is current when it is dropped.
struct Carried<'a>(&'a Log, &'static str);

impl Drop for Carried<'_> {
    fn drop(&mut self) {
        let state = LeaseHandle::current().map(|lease| lease.state());
        self.0.note(format!("{} {state:?}", self.1));
    }
}

/// When it is made of a lost lease.
static REFUSED: Log = Log(Mutex::new(Vec::new()));

#[derive(Debug)]
struct Refused;

impl From<LockError> for Refused {
    fn from(error: LockError) -> Self {
        REFUSED.note(format!("refused {error}"));
        Self
    }
}

/// Ends a body as `how` says.
async fn end_within(how: &str) {
    match how {
        "loss" | "cancel" => std::future::pending().await,
        "panic" => panic!("as asked"),
        _ => task::yield_now().await,
    }
}

#[distributed_lock(key = "body", max_hold = "1s", ttl = "9s")]
async fn stops(argument: Carried<'_>, how: &str) -> Result<(), Refused> {
    let _local = Carried(argument.0, "local");
    end_within(how).await;
    Ok(())
}

#[distributed_lock(key = "body", on_lost = "finish")]
async fn finishes(argument: Carried<'_>, how: &str) -> Result<(), LockError> {
    let _local = Carried(argument.0, "local");
    end_within(how).await;
    Ok(())
}

#[distributed_lock(all(lock(key = "body"), lock(key = "pool", permits = 2)), max_hold = "1s")]
async fn stops_under_several(argument: Carried<'_>, how: &str) -> Result<(), Refused> {
    let _local = Carried(argument.0, "local");
    end_within(how).await;
    Ok(())
}

#[distributed_lock(all(lock(key = "body"), lock(key = "pool", permits = 2)), on_lost = "finish")]
async fn finishes_under_several(argument: Carried<'_>, how: &str) -> Result<(), LockError> {
    let _local = Carried(argument.0, "local");
    end_within(how).await;
    Ok(())
}

#[distributed_lock(key = "body")]
async fn uses_a_part(_guard: Carried<'_>, part: Carried<'_>) -> Result<(), LockError> {
    part.0.note("body".to_owned());
    Ok(())
}

/// The notes of a body in this state of its lease.
fn all_in(state: LeaseState) -> [String; 2] {
    ["local", "argument"].map(|it| format!("{it} {:?}", Some(state)))
}

/// Ends a call as `how` says.
async fn end(how: &str, call: impl Future<Output: Send>) {
    let mut call = pin!(Locks::in_memory().scope(call));
    match how {
        "cancel" => {
            // In memory it has the lock at once.
            let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
        }
        "panic" => {
            let mut context = Context::from_waker(Waker::noop());
            let poll = AssertUnwindSafe(|| call.as_mut().poll(&mut context).is_ready());
            assert!(std::panic::catch_unwind(poll).is_err());
        }
        _ => drop(call.await),
    }
}

#[tokio::test]
async fn a_body_is_dropped_under_its_lease() {
    let log = Log::default();
    for how in ["return", "cancel", "panic"] {
        end(how, stops(Carried(&log, "argument"), how)).await;
        assert_eq!(log.take(), all_in(LeaseState::Held), "{how}");
        end(how, finishes(Carried(&log, "argument"), how)).await;
        assert_eq!(log.take(), all_in(LeaseState::Held), "{how}, to its end");
        end(how, stops_under_several(Carried(&log, "argument"), how)).await;
        assert_eq!(log.take(), all_in(LeaseState::Held), "{how}, of several");
        end(how, finishes_under_several(Carried(&log, "argument"), how)).await;
        assert_eq!(log.take(), all_in(LeaseState::Held), "{how}, of several, to its end");
    }
}

/// Also those that the body does not mention, or of which it uses a field.
#[tokio::test]
async fn all_arguments_are_dropped_under_the_lease() {
    let log = Log::default();
    end("return", uses_a_part(Carried(&log, "guard"), Carried(&log, "part"))).await;
    let mut told = log.take();
    told[1..].sort();
    assert_eq!(told, ["body", "guard Some(Held)", "part Some(Held)"]);
}

#[tokio::test]
async fn a_body_is_dropped_before_its_loss_is_told() {
    end("loss", stops(Carried(&REFUSED, "argument"), "loss")).await;
    let told = REFUSED.take();
    assert_eq!(told[..2], all_in(LeaseState::Lost(LossReason::MaxHold)));
    assert!(told.len() == 3 && told[2].starts_with("refused"), "{told:?}");
}
