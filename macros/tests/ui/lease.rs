use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", lease = "held")]
async fn quoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", lease = self.lease)]
async fn field() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", lease = true)]
async fn truth() -> Result<(), LockError> {
    Ok(())
}

struct Report;

impl Report {
    #[distributed_lock(key = "report", lease = self)]
    async fn method(&self) -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {}
