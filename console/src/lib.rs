//! A web page that shows the locks: a router for axum.
//!
//! [`console`] makes a router that only shows. [`Console`] has options. Nest it anywhere in an
//! app:
//!
//! ```
//! use axum::Router;
//! use leasehold::Locks;
//! use leasehold_console::console;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let locks = Locks::in_memory();
//! let app: Router = Router::new().nest("/locks", console(&locks));
//! # }
//! ```
//!
//! **It has no login.** Whoever reaches it sees the names of all locks, and their holders' owners
//! and notes. Nest it behind the app's own authentication.
//!
//! The pages show all locks in use, what is wrong first, with a search; one lock with its holders
//! and its queue; the jobs; the limits that operators have set; the clients, each with its locks;
//! and what [`Locks::diagnose`] found. While the store does not answer, they keep what they showed
//! last, with its age. A server renders them, from templates that escape all text of others. They
//! change by themselves, by server-sent events, and work without JavaScript otherwise. Nothing is
//! loaded from another host: the `Content-Security-Policy` forbids it.
//!
//! All viewers of the same lock, or of the same list, share one poller, which asks the store only
//! while somebody looks. A stream of events ends after 10 to 15 seconds, and the browser opens
//! another. So axum's graceful shutdown waits for that long. [`Locks::shutdown`] ends all streams
//! at once.

mod app;
mod assets;
mod chart;
mod client;
mod clients;
mod doctor;
mod down;
mod force;
mod forced;
mod form;
mod frame;
mod holders;
#[cfg(test)]
mod hostile;
mod jobs;
mod last;
mod limits;
mod list;
mod listing;
mod live;
mod lock;
mod place;
mod query;
mod routes;
mod scan;
mod search;
mod sort;
mod text;
mod time;
mod token;

use axum::Router;

use self::app::App;
use self::forced::Force;
use self::last::Last;
use self::live::Live;
use self::place::Place;
use self::token::Token;
// For the tool, which shows the same texts.
#[doc(hidden)]
pub use self::text::{
    RUN, client, counted, heard, job_state, needs_help, permits, reason, runs_command, short, shown,
};
use leasehold::Locks;
use tokio::time::Instant;

/// Makes a console that only shows, to nest behind the app's own authentication.
///
/// It finds out from each request where it is nested, and all its links are relative.
///
/// # Examples
///
/// ```
/// use axum::Router;
/// use axum::extract::Request;
/// use axum::http::StatusCode;
/// use axum::middleware::{Next, from_fn};
/// use axum::response::Response;
/// use leasehold::Locks;
/// use leasehold_console::console;
///
/// async fn only_operators(request: Request, next: Next) -> Result<Response, StatusCode> {
///     match request.headers().get("authorization") {
///         Some(login) if login == "Bearer the operators' secret" => Ok(next.run(request).await),
///         _ => Err(StatusCode::UNAUTHORIZED),
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let locks = Locks::in_memory();
/// let internal = Router::new().nest("/locks", console(&locks)).layer(from_fn(only_operators));
/// let app: Router = Router::new().merge(internal);
/// # }
/// ```
pub fn console(locks: &Locks) -> Router {
    Console::new(locks).router()
}

/// A console with options. [`console`] makes one without.
///
/// # Examples
///
/// ```
/// use axum::Router;
/// use leasehold::Locks;
/// use leasehold_console::Console;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let locks = Locks::in_memory();
/// let console = Console::new(&locks)
///     .server_name("redis-1:6379")
///     .prefix("leasehold")
///     .allow_force(true);
/// let app: Router = Router::new().nest("/locks", console.router());
/// # }
/// ```
#[derive(Debug)]
#[must_use = "it does nothing without its `router`"]
pub struct Console {
    locks: Locks,
    place: Place,
    allow_force: bool,
    allow_limits: bool,
    allow_run_again: bool,
}

impl Console {
    /// A console that only shows the locks that this client sees: those of its server and of its
    /// prefix.
    pub fn new(locks: &Locks) -> Self {
        let (locks, place) = (locks.clone(), Place::default());
        Self { locks, place, allow_force: false, allow_limits: false, allow_run_again: false }
    }

    /// The server that the head of each page names, such as `redis-1:6379`: a name, or the URL
    /// that the client connects to. A page shows the hosts and the path of a URL, and never the
    /// user, the password or the options. Default: pages name no server.
    ///
    /// Name it if people have consoles of several servers: they then see which one they are about
    /// to change.
    pub fn server_name(mut self, name: impl AsRef<str>) -> Self {
        self.place.set_server(name.as_ref());
        self
    }

    /// The prefix that the head of each page names. Give the one that the client has, from
    /// `LocksBuilder::prefix`: it does not change which locks the console shows. Default: pages
    /// name no prefix.
    pub fn prefix(mut self, prefix: impl AsRef<str>) -> Self {
        self.place.set_prefix(prefix.as_ref());
        self
    }

    /// Lets people take a lock from its holders, as [`Locks::force_release`] does. Default: no,
    /// and the route for it does not exist.
    ///
    /// A form asks for the lock's name and for a reason, which goes to the log. A form that comes
    /// from another site is refused: it must have this router's random token, and the browser must
    /// say that it comes from the same origin (`Sec-Fetch-Site`, or an `Origin` that equals the
    /// `Host`). If several processes serve one address, a form must go back to the process that
    /// made it.
    ///
    /// This does not replace authentication. On loopback without a login, check the `Host` header
    /// too: a page of an attacker can reach the console under a name of its own that leads to
    /// 127.0.0.1.
    pub fn allow_force(mut self, allow: bool) -> Self {
        self.allow_force = allow;
        self
    }

    /// Lets people set and unset the limits of semaphores, as [`Locks::limits`] does. Default: no,
    /// and the route for it does not exist.
    ///
    /// The form asks who sets it and why. It is refused in the same cases as that of
    /// [`allow_force`](Self::allow_force), and does not replace authentication either.
    pub fn allow_limits(mut self, allow: bool) -> Self {
        self.allow_limits = allow;
        self
    }

    /// Lets people run done work again, as [`Locks::run_again`] does. Default: no, and the route for it
    /// does not exist.
    ///
    /// The form asks who and why. It is refused in the same cases as that of
    /// [`allow_force`](Self::allow_force), and does not replace authentication either.
    pub fn allow_run_again(mut self, allow: bool) -> Self {
        self.allow_run_again = allow;
        self
    }

    /// The routes, for `nest`, `nest_service` or `merge`. Clones of the router share their
    /// pollers.
    ///
    /// The router must run in a Tokio runtime with timers.
    pub fn router(self) -> Router {
        let force = self.allow_force.then(Force::new);
        let limits = self.allow_limits.then(Token::random);
        let run_again = self.allow_run_again.then(Token::random);
        let (live, last) = (Live::new(), Last::default());
        let (Self { locks, place, .. }, began) = (self, Instant::now());
        routes::router(App { locks, began, place, live, last, force, limits, run_again })
    }
}
