use leasehold::distributed_lock;

#[distributed_lock(key = "report")]
async fn nothing() {}

#[distributed_lock(key = "report")]
async fn unit() -> () {}

#[distributed_lock(key = "report")]
async fn never() -> ! {
    loop {}
}

#[distributed_lock(key = "report")]
async fn number() -> u32 {
    1
}

#[distributed_lock(key = "report")]
async fn option() -> Option<u32> {
    Some(1)
}

fn main() {}
