//! The arguments of the attribute, read and checked.

use proc_macro2::{Ident, TokenStream};
use syn::Path;

use crate::{
    rate::Rate,
    values::{IfHeld, Key},
};

pub(crate) struct Args {
    pub(crate) target: Target,
    pub(crate) if_held: IfHeld,
    /// The name of the lease's handle inside the body.
    pub(crate) lease: Option<Ident>,
    /// Which results count as done, if not all but errors.
    pub(crate) success: Option<TokenStream>,
    /// The options of the call, in the order they were written.
    pub(crate) options: Vec<CallOption>,
    /// The path of the runtime crate.
    pub(crate) runtime: Path,
}

/// What a call acquires.
pub(crate) enum Target {
    One(Key),
    Set(Vec<SetLock>),
}

/// One lock of `all(…)`, or a rate.
pub(crate) struct SetLock {
    pub(crate) key: Key,
    pub(crate) kind: SetKind,
}

/// The kind of lock, with the numbers of a permit; or a rate.
pub(crate) enum SetKind {
    Mutex,
    Permit { permits: TokenStream, weight: TokenStream },
    Read,
    Write,
    Rate { rate: Rate, weight: TokenStream },
}

/// A call of a builder's method: `ttl = x` becomes `.ttl(x)`. `mode` and `on_lost` become
/// the method of their word, without a value, and so does `reentrant`.
pub(crate) struct CallOption {
    pub(crate) name: Ident,
    pub(crate) value: TokenStream,
}
