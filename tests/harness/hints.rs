//! Records the hints that a store sends to a client.

use std::sync::{Arc, Weak};

use leasehold::store::{ClientId, Hint, Listener, Store};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The hints that a client has received and a test has not read.
#[derive(Debug)]
pub struct HintRecorder {
    /// In the order of their arrival.
    pub received: UnboundedReceiver<Hint>,
    _listener: Arc<Sink>,
}

#[derive(Debug)]
struct Sink(UnboundedSender<Hint>);

impl Listener for Sink {
    fn hear(&self, hint: Hint) {
        let _ = self.0.send(hint);
    }
}

impl HintRecorder {
    /// Listens to a store as this client until it is dropped.
    #[must_use]
    pub fn new(store: &dyn Store, client: ClientId) -> Self {
        let (sender, received) = unbounded_channel();
        let listener = Arc::new(Sink(sender));
        let weak: Weak<Sink> = Arc::downgrade(&listener);
        store.listen(client, weak);
        Self { received, _listener: listener }
    }
}
