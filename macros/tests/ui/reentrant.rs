use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", reentrant, mode = "read")]
async fn reader() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", mode = "write", reentrant)]
async fn writer() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", reentrant, permits = 4, weight = 2)]
async fn permits() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", reentrant, once = "1h")]
async fn once() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", once_per = "5m", reentrant)]
async fn once_per() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", reentrant = true)]
async fn with_a_value() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", reentrant, reentrant)]
async fn twice() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
