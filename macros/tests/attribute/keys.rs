//! Keys by hand, and newtypes in keys.

use std::borrow::Cow;
use std::time::Duration;

use leasehold::{KeyPart, LockError, LockKey, Locks, distributed_lock, lock_key};

use crate::held::{Held, held, runs_under};

#[derive(Clone, Copy, KeyPart)]
struct OrderId(u64);

#[derive(KeyPart)]
struct Slug<'a> {
    text: Cow<'a, str>,
}

#[derive(KeyPart)]
struct Id<T>(T);

trait Brand {
    type Raw;
}

struct Shop;

impl Brand for Shop {
    type Raw = u8;
}

#[derive(KeyPart)]
struct Of<B: Brand>(B::Raw);

struct Order {
    id: OrderId,
    r#type: u8,
}

impl Order {
    fn key(&self) -> String {
        name(lock_key!("order:{self.id}:{self.type}"))
    }
}

fn name(key: Result<LockKey, LockError>) -> String {
    key.unwrap().name().to_owned()
}

#[test]
fn a_key_by_hand_takes_variables_in_scope() {
    let (id, r#type, slug) = (OrderId(7), "a:b", Slug { text: "x-y".into() });
    assert_eq!(name(lock_key!("report")), "report");
    assert_eq!(name(lock_key!("order:{id}:{type}:{slug}")), "order:7:a%3Ab:x-y");
    assert_eq!(name(lock_key!("{{{id}}}:pdf")), "{7}:pdf");
    assert_eq!(Order { id, r#type: 3 }.key(), "order:7:3");
    let lines = [(1, "one")];
    assert_eq!(lines.map(|line| name(lock_key!("line:{line.0}:{line.1}"))), ["line:1:one"]);
    let empty = "";
    assert!(matches!(lock_key!("order:{empty}"), Err(LockError::InvalidKey { .. })));
}

#[test]
fn a_newtype_has_the_key_of_its_value() {
    let (id, branded, nested) = (Id("a"), Of::<Shop>(4), Id(Id(OrderId(1))));
    assert_eq!(name(lock_key!("{id}:{branded}:{nested}")), "a:4:1");
}

#[distributed_lock(key = "order:{order.id}")]
async fn ship(order: Order) -> Held {
    Ok(held("order:7").await && order.r#type == 3)
}

#[distributed_lock(key = { let age = age.as_secs(); lock_key!("age:{age}") })]
async fn older(age: Duration) -> Held {
    Ok(held("age:4").await && age.subsec_millis() == 5)
}

#[tokio::test]
async fn keys_by_hand_and_newtypes_are_for_attributes_too() {
    runs_under!("order:7", ship(Order { id: OrderId(7), r#type: 3 }) => Ok(true));
    runs_under!("age:4", older(Duration::from_millis(4_005)) => Ok(true));
}

#[tokio::test]
async fn a_lock_by_hand_excludes_the_attributes_lock() {
    let (locks, id) = (Locks::in_memory(), 7);
    let lease = locks.mutex(lock_key!("order:{id}")).lock().await.unwrap();
    let all = locks.all([lock_key!("order:{id}"), lock_key!("a:{id}")]).try_lock().await;
    assert!(matches!(all, Err(LockError::Busy { .. })));
    let shipped = locks.scope(at_once(id)).await;
    assert!(matches!(shipped, Err(LockError::Busy { .. })));
    lease.release().await.unwrap();
    locks.scope(at_once(id)).await.unwrap();
}

#[distributed_lock(key = "order:{id}", wait = "0s")]
async fn at_once(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[tokio::test]
async fn a_template_by_hand_is_refused_by_all() {
    let (locks, name) = (Locks::in_memory(), "order:{id}");
    let told = |error: LockError| {
        let text = error.to_string();
        assert!(text.contains("looks like a template") && text.contains("`lock_key!`"), "{text}");
    };
    told(locks.mutex(name).try_lock().await.unwrap_err());
    told(locks.semaphore(name, 1).try_acquire().await.unwrap_err());
    told(locks.reentrant_mutex(name).owner("a").try_lock().await.unwrap_err());
    told(locks.rw_lock(name).try_read().await.unwrap_err());
    told(locks.all(["a", name]).try_lock().await.unwrap_err());
    told(locks.inspect(name).await.unwrap_err());
    told(locks.force_release(name).await.unwrap_err());
    told(locks.is_held_by(name, "a").await.unwrap_err());
    told(locks.lead(name, async |_| {}).await.unwrap_err());
    let lease = locks.mutex("order:{42}:pdf").try_lock().await.unwrap();
    assert_eq!(lease.key().name(), "order:{42}:pdf");
}

#[distributed_lock(key = "outer", wait = "100ms")]
async fn outer(inside: &str) -> Result<(), LockError> {
    match inside {
        "inner" => inner().await,
        _ => again().await,
    }
}

#[distributed_lock(key = "inner")]
async fn inner() -> Result<(), LockError> {
    again().await
}

#[distributed_lock(key = "outer", wait = "100ms")]
async fn again() -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn a_call_that_waits_for_itself_gets_an_error_that_says_so() {
    let locks = Locks::in_memory();
    for inside in ["itself", "inner"] {
        let error = locks.scope(outer(inside)).await.unwrap_err();
        assert!(matches!(error, LockError::TimedOut { held_by_caller: true, .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains("`outer`") && text.contains("the caller itself holds it"),
            "{inside}: {text}"
        );
    }
    // Where it is free, and where another has it, or another client's of the same name.
    locks.scope(again()).await.unwrap();
    let lease = locks.mutex("outer").lock().await.unwrap();
    let error = locks.scope(again()).await.unwrap_err();
    assert!(matches!(error, LockError::TimedOut { held_by_caller: false, .. }), "{error:?}");
    let other = Locks::in_memory();
    let elsewhere = other.mutex("outer").lock().await.unwrap();
    let error = elsewhere.run(locks.scope(again())).await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::TimedOut { held_by_caller: false, .. }), "{error:?}");
    let both = locks.all(["a", "outer"]).wait(Duration::from_millis(100));
    let error = lease.run(both.lock()).await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::TimedOut { held_by_caller: true, .. }), "{error:?}");
}
