use leasehold::{LockError, Locks};

async fn mutex(locks: Locks) -> Result<(), LockError> {
    locks.mutex("report").run(async { Ok(()) }).await
}

async fn set(locks: Locks) -> Result<(), LockError> {
    locks.all(["report", "index"]).run(async { Ok(()) }).await
}

fn main() {}
