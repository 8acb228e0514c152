use leasehold::{LockError, Locks};

async fn twice(locks: &Locks) -> Result<(), LockError> {
    let lease = locks.mutex("report").lock().await?;
    lease.release().await?;
    lease.release().await?;
    Ok(())
}

fn main() {}
