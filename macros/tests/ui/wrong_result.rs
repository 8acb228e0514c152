use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report")]
async fn end() -> Result<u32, LockError> {
    "three"
}

#[distributed_lock(key = "report")]
async fn early(three: bool) -> Result<u32, LockError> {
    if three {
        return "three";
    }
    Ok(4)
}

fn main() {}
