use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "invoice:{amount}")]
async fn charge(amount: f64) -> Result<(), LockError> {
    let _ = amount;
    Ok(())
}

fn main() {}
