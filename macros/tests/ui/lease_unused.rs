#![deny(unused_variables)]

use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", lease = lease)]
async fn report() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
