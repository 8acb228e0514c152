use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "invoice:{customer}")]
async fn optional(customer: Option<u64>) -> Result<(), LockError> {
    let _ = customer;
    Ok(())
}

#[distributed_lock(key = "invoice:{age}")]
async fn foreign(age: std::time::Duration) -> Result<(), LockError> {
    let _ = age;
    Ok(())
}

fn main() {}
