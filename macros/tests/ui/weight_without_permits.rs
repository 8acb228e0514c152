use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", weight = 2)]
async fn report() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
