//! The clients of a store: which process each is, and where its hints go.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::store::rules::Time;
use crate::store::{ClientId, ClientInfo, Hint, Listener, RequestId};

#[derive(Debug, Default)]
pub(super) struct Clients {
    listeners: HashMap<ClientId, Weak<dyn Listener>>,
    known: HashMap<ClientId, Known>,
}

/// A client that has introduced itself.
#[derive(Debug)]
struct Known {
    info: ClientInfo,
    /// `None` for what lasts longer than any clock shows.
    until: Option<Time>,
}

impl Clients {
    /// From now on the client's hints go to `listener`. Clients whose listeners are gone are
    /// forgotten.
    pub(super) fn listen(&mut self, client: ClientId, listener: Weak<dyn Listener>) {
        let gone: Vec<_> =
            self.listeners.extract_if(|_, listener| listener.strong_count() == 0).collect();
        for (client, _) in gone {
            self.known.remove(&client);
        }
        self.listeners.insert(client, listener);
    }

    pub(super) fn is_listening(&self, client: ClientId) -> bool {
        self.listeners.get(&client).is_some_and(|listener| listener.strong_count() > 0)
    }

    /// The listener of each hint, for whoever calls them later.
    pub(super) fn addressed(&self, hints: Vec<(ClientId, Hint)>) -> Vec<(Arc<dyn Listener>, Hint)> {
        let listener = |client| self.listeners.get(&client).and_then(Weak::upgrade);
        hints.into_iter().filter_map(|(client, hint)| Some((listener(client)?, hint))).collect()
    }

    /// The listeners of all clients.
    pub(super) fn all(&self) -> impl Iterator<Item = ClientId> {
        self.listeners.keys().copied()
    }

    /// Records which process a client is, and forgets those whose time is over.
    pub(super) fn introduce(&mut self, info: ClientInfo, lasts: Duration, now: Time) {
        self.known.retain(|_, known| known.is_at(now));
        self.known.insert(info.id, Known { info, until: now.checked_add(lasts) });
    }

    /// The process of a request, if it is known.
    pub(super) fn info(&self, id: RequestId, now: Time) -> Option<ClientInfo> {
        let known = self.known.get(&id.client()).filter(|known| known.is_at(now));
        known.map(|known| known.info.clone())
    }
}

impl Known {
    fn is_at(&self, now: Time) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}
