use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", schedule = "daily")]
async fn without_a_zone() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", schedule = "0 24 * * * in UTC")]
async fn at_24() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", schedule = "30 0 2 * * * in UTC")]
async fn with_seconds() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", schedule = "0 0 31 6 * in UTC")]
async fn never() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", schedule = "daily in Berlin")]
async fn in_a_city() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", schedule = "daily in Europe/Berln")]
async fn elsewhere() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
