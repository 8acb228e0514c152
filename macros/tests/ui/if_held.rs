use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", if_held = "ignore")]
async fn another_word() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", if_held = skip)]
async fn unquoted() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
