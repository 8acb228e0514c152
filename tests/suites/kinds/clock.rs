//! Fencing tokens grow when a server's clock is set back, for as long as docs/keys.md says. In
//! memory tokens are counted, and use no clock.

use leasehold_tests::requests;
use std::time::Duration;

use leasehold::store::redis::{RedisStore, Settings};
use leasehold::store::{
    Adoption, Attempt, ClientId, Ended, Kind, Owner, QuorumMember, Repaired, Request, Store,
};
use leasehold_tests::server::Server;
use tokio::runtime::Handle;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A lock whose token is an hour ahead of the server's clock, and free.
struct Ahead {
    server: Server,
    store: RedisStore,
    token: u64,
}

impl Ahead {
    async fn start(kind: Kind) -> Self {
        let server = Server::start_skewed();
        server.stop_clock();
        let (url, settings) = (server.url(), Settings::default());
        let connected = RedisStore::connect(&url, &settings, ClientId::random(), Handle::current());
        let store = connected.await.expect("the server is there");
        let mut ahead = Self { server, store, token: 0 };
        let first = ahead.grant(kind).await;
        ahead.server.jump_back(HOUR);
        ahead.release(&first).await;
        ahead
    }

    /// Grants a lock for a second. Its token, if it has one, is greater than all before.
    async fn grant(&mut self, kind: Kind) -> Request {
        let request = request(kind);
        match self.store.acquire(&request, None).await.unwrap() {
            Attempt::Granted { token } if kind.is_fenced() => self.has_grown(token),
            Attempt::Granted { token: 0 } => {}
            other => panic!("{kind:?}: {other:?}"),
        }
        request
    }

    fn has_grown(&mut self, token: u64) {
        assert!(token > self.token, "{token} after {}", self.token);
        self.token = token;
    }

    async fn release(&self, request: &Request) {
        let ended = self.store.release(request, Duration::ZERO).await.unwrap();
        assert_eq!(ended, Ended::Released);
    }

    /// Lets all leases expire.
    fn expire(&self) {
        self.server.jump(2 * SECOND);
    }
}

fn request(kind: Kind) -> Request {
    let owner = (kind == Kind::Reentrant).then(|| Owner::new("me").unwrap());
    Request { owner, ..requests::request("a", kind, SECOND) }
}

#[tokio::test]
async fn an_expiry_without_waiters_takes_no_token_back() {
    for kind in [Kind::Reentrant, Kind::Write] {
        let mut ahead = Ahead::start(kind).await;
        ahead.grant(kind).await;
        ahead.expire();
        ahead.grant(kind).await;
    }
}

#[tokio::test]
async fn an_expired_adoption_takes_no_token_back() {
    for kind in [Kind::Reentrant, Kind::Write] {
        let mut ahead = Ahead::start(kind).await;
        let (from, heir) = (ahead.grant(kind).await, request(kind));
        let adopted = ahead.store.adopt(from.id.into(), &heir).await.unwrap();
        let Adoption::Adopted { token } = adopted else { panic!("{adopted:?}") };
        ahead.has_grown(token);
        ahead.expire();
        ahead.grant(kind).await;
    }
}

#[tokio::test]
async fn expired_readers_and_repaired_leases_take_no_token_back() {
    let mut ahead = Ahead::start(Kind::Write).await;
    ahead.grant(Kind::Read).await;
    ahead.expire();
    ahead.grant(Kind::Write).await;
    ahead.expire();
    let repaired = ahead.store.repair(&request(Kind::Read), 0, SECOND).await.unwrap();
    assert_eq!(repaired, Repaired::Held { token: ahead.token });
    ahead.expire();
    ahead.grant(Kind::Write).await;
}

/// The name was a mutex's. Its token is kept for the next mutex, until the permits have ended and
/// the clock has reached the token.
#[tokio::test]
async fn permits_that_expire_take_no_token_back() {
    const PERMIT: Kind = Kind::Semaphore { limit: 2, weight: 1 };
    for is_given_back in [false, true] {
        let mut ahead = Ahead::start(Kind::Mutex).await;
        let permits = [ahead.grant(PERMIT).await, ahead.grant(PERMIT).await];
        if is_given_back {
            ahead.release(&permits[0]).await;
        }
        ahead.expire();
        let last = ahead.grant(PERMIT).await;
        ahead.release(&last).await;
        ahead.grant(Kind::Mutex).await;
    }
}
