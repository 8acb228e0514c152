use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report")]
struct Report;

trait Reports {
    #[distributed_lock(key = "report")]
    async fn report(&self) -> Result<(), LockError>;
}

fn main() {}
