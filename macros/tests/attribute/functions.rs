//! The attribute on every shape of function: the body runs under its lock,
//! with its arguments, and the lock is free afterwards.

use std::{fmt::Display, pin::Pin, rc::Rc};

use leasehold::{LockError, Locks, distributed_lock};

use crate::held::{Held, held, runs_under, sent};

#[distributed_lock(key = "plain")]
pub(super) async fn plain() -> Held {
    Ok(held("plain").await)
}

#[tokio::test]
async fn plain_functions() {
    runs_under!("plain", plain() => Ok(true));
}

#[distributed_lock(key = "a:{id}:{order.0.id}:{{}}", ttl = "10s", wait = "1s")]
async fn with_options(id: u64, order: (Order,)) -> Held {
    Ok(held("a:7:x:{}").await && id == 7 && order.0.id == "x")
}

#[derive(Clone, Default)]
struct Order {
    id: String,
    r#type: u8,
}

#[tokio::test]
async fn templates_take_fields() {
    runs_under!("a:7:x:{}", with_options(7, (Order { id: "x".into(), r#type: 0 },)) => Ok(true));
}

#[distributed_lock(key = "{type}:{order.type}")]
async fn keywords(r#type: u8, order: &Order) -> Held {
    Ok(held("1:2").await && r#type + 1 == order.r#type)
}

#[tokio::test]
async fn templates_take_raw_identifiers() {
    runs_under!("1:2", keywords(1, &Order { id: String::new(), r#type: 2 }) => Ok(true));
}

#[distributed_lock(key = format!("{}-{}", name.trim(), 2), wait = WAIT)]
async fn expressions(name: String) -> Held {
    Ok(held("b-2").await && name == " b")
}

const WAIT: std::time::Duration = std::time::Duration::from_secs(1);

#[tokio::test]
async fn keys_and_options_are_expressions() {
    runs_under!("b-2", expressions(" b".into()) => Ok(true));
}

#[distributed_lock(key = "generic:{id}")]
async fn generic<T, const N: usize>(
    id: impl leasehold::KeyPart + Send,
    numbers: impl Iterator<Item = u8> + Send,
    text: &T,
) -> Result<impl Iterator<Item = String>, LockError>
where
    T: Display + Sync + ?Sized,
{
    let text = text.to_string();
    let held = held("generic:3").await;
    Ok(numbers.take(N).filter(move |_| held).map(move |number| format!("{text}{number}")))
}

#[tokio::test]
async fn generics_and_impl_trait() {
    let names = async || {
        let names = generic::<str, 2>(3_u8, 5.., "n").await?;
        Ok::<_, LockError>(names.collect::<Vec<_>>().concat())
    };
    runs_under!("generic:3", names() => Ok(names) if names == "n5n6");
}

struct State<T>(T);
struct Path<T>(T);

#[distributed_lock(key = "{id}:{line}", locks = locks)]
async fn extractors(
    State(locks): State<Locks>,
    Path((id, line)): Path<(u64, String)>,
    _: Order,
) -> Result<String, LockError> {
    let again = locks.mutex(format!("{id}:{line}")).try_lock().await;
    assert!(matches!(again, Err(LockError::Busy { .. })));
    Ok(line)
}

#[tokio::test]
async fn extractor_patterns() {
    let locks = Locks::in_memory();
    for _ in 0..2 {
        let path = Path((4, "b".to_owned()));
        let line = sent(extractors(State(locks.clone()), path, Order::default())).await.unwrap();
        assert_eq!(line, "b");
    }
}

#[distributed_lock(key = "c")]
#[tracing::instrument]
async fn instrumented_below(text: &str) -> Held {
    Ok(held("c").await && text == "a")
}

#[tracing::instrument(ret)]
#[distributed_lock(key = "c:{text}")]
async fn instrumented_above(text: &str) -> Held {
    Ok(held("c:a").await)
}

#[tokio::test]
async fn other_attributes() {
    runs_under!("c", instrumented_below("a") => Ok(true));
    runs_under!("c:a", instrumented_above("a") => Ok(true));
}

#[distributed_lock(key = "by hand")]
fn boxed_by_hand(text: &str) -> Pin<Box<dyn Future<Output = Held> + Send + '_>> {
    let text = text.trim();
    Box::pin(async move {
        if text.is_empty() {
            return Ok(false);
        }
        Ok(held("by hand").await)
    })
}

/// What is not in the box, the lock keeps out of it: it is gone, or can't be sent, or does not live as long.
#[distributed_lock(key = "outside:{id}")]
fn boxed_beside_others(
    text: String,
    id: u8,
    _near: &str,
    _here: Rc<u8>,
) -> Pin<Box<dyn Future<Output = Held> + Send>> {
    let bytes = text.into_bytes();
    Box::pin(async move {
        let text = "text, {text}";
        Ok(held("outside:1").await && bytes == b"a" && text.ends_with('}'))
    })
}

#[tokio::test]
async fn boxed_futures() {
    runs_under!("by hand", boxed_by_hand(" a") => Ok(true));
    runs_under!("outside:1", boxed_beside_others("a".to_owned(), 1, "b", Rc::new(1)) => Ok(true));
}

struct Worker {
    name: &'static str,
}

/// The body has words that are no variables: its argument may be moved into an option.
#[distributed_lock(key = "mentioned", owner = name)]
async fn mentioned_in_words(name: String) -> Held {
    let worker = Worker { name: "the name of a worker" };
    Ok(held("mentioned").await && worker.name != "name" && (0..1).contains(&0))
}

#[tokio::test]
async fn words_that_are_no_variables() {
    runs_under!("mentioned", mentioned_in_words("a".to_owned()) => Ok(true));
}

macro_rules! function {
    ($name:ident, $argument:ident) => {
        #[distributed_lock(key = "macro:{id}:{argument}")]
        async fn $name(id: u8, $argument: u8) -> Held {
            Ok(held("macro:1:2").await && id < $argument)
        }
    };
    ($key:literal: $item:item) => {
        #[distributed_lock(key = $key)]
        $item
    };
}

function!(made, argument);
function!("macro:{id}": async fn passed(id: u8) -> Held {
    Ok(held("macro:1").await && id == 1)
});

#[tokio::test]
async fn functions_from_macros() {
    runs_under!("macro:1:2", made(1, 2) => Ok(true));
    runs_under!("macro:1", passed(1) => Ok(true));
}

#[distributed_lock(key = "inner")]
async fn with_functions_inside() -> Held {
    #![allow(clippy::items_after_statements, reason = "an inner attribute is under test")]
    let early = |stop: bool| {
        if stop {
            return 1;
        }
        2
    };
    fn nested() -> Option<u8> {
        let two = "2".parse().ok()?;
        Some(two)
    }
    Ok(held("inner").await && early(true) == 1 && nested() == Some(2))
}

#[tokio::test]
async fn functions_inside_return_for_themselves() {
    runs_under!("inner", with_functions_inside() => Ok(true));
}

#[distributed_lock(key = "type", lease = r#type)]
async fn raw_lease() -> Held {
    Ok(held(r#type.key().name()).await)
}

macro_rules! with_lease {
    ($name:ident, $lease:ident) => {
        #[distributed_lock(key = "macro", lease = $lease)]
        async fn $name() -> Held {
            Ok(held($lease.key().name()).await)
        }
    };
}

with_lease!(from_a_macro, lease);

#[distributed_lock(key = "by hand", lease = lease)]
fn boxed_with_lease(text: &str) -> Pin<Box<dyn Future<Output = Held> + Send + '_>> {
    Box::pin(async move { Ok(held(text).await && lease.is_held()) })
}

#[tracing::instrument]
#[distributed_lock(key = "span", lease = lease)]
async fn instrumented_with_lease() -> Held {
    Ok(held(lease.key().name()).await)
}

#[tokio::test]
async fn leases_have_names_in_all_shapes() {
    runs_under!("type", raw_lease() => Ok(true));
    runs_under!("macro", from_a_macro() => Ok(true));
    runs_under!("by hand", boxed_with_lease("by hand") => Ok(true));
    runs_under!("span", instrumented_with_lease() => Ok(true));
}

#[distributed_lock(
    key = "all",
    permits = 2,
    max_hold = MOST,
    auto_renew = wait > WAIT,
    on_lost = "finish",
    lease = lease
)]
async fn with_further_options(wait: std::time::Duration) -> Result<bool, LockError> {
    Ok(lease.is_held() && wait == WAIT)
}

const MOST: Option<std::time::Duration> = None;

#[tokio::test]
async fn options_of_the_lease_are_expressions() {
    Locks::in_memory()
        .scope(async { assert!(sent(with_further_options(WAIT)).await.unwrap()) })
        .await;
}

mod renamed {
    pub(super) use leasehold as locks;
}

#[distributed_lock(key = "renamed", crate = renamed::locks)]
async fn under_another_name() -> Held {
    Ok(held("renamed").await)
}

#[tokio::test]
async fn the_crate_may_have_another_name() {
    runs_under!("renamed", under_another_name() => Ok(true));
}

/// rustc decides on the conditions of arguments after the attribute.
#[distributed_lock(key = "conditional:{id}")]
async fn conditional(
    id: u64,
    #[cfg(any())] absent: u64,
    #[cfg(not(any()))] present: String,
    #[cfg(any())] _guard: Absent,
) -> Held {
    #[cfg(any())]
    drop(absent);
    Ok(held("conditional:7").await && id == 7 && present == "x")
}

#[tokio::test]
async fn arguments_with_conditions() {
    runs_under!("conditional:7", conditional(7, "x".into()) => Ok(true));
}
