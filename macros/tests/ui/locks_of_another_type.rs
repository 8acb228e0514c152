use leasehold::{LockError, Locks, distributed_lock};

struct Order {
    id: u64,
}

impl Order {
    #[distributed_lock(key = "order:{self.idd}")]
    async fn update(&self) -> Result<u64, LockError> {
        Ok(self.id)
    }
}

#[distributed_lock(key = "order:{id}", locks = url)]
async fn by_url(url: &str, id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "render", permits = 4, locks = url)]
async fn permits_by_url(url: String) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{id}", locks = locks)]
async fn by_an_option(locks: Option<Locks>, id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
