use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", tll = "30s")]
async fn report() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
