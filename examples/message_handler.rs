//! A handler of messages that arrive twice: each is handled once.
//!
//! ```sh
//! cargo run --example message_handler
//! ```
//!
//! With `REDIS_URL` set, several processes share the work. A message whose handler fails is
//! handled again when it is delivered again.

use leasehold::{LockError, Locks, distributed_lock};

/// A message of a queue that delivers at least once.
struct Message {
    id: u64,
    text: &'static str,
}

/// Sends an invoice once a day at most. A crash after the mail and before the mark sends it
/// again: if that must not happen, note the message's id where the mail is sent, in the same
/// transaction.
#[distributed_lock(key = "invoice-mail:{message.id}", once = "24h")]
async fn handle(message: &Message) -> Result<(), LockError> {
    println!("handled: {}", message.text);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    Locks::from_env_or_in_memory().await?.install();
    let (first, second) = (Message { id: 1, text: "one" }, Message { id: 2, text: "two" });
    for message in [&first, &second, &first] {
        match handle(message).await {
            Ok(()) => {}
            // Acknowledge it: there is nothing left to do.
            Err(error) if error.is_done() => println!("skipped: {}", message.text),
            // Do not acknowledge it: it will be delivered again.
            Err(error) => println!("later: {error}"),
        }
    }
    Ok(())
}
