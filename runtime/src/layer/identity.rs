//! Who a request is, for those who inspect its lock.

use std::sync::Arc;

use http::request::Parts;

/// The function that reads a name or a note from a request.
pub(super) type FromParts = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// What a request says of itself.
#[derive(Clone, Default)]
pub(super) struct Identity {
    pub(super) owner: Option<String>,
    pub(super) note: Option<String>,
}

/// How a request says it. `None` is nothing for each request.
#[derive(Clone, Default)]
pub(super) struct Identify {
    pub(super) owner: Option<FromParts>,
    pub(super) note: Option<FromParts>,
}

impl Identify {
    pub(super) fn read(&self, parts: &Parts) -> Identity {
        let say = |what: &Option<FromParts>| what.as_ref().and_then(|what| what(parts));
        Identity { owner: say(&self.owner), note: say(&self.note) }
    }
}
