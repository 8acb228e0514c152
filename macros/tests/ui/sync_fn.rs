use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report")]
fn report() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
