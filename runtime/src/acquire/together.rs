//! One command for several mutexes, under way. Whatever happens to its caller, it
//! leaves no lease that nobody knows of.

use std::sync::Arc;
use std::time::Instant;

use crate::keeper::Doubt;
use crate::lease::Lease;
use crate::leases::Leases;
use crate::locks::Client;
use crate::options::Options;
use crate::shutdown::Stay;
use crate::store::{All, Kind, Request, StoreError, StoreFuture};
use crate::term::Grant;
use crate::{Fence, LockKey, Outcome};

/// The requests of one command, until they are granted or given up.
pub(super) struct Together {
    client: Arc<Client>,
    requests: Vec<Request>,
    options: Options,
    in_flight: Option<StoreFuture<All>>,
    /// The store may have granted them, and nobody has the leases.
    is_armed: bool,
    /// When the last command was sent.
    sent: Instant,
    /// When the first command was sent that had no answer: a copy of it may be on its way.
    unanswered: Option<Instant>,
    _stay: Stay,
}

impl Together {
    pub(super) fn new(client: &Arc<Client>, keys: &[LockKey], options: Options) -> Self {
        let request = |key: &LockKey| Request {
            key: key.clone(),
            id: client.next_request(),
            kind: Kind::Mutex,
            owner: None,
            ttl: options.first_ttl(),
        };
        Self {
            client: client.clone(),
            requests: keys.iter().map(request).collect(),
            options,
            in_flight: None,
            is_armed: false,
            sent: client.store.now(),
            unanswered: None,
            _stay: Stay::new(&client.keeper.shutdown),
        }
    }

    /// Asks once, by the same ids each time; gives the leases if all were granted. If
    /// not, or where the store can't grant them together, the place of the first that
    /// is not free, if that is known.
    pub(super) async fn ask(&mut self) -> Result<Result<Leases, Option<usize>>, StoreError> {
        self.sent = self.client.store.now();
        self.in_flight = self.client.store.acquire_all(&self.requests);
        let Some(in_flight) = &mut self.in_flight else { return Ok(Err(None)) };
        let answer = in_flight.await;
        self.in_flight = None;
        match answer {
            Ok(Ok(tokens)) => {
                self.is_armed = true;
                Ok(self.granted(&tokens).ok_or(None))
            }
            // Refused; but an earlier copy may still be on its way.
            Ok(Err(place)) => Ok(Err(place)),
            Err(error) => {
                if error.outcome == Outcome::Unknown {
                    self.is_armed = true;
                    self.unanswered.get_or_insert(self.sent);
                }
                Err(error)
            }
        }
    }

    fn granted(&mut self, tokens: &[u64]) -> Option<Leases> {
        if tokens.len() != self.requests.len() {
            return None;
        }
        let grant = Grant::by_command(self.sent, self.options.first_ttl());
        let mut leases = Leases::new();
        for (request, token) in self.requests.drain(..).zip(tokens) {
            let fence = Some(Fence::new(*token));
            leases.push(Lease::new(self.client.clone(), request, fence, grant, &self.options));
        }
        // From here on they are the leases'.
        self.is_armed = false;
        Some(leases)
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        let in_flight = self.in_flight.take();
        if self.is_armed || in_flight.is_some() {
            let doubt = Doubt::new(self.unanswered, self.sent);
            let requests = std::mem::take(&mut self.requests);
            self.client.keeper.cancel_later(requests, in_flight, doubt);
        }
    }
}
