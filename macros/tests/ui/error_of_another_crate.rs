use leasehold::distributed_lock;

mod sqlx {
    pub struct Error;
}

#[distributed_lock(key = "report")]
async fn report() -> Result<u32, sqlx::Error> {
    Ok(1)
}

#[distributed_lock(key = "nightly", if_held = "skip")]
async fn nightly() -> Result<(), sqlx::Error> {
    Ok(())
}

fn main() {}
