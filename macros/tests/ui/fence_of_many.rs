use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "render", permits = 4, lease = lease)]
async fn permit() -> Result<u64, LockError> {
    Ok(u64::from(lease.fence()?))
}

#[distributed_lock(key = "catalogue", mode = "read", lease = held)]
async fn reader(pages: Vec<u64>) -> Result<(), LockError> {
    for _ in pages {
        let fence = held.fence()?;
        println!("{fence}");
    }
    Ok(())
}

fn main() {}
