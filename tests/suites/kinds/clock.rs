//! Fencing tokens grow when a server's clock is set back, where docs/guide/guarantees.md says so.
//! In memory tokens are counted, and use no clock.

use std::time::Duration;

use leasehold_tests::cluster::Cluster;
use leasehold_tests::requests::{self, redis_store};

use leasehold::store::redis::{RedisStore, Settings};
use leasehold::store::{
    Adoption, Ask, Attempt, ClientId, Ended, Kind, Owner, QueuePosition, Renewal, Repaired,
    Request, Waiting,
};
use leasehold::{Forced, Locks};
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

/// What happens between two grants of a lock, by the rows of the table in the guide.
#[derive(Clone, Copy, Debug)]
enum Between {
    Release,
    Expiry,
    BackThenRelease,
    BackThenExpiry,
    ExpiryThenBack,
}

const ROWS: [(&str, Between); 5] = [
    ("a release", Between::Release),
    ("an expiry", Between::Expiry),
    ("the clock goes back, then a release", Between::BackThenRelease),
    ("the clock goes back, then a renewal and an expiry", Between::BackThenExpiry),
    ("an expiry, then the clock goes back", Between::ExpiryThenBack),
];

/// Grants a lock, lets this happen, and grants it twice more. True if the tokens grew.
async fn tokens_grow(server: &Server, store: &RedisStore, kind: Kind, between: Between) -> bool {
    let name = format!("{kind:?} {between:?}").replace(['{', '}'], "");
    let request = || Request {
        key: leasehold::LockKey::new(&*name).unwrap(),
        id: requests::request("a", kind, SECOND).id,
        ..request(kind)
    };
    let mut tokens = Vec::new();
    for round in 0..3 {
        let request = request();
        let token = match store.acquire(&request, None).await.unwrap() {
            Attempt::Granted { token } | Attempt::GrantedTick { token, .. } => token,
            other => panic!("{kind:?}, {between:?}, {round}: {other:?}"),
        };
        tokens.push(token);
        let (is_first, is_mutex) = (round == 0, matches!(kind, Kind::Mutex));
        let back = || is_first.then(|| server.jump_back(HOUR));
        // The clock did not stand still meanwhile.
        server.jump(Duration::from_millis(1));
        match between {
            Between::Release | Between::BackThenRelease => {
                if matches!(between, Between::BackThenRelease) {
                    back();
                }
                let ended = if is_mutex {
                    store.release_and_forget(&request).await
                } else {
                    store.release(&request, Duration::ZERO).await
                };
                assert_eq!(ended.unwrap(), Ended::Released, "{kind:?}, {between:?}");
                // For longer than a free record stays.
                server.jump(62 * SECOND);
            }
            Between::Expiry => server.jump(62 * SECOND),
            Between::BackThenExpiry => {
                back();
                assert_eq!(store.renew(&request).await.unwrap(), Renewal::Renewed);
                server.jump(2 * SECOND);
            }
            Between::ExpiryThenBack => {
                server.jump(2 * SECOND);
                // What has expired is gone before.
                assert_eq!(store.inspect(&request.key).await.unwrap().held, 0);
                back();
            }
        }
    }
    tokens.is_sorted_by(|one, next| one < next)
}

/// The cells of the table are what a server does, and no more is said.
#[tokio::test]
async fn tokens_grow_where_the_table_says_so() {
    const PAGE: &str = include_str!("../../../docs/guide/guarantees.md");
    for (row, between) in ROWS {
        let row = PAGE.lines().find_map(|line| line.strip_prefix(&format!("| {row} |")));
        let cells: Vec<_> = row.expect("a row").split('|').map(str::trim).collect();
        for (cell, server) in
            [(cells[0], Server::start_skewed()), (cells[1], Cluster::start_skewed_node().await)]
        {
            server.stop_clock();
            let store = redis_store(&server.url()).await;
            for kind in [Kind::Mutex, Kind::Reentrant, Kind::Write] {
                let expected = match cell {
                    "grow" => true,
                    "a mutex may shrink, others grow" => kind != Kind::Mutex,
                    "may shrink" => false,
                    other => panic!("no cell says {other}"),
                };
                let grow = tokens_grow(&server, &store, kind, between).await;
                assert_eq!(grow, expected, "{kind:?}, {between:?}: {cells:?}");
                server.jump(HOUR);
            }
        }
    }
}

/// Grants of other names, tokens that went from task to task, and forced releases, while the clock
/// is behind: no token comes twice.
#[tokio::test]
async fn no_token_comes_twice_while_the_clock_is_behind() {
    let mut ahead = Ahead::start(Kind::Mutex).await;
    let mut all = vec![ahead.token];
    for round in 0..20 {
        let lease = ahead.grant(Kind::Mutex).await;
        all.push(ahead.token);
        let mut other = requests::request("other", Kind::Mutex, SECOND);
        other.owner = None;
        match ahead.store.acquire(&other, None).await.unwrap() {
            Attempt::Granted { token } => all.push(token),
            refused => panic!("{refused:?}"),
        }
        match round % 4 {
            0 => ahead.release(&lease).await,
            1 => {
                let ended = ahead.store.release_and_forget(&lease).await.unwrap();
                assert_eq!(ended, Ended::Released);
            }
            2 => {
                let forced = ahead
                    .store
                    .force_release(&lease.key, leasehold_tests::requests::force())
                    .await
                    .unwrap();
                assert!(matches!(forced, Forced::Released { held: 1, .. }), "{forced:?}");
            }
            _ => {}
        }
        ahead.expire();
    }
    let count = all.len();
    all.sort_unstable();
    // A block belongs to one grant: its holder may hand it on inside its process.
    assert!(all.windows(2).all(|pair| pair[1] - pair[0] >= 64), "{all:?}");
    assert_eq!(all.len(), count);
}

/// Asks as a waiter, and gives the position in the queue.
async fn waits(store: &RedisStore, request: &Request, position: QueuePosition) -> u64 {
    let waiting = Waiting { live: 6 * SECOND, position };
    match store.acquire(request, Some(waiting)).await.unwrap() {
        Attempt::Queued { position, .. } => position,
        other => panic!("{other:?}"),
    }
}

/// After a small step back the waiters' heartbeats are still believed. After a large one they must
/// ask again.
#[tokio::test]
async fn nobody_passes_a_waiter_because_the_clock_went_back() {
    const NEW: QueuePosition = QueuePosition::New { age: Duration::ZERO };
    let kinds = [Kind::Mutex, Kind::Write, Kind::Semaphore { limit: 1, weight: 1 }];
    for (nth, kind) in kinds.into_iter().chain([Kind::Reentrant]).enumerate() {
        for back in [8 * SECOND, 600 * SECOND] {
            let server = Server::start_skewed();
            let store = redis_store(&server.url()).await;
            let request = |owner: &str| Request {
                owner: (kind == Kind::Reentrant).then(|| Owner::new(owner).unwrap()),
                ..requests::request("a", kind, 9 * SECOND)
            };
            let holder = request("holder");
            let granted = store.acquire(&holder, None).await.unwrap();
            assert!(matches!(granted, Attempt::Granted { .. }), "{granted:?}");
            let old = [request("first"), request("second")];
            let mut places = Vec::new();
            for waiter in &old {
                places.push(waits(&store, waiter, NEW).await);
            }
            server.jump_back(back);
            if back > 60 * SECOND {
                // Nobody trusts their heartbeats, so one that asks takes them out of the queue.
                store.acquire(&request("try"), None).await.unwrap();
            }
            for (waiter, place) in old.iter().zip(places) {
                waits(&store, waiter, QueuePosition::Assigned(place)).await;
            }
            let newcomers: Vec<_> = (0..20).map(|n| request(&format!("new {n}"))).collect();
            for newcomer in &newcomers {
                waits(&store, newcomer, NEW).await;
            }
            let mut holder = holder;
            for (turn, next) in old.into_iter().chain(newcomers).enumerate() {
                assert_eq!(
                    store.release(&holder, Duration::ZERO).await.unwrap(),
                    Ended::Released,
                    "kind {nth}, back {back:?}, turn {turn}"
                );
                // The first renewal takes the offer.
                let renewed = store.renew(&next).await.unwrap();
                assert_eq!(renewed, Renewal::Renewed, "kind {nth}, back {back:?}, turn {turn}");
                holder = next;
            }
        }
    }
}

/// A client says once a minute that it lives. If that fails, what it was granted since says it, too.
#[tokio::test]
async fn whoever_was_just_granted_a_lock_was_heard_of() {
    let server = Server::start_skewed();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let before = locks.mutex("before").lock().await.unwrap();
    // As if each word of it since then had failed.
    server.jump(SECOND * 90);
    let [mutex, permit, reads] = [
        locks.mutex("mutex").lock().await.unwrap(),
        locks.semaphore("permit", 3).acquire().await.unwrap(),
        locks.rw_lock("reads").read().await.unwrap(),
    ];
    for lease in [mutex, permit, reads] {
        let holders = locks.inspect(lease.key()).await.unwrap().holders;
        assert!(holders[0].heard.unwrap() < SECOND * 30, "{holders:?}");
    }
    drop(before);
}
