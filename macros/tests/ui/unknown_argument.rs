use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", renew = true)]
async fn report() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
