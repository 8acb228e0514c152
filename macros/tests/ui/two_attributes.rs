use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "tenant:{tenant}", permits = 4)]
#[distributed_lock(key = "report:{report}")]
async fn build(tenant: u64, report: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
