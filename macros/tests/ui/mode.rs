use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", mode = "shared")]
async fn another_word() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", mode = read)]
async fn unquoted() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
