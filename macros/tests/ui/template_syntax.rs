use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report:{}")]
async fn empty(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report:{id:?}")]
async fn format_spec(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report:{id.to_string()}")]
async fn call(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report:{0b}")]
async fn number(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report:{id")]
async fn not_closed(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report:id}")]
async fn not_opened(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
