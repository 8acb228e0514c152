use leasehold::{LockError, distributed_lock};

struct Path<T>(T);

#[distributed_lock(key = "order:{id}", lease = id)]
async fn plain(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:{id}", lease = line)]
async fn pattern(Path((id, line)): Path<(u64, u64)>) -> Result<u64, LockError> {
    Ok(id + line)
}

fn main() {}
