use leasehold::lock_key;

struct Page {
    number: f64,
}

fn keys(tenant: &str, day: &str, page: Page) {
    let _ = lock_key!("report:{tenant}-{day}");
    let _ = lock_key!("report:{tenant}:{dya}");
    let _ = lock_key!("report:{page.number}");
    let _ = lock_key!("report:{}", tenant);
    let _ = lock_key!(tenant);
    let _ = lock_key!();
    let _ = lock_key!("report:{crate}");
}

fn main() {}
