//! Many names, each of which is locked and released once.

use std::ops::Range;

use tokio::task::JoinSet;

use crate::contender::Client;
use crate::failure::Failure;

/// The number of tasks that go through the names.
const TASKS: usize = 512;

/// The name of a lock, such as a service has one for each order.
pub(crate) fn name(number: usize) -> String {
    format!("order:{number:07}")
}

/// Acquires and releases a mutex of each of these names.
pub(crate) async fn lock_each(client: &Client, numbers: Range<usize>) -> Result<(), Failure> {
    let mut running = JoinSet::new();
    for task in 0..TASKS {
        let (client, numbers) = (client.clone(), numbers.clone().skip(task).step_by(TASKS));
        running.spawn(async move {
            for number in numbers {
                client.mutex(&name(number)).acquire_free().await?.release().await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    Ok(())
}
