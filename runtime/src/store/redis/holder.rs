//! How a request is named in what a server stores.

use std::borrow::Cow;

use crate::store::{Kind, Owner, Request};

/// A request's name among the holders of its lock: its id, then how it holds, which also tells
/// the kinds apart once the record is gone. A mutex has one holder, so the id will do.
pub(super) fn holder(request: &Request) -> Cow<'_, [u8]> {
    let mut how = match request.kind {
        Kind::Mutex | Kind::Once(_) => return Cow::Borrowed(request.id.as_bytes()),
        Kind::Semaphore { weight, .. } if weight > 1 => format!(":{weight}"),
        Kind::Semaphore { .. } if request.owner.is_none() && request.note.is_none() => {
            return Cow::Borrowed(request.id.as_bytes());
        }
        Kind::Semaphore { .. } => String::new(),
        Kind::Reentrant => "e".to_owned(),
        Kind::Read => "r".to_owned(),
        Kind::Write => "w".to_owned(),
    };
    how += &suffix(request);
    Cow::Owned([request.id.as_bytes(), how.as_bytes()].concat())
}

/// A request as it asks: what will be stored of it, which is more than its name if that is an id alone.
pub(super) fn asker(request: &Request) -> Cow<'_, [u8]> {
    match request.kind {
        Kind::Mutex | Kind::Once(_) if request.owner.is_some() || request.note.is_some() => {
            Cow::Owned([request.id.as_bytes(), suffix(request).as_bytes()].concat())
        }
        _ => holder(request),
    }
}

/// The owner and the note at the end of a holder's name. Neither has a line's end in it.
pub(super) fn suffix(request: &Request) -> String {
    let mut suffix = owner_suffix(request.owner.as_ref());
    if let Some(note) = &request.note {
        suffix.push('\n');
        suffix.push_str(note.text());
    }
    suffix
}

/// The owner at the end of a holder's name.
pub(super) fn owner_suffix(owner: Option<&Owner>) -> String {
    owner.map(|owner| format!("@{}", owner.name())).unwrap_or_default()
}
