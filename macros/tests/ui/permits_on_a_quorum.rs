use leasehold::{LockError, LockLayer, QuorumLocks, distributed_lock};

#[distributed_lock(key = "render", permits = 4, locks = quorum)]
async fn render(quorum: &QuorumLocks) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", locks = quorum)]
async fn order(quorum: &QuorumLocks) -> Result<(), LockError> {
    Ok(())
}

fn layers(quorum: &QuorumLocks) {
    let _ = LockLayer::mutex(quorum, "order");
    let _ = LockLayer::semaphore(quorum, "render", 4);
    let _ = quorum.semaphore("render", 4);
}

fn main() {}
