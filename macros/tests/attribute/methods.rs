//! The attribute on methods, in traits and outside.

use async_trait::async_trait;
use leasehold::{LockError, Locks, distributed_lock};

use crate::held::{Held, held, runs_under, sent};

#[derive(Default)]
struct Account {
    id: u32,
    balance: u32,
    locks: Option<Locks>,
}

impl Account {
    /// Documentation stays.
    #[distributed_lock(key = "account:{self.id}")]
    async fn by_reference<'a>(&'a self, name: &'a str) -> Result<&'a str, LockError> {
        assert!(held("account:1").await);
        Ok(if self.balance > 0 { "rich" } else { name })
    }

    #[distributed_lock(key = "account:{self.id}")]
    async fn by_mutable_reference(&mut self, mut amount: u32) -> Result<&mut u32, LockError> {
        amount *= 2;
        self.balance += amount;
        assert!(held("account:1").await);
        Ok(&mut self.balance)
    }

    #[distributed_lock(key = "account:{self.id}")]
    async fn by_value(mut self) -> Result<Self, LockError> {
        self.id += 1;
        assert!(held("account:1").await);
        Ok(self)
    }

    #[distributed_lock(key = "account:{self.id}", locks = self.locks.as_ref().expect("given"))]
    async fn with_client(&mut self) -> Held {
        let locks = self.locks.take().expect("given");
        Ok(matches!(locks.mutex("account:1").try_lock().await, Err(LockError::Busy { .. })))
    }
}

#[tokio::test]
async fn methods() {
    let account = || Account { id: 1, ..Account::default() };
    runs_under!("account:1", account().by_reference("poor") => Ok("poor"));
    runs_under!("account:1", account().by_mutable_reference(4) => Ok(8));
    runs_under!("account:1", account().by_value() => Ok(Account { id: 2, .. }));
    let mut account = Account { locks: Some(Locks::in_memory()), ..account() };
    assert!(sent(account.with_client()).await.unwrap(), "no scope: the client is the account's");
}

trait Native {
    fn id(&self) -> u8;

    async fn required(&self) -> Held;

    #[distributed_lock(key = "provided:{id}", if_held = "skip")]
    async fn provided(&self, id: u8) -> Option<bool> {
        Some(held("provided:2").await && self.id() == 1)
    }
}

impl Native for u8 {
    fn id(&self) -> u8 {
        *self
    }

    #[distributed_lock(key = "required:{self}")]
    async fn required(&self) -> Held {
        Ok(held("required:1").await)
    }
}

#[tokio::test]
async fn async_functions_in_traits() {
    Locks::in_memory()
        .scope(async {
            assert!(1.required().await.unwrap());
            assert!(1.provided(2).await.unwrap());
            assert!(!held("required:1").await && !held("provided:2").await);
        })
        .await;
}

#[async_trait]
trait Boxed: Sync {
    async fn required(&mut self, mut id: u8) -> Held;

    #[tracing::instrument(skip(self))]
    #[distributed_lock(key = "provided:{id}")]
    async fn provided(&self, id: u8) -> Held {
        Ok(held("provided:2").await && id == 2)
    }

    #[distributed_lock(key = "unit", if_held = "skip", lease = lease)]
    async fn unit(&self) {
        assert!(held(lease.key().name()).await);
    }
}

#[derive(Default)]
struct Order {
    r#type: u8,
}

#[async_trait]
impl Boxed for Order {
    #[distributed_lock(key = "required:{self.type}:{id}")]
    #[tracing::instrument(skip(self))]
    async fn required(&mut self, mut id: u8) -> Held {
        id += 1;
        self.r#type += id;
        if !held("required:0:1").await {
            return Ok(false);
        }
        Ok(self.r#type == 2)
    }
}

#[tokio::test]
async fn async_trait_methods() {
    let order = || Box::new(Order::default()) as Box<dyn Boxed + Send>;
    runs_under!("required:0:1", order().required(1) => Ok(true));
    runs_under!("provided:2", order().provided(2) => Ok(true));
    runs_under!("unit", order().unit() => ());
}
