use leasehold::{LockError, distributed_lock};

// There is a lease only when its key is known.
#[distributed_lock(key = lease.key().clone(), lease = lease)]
async fn expression(id: u64) -> Result<(), LockError> {
    let _ = (id, lease.fence()?);
    Ok(())
}

fn main() {}
