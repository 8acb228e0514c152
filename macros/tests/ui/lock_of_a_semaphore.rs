use leasehold::{LockError, Locks};

async fn lock(locks: Locks) -> Result<(), LockError> {
    let permit = locks.semaphore("reports", 4).lock().await?;
    permit.release().await
}

async fn try_lock(locks: Locks) {
    if let Ok(permit) = locks.semaphore("reports", 4).try_lock().await {
        drop(permit);
    }
}

fn main() {}
