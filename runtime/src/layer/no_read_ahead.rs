//! In place of `read_ahead` without axum: no body of another type can be put together again.

use std::task::Context;

use http::Request;

/// There is none.
pub(super) enum ReadAhead {}

impl ReadAhead {
    pub(super) fn begin<A>(_: &mut Request<A>) -> Option<Box<Self>> {
        None
    }

    pub(super) fn finish<A>(self, _: &mut Request<A>) {
        match self {}
    }

    pub(super) fn poll(&mut self, _: &mut Context<'_>, _: usize) -> bool {
        match *self {}
    }

    pub(super) fn discard(&mut self, _: &mut Context<'_>) -> bool {
        match *self {}
    }
}
