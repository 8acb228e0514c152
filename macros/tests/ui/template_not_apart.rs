use leasehold::{LockError, distributed_lock};

struct Order {
    id: u64,
}

#[distributed_lock(key = "report:{tenant}-{day}")]
async fn dash(tenant: &str, day: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "{tenant}{order.id}")]
async fn adjacent(tenant: &str, order: Order) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "{tenant}:{day}%3A{page}")]
async fn escaped(tenant: &str, day: &str, page: u32) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
