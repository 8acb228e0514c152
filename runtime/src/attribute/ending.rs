//! What becomes of a body whose lease is lost.

/// The fate of the body when its lease is lost.
#[derive(Clone, Copy, Debug)]
pub(super) enum OnLost {
    Cancel,
    Finish,
}
