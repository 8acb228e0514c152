use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:{lease}", lease = lease)]
async fn template(id: u64) -> Result<(), LockError> {
    let _ = (id, lease.fence()?);
    Ok(())
}

fn main() {}
