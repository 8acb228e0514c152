//! The names of holders.

use leasehold::{LockError, Locks, distributed_lock};

async fn holder(key: &str) -> Option<String> {
    let locks = Locks::current().expect("the test runs in a scope");
    locks.inspect(key).await.expect("it is there").holders[0].owner.clone()
}

#[distributed_lock(key = "a:{id}", owner = format!("worker-{id}"))]
async fn mutex(id: u32) -> Result<Option<String>, LockError> {
    Ok(holder("a:7").await)
}

#[distributed_lock(key = "b", permits = 2, owner = name)]
async fn permit(name: &str) -> Result<Option<String>, LockError> {
    Ok(holder("b").await)
}

#[distributed_lock(key = "c", mode = "write", owner = "editor")]
async fn writer() -> Result<Option<String>, LockError> {
    Ok(holder("c").await)
}

#[distributed_lock(key = "d", owner = "")]
async fn nobody() -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn inspection_shows_the_owner() {
    Locks::in_memory()
        .scope(async {
            assert_eq!(mutex(7).await.unwrap().as_deref(), Some("worker-7"));
            assert_eq!(permit("thumbnails").await.unwrap().as_deref(), Some("thumbnails"));
            assert_eq!(writer().await.unwrap().as_deref(), Some("editor"));
            let error = nobody().await.unwrap_err();
            assert!(matches!(error, LockError::InvalidOption { option: "owner", .. }), "{error}");
        })
        .await;
}

#[distributed_lock(key = "e:{id}", note = format!("ticket {id}"))]
async fn noted(id: u32) -> Result<Option<String>, LockError> {
    let locks = Locks::current().expect("the test runs in a scope");
    Ok(locks.inspect(format!("e:{id}")).await?.holders[0].note.clone())
}

#[distributed_lock(key = "f", permits = 2, note = "a\nb")]
async fn noted_permit() -> Result<Option<String>, LockError> {
    let locks = Locks::current().expect("the test runs in a scope");
    Ok(locks.inspect("f").await?.holders[0].note.clone())
}

#[distributed_lock(key = "g", mode = "read", note = &"x".repeat(id))]
async fn noted_reader(id: usize) -> Result<Option<String>, LockError> {
    let locks = Locks::current().expect("the test runs in a scope");
    Ok(locks.inspect("g").await?.holders[0].note.clone())
}

#[tokio::test]
async fn inspection_shows_the_note() {
    Locks::in_memory()
        .scope(async {
            assert_eq!(noted(7).await.unwrap().as_deref(), Some("ticket 7"));
            assert_eq!(noted_permit().await.unwrap().as_deref(), Some("a b"));
            assert_eq!(noted_reader(1000).await.unwrap().unwrap().len(), 200);
            assert_eq!(noted_reader(0).await.unwrap(), None);
        })
        .await;
}
