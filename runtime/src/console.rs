//! A web page that shows the locks.

mod assets;
mod chart;
mod clients;
mod doctor;
mod force;
mod frame;
mod holders;
mod list;
mod live;
mod lock;
mod query;
mod routes;
mod search;
mod text;

use axum::Router;

use self::force::Force;
use self::frame::App;
use self::live::Live;
use crate::api::locks::Locks;

/// The console, read-only, to nest behind the program's own authentication.
pub fn console(locks: &Locks) -> Router {
    Console::new(locks).router()
}

/// The console with options.
#[derive(Debug)]
pub struct Console {
    locks: Locks,
    allow_force: bool,
}

impl Console {
    /// A read-only console.
    #[must_use]
    pub fn new(locks: &Locks) -> Self {
        Self { locks: locks.clone(), allow_force: false }
    }

    /// Lets people take a lock from its holders. Default: no.
    #[must_use]
    pub fn allow_force(mut self, allow: bool) -> Self {
        self.allow_force = allow;
        self
    }

    /// The routes.
    pub fn router(self) -> Router {
        let force = self.allow_force.then(Force::new);
        routes::router(App { locks: self.locks, live: Live::new(), force })
    }
}
