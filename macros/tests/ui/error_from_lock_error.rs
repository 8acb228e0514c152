use leasehold::distributed_lock;

struct ReportError;

#[distributed_lock(key = "report")]
async fn report() -> Result<u32, ReportError> {
    Ok(1)
}

fn main() {}
