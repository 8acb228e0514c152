use leasehold::{LockError, distributed_lock};

#[tokio::main(flavor = "current_thread")]
#[distributed_lock(key = "report")]
async fn main() -> Result<(), LockError> {
    Ok(())
}
