use leasehold::{LockError, Locks};

async fn unlocked(locks: &Locks) -> Result<(), LockError> {
    let mutex = locks.mutex("report");
    mutex.release().await?;
    Ok(())
}

async fn by_a_handle(locks: &Locks) -> Result<(), LockError> {
    let lease = locks.mutex("report").lock().await?;
    lease.handle().release().await?;
    Ok(())
}

async fn a_copy(locks: &Locks) -> Result<(), LockError> {
    let lease = locks.mutex("report").lock().await?;
    lease.clone().release().await?;
    Ok(())
}

fn main() {}
