use leasehold::{Fence, LockError, Locks};

async fn late(locks: &Locks) -> Result<Fence, LockError> {
    let lease = locks.mutex("report").lock().await?;
    drop(lease);
    lease.fence()
}

async fn detached(locks: &Locks) -> Result<(), LockError> {
    let lease = locks.mutex("report").lock().await?;
    let _ticket = lease.detach().await?;
    lease.run(async {}).await
}

async fn several(locks: &Locks) -> Result<bool, LockError> {
    let leases = locks.all(["report", "index"]).lock().await?;
    leases.release().await?;
    Ok(leases.is_held())
}

fn main() {}
