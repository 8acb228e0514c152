//! How long a request holds its lock, and what a loss does to it.

/// Until when a request holds its lock: [`LockLayer::hold_until`](super::LockLayer::hold_until).
///
/// # Examples
///
/// ```
/// use leasehold::layer::HoldUntil;
///
/// assert_eq!(HoldUntil::default(), HoldUntil::BodyEnd);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldUntil {
    /// Until the response's body has ended or was dropped: the default. If the connection is
    /// upgraded, until the handler's [`LeaseHandle`](crate::LeaseHandle) and all its clones are
    /// dropped.
    #[default]
    BodyEnd,
    /// Until the inner service has made the response's head. An upgraded connection goes on
    /// without the lock, and nothing warns of it.
    Head,
}

/// What the loss of its lock does to a request: [`LockLayer::on_lost`](super::LockLayer::on_lost).
///
/// # Examples
///
/// ```
/// use leasehold::layer::OnLost;
///
/// assert_eq!(OnLost::default(), OnLost::Cancel);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLost {
    /// The handler is dropped, and the response is 503: the default.
    #[default]
    Cancel,
    /// The handler goes on without the lock, and its response is sent.
    Finish,
}
