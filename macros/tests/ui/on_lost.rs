use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", on_lost = "continue")]
async fn another_word() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", on_lost = finish)]
async fn unquoted() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
