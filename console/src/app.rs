//! What the pages of one console share.

use leasehold::Locks;
use tokio::time::Instant;

use super::forced::Force;
use super::last::Last;
use super::live::Live;
use super::place::Place;
use super::token::Token;

/// What the pages of one console share.
#[derive(Debug)]
pub(super) struct App {
    pub(super) locks: Locks,
    /// When the console began.
    pub(super) began: Instant,
    pub(super) place: Place,
    pub(super) live: Live,
    pub(super) last: Last,
    /// `None` in a console that only shows.
    pub(super) force: Option<Force>,
    /// In the forms that change limits; `None` in a console that only shows them.
    pub(super) limits: Option<Token>,
    /// In the form that lets done work run again; `None` in a console that only shows.
    pub(super) run_again: Option<Token>,
}
