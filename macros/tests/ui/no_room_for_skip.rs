use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", if_held = "skip")]
async fn number() -> u32 {
    1
}

#[distributed_lock(key = "report", if_held = "skip")]
async fn result() -> Result<u32, LockError> {
    Ok(1)
}

fn main() {}
