//! What a store tells a client unasked, written down.

use std::sync::{Arc, Weak};

use leasehold::store::{ClientId, Hint, Listener, Store};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The hints that a client has heard and a test has not read.
#[derive(Debug)]
pub struct Hearing {
    /// In the order they came.
    pub hints: UnboundedReceiver<Hint>,
    _listener: Arc<Recorder>,
}

#[derive(Debug)]
struct Recorder(UnboundedSender<Hint>);

impl Listener for Recorder {
    fn hear(&self, hint: Hint) {
        let _ = self.0.send(hint);
    }
}

impl Hearing {
    /// Listens to a store as this client, until it is dropped.
    #[must_use]
    pub fn of(store: &dyn Store, client: ClientId) -> Self {
        let (sender, hints) = unbounded_channel();
        let listener = Arc::new(Recorder(sender));
        let weak: Weak<Recorder> = Arc::downgrade(&listener);
        store.listen(client, weak);
        Self { hints, _listener: listener }
    }
}
