use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", once = "1h", permits = 2)]
async fn of_a_semaphore() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", once_per = "5m", mode = "read")]
async fn of_a_reader() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", once_per = "0s")]
async fn without_a_period() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", once = "1h", once_per = "5m")]
async fn twice() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", offset = "5m")]
async fn shifts_nothing() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", once = "1h", hold_at_least = "5m")]
async fn held_on() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", once = "1h", linger = "5s")]
async fn lingers() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", once = 3600)]
async fn without_a_unit() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", once_per = "1month")]
async fn of_each_month() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", once_per = "1M")]
async fn of_each_month_or_minute() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", once = "1y", max_hold = 1M)]
async fn of_each_year() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", success = Result::is_ok)]
async fn nothing_is_done() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", once = "1h", success = "ok")]
async fn no_function() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", schedule = "daily in UTC", once_per = "1h")]
async fn with_a_period() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
