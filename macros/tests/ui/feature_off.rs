use leasehold::{LockError, Locks, distributed_lock};

#[distributed_lock(key = "report", schedule = "daily in UTC")]
async fn attribute() -> Result<(), LockError> {
    Ok(())
}

async fn handles(locks: Locks) -> Result<(), LockError> {
    let _lease = locks.mutex("report").schedule("daily in UTC").lock().await?;
    for finding in locks.diagnose().await.findings {
        println!("{finding:?}");
    }
    Ok(())
}

async fn clients() -> Result<(), LockError> {
    Locks::connect("redis://a/").await?.install();
    let locks = Locks::quorum(["redis://a/", "redis://b/", "redis://c/"]).await?;
    locks.mutex("report").lock().await?.release().await?;
    let (locks, faults) = Locks::in_memory_with_faults();
    faults.next(1);
    locks.mutex("report").lock().await?.release().await?;
    Ok(())
}

fn main() {}
