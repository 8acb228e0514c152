//! The messages on their way from the server to those who listen, and what they meet there.

use fastrand::Rng;

use super::Server;
use super::core::{Channel, Delivery};
use super::reply::Reply;

/// How often something happens to a message, out of 1,000 times.
#[derive(Debug)]
pub struct MessageFaults {
    pub lost: u32,
    pub doubled: u32,
    /// It comes after later ones.
    pub late: u32,
    pub rng: Rng,
    waiting: Vec<Delivery>,
}

impl MessageFaults {
    /// Each of them so often.
    pub fn new(often: u32, rng: Rng) -> Self {
        Self { lost: often, doubled: often, late: often, rng, waiting: Vec::new() }
    }

    fn pass(&mut self, deliveries: Vec<Delivery>) -> Vec<Delivery> {
        let mut passed = Vec::new();
        for delivery in deliveries {
            let at = self.rng.u32(..1_000);
            if at < self.lost {
                continue;
            }
            if at < self.lost + self.late {
                self.waiting.push(delivery);
                continue;
            }
            if at < self.lost + self.late + self.doubled {
                passed.push(delivery.clone());
            }
            passed.push(delivery);
            if !self.waiting.is_empty() && self.rng.bool() {
                passed.push(self.waiting.remove(0));
            }
        }
        passed
    }
}

impl Server {
    /// From now on, messages meet these faults; or none.
    pub fn disturb_messages(&mut self, faults: Option<MessageFaults>) {
        self.message_faults = faults;
    }

    /// Publishes as somebody would who may do nothing else.
    pub fn publish(&mut self, channel: &[u8], message: Vec<u8>) {
        let args = [b"PUBLISH".to_vec(), channel.to_vec(), message];
        let _ = self.core.borrow_mut().execute(0, &args, None);
        self.deliver();
    }

    /// The channels that somebody listens to.
    pub fn channels(&self) -> Vec<Vec<u8>> {
        self.core.borrow().subscriptions.keys().map(|Channel { name, .. }| name.clone()).collect()
    }

    /// Writes the published messages to their connections.
    pub(super) fn deliver(&mut self) {
        let mut deliveries = std::mem::take(&mut self.core.borrow_mut().deliveries);
        if let Some(faults) = &mut self.message_faults {
            deliveries = faults.pass(deliveries);
        }
        for Delivery { to, channel, message } in deliveries {
            if let Some(session) = self.sessions.get_mut(&to) {
                let kind = if channel.is_sharded { "smessage" } else { "message" };
                let items = [Reply::text(kind), Reply::Bulk(channel.name), Reply::Bulk(message)];
                session.push(&items);
            }
        }
    }
}
