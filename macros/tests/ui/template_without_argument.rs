use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "invoice:{invoice}")]
async fn charge(invoice_id: u64, (amount, _): (u32, u32)) -> Result<(), LockError> {
    let _ = (invoice_id, amount);
    Ok(())
}

#[distributed_lock(key = "report:{self.id}")]
async fn report() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
