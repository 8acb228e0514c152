//! Values that can stand in a key.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::{
    NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroI128, NonZeroIsize, NonZeroU8,
    NonZeroU16, NonZeroU32, NonZeroU64, NonZeroU128, NonZeroUsize,
};
use std::rc::Rc;
use std::sync::Arc;

use uuid::Uuid;

/// A value that can stand in a key template, as in `"invoice:{invoice_id}"`.
///
/// Integers (`NonZero…` too), strings, `bool`, `char`, `Uuid`, IP addresses, and references to
/// them (`Box`, `Rc` and `Arc` too) can. Floats can't,
/// because their text is not unique. `Option` can't, because its `None` would be one lock
/// for many values. For a newtype of your own, use `#[derive(KeyPart)]` (feature `macros`).
/// For any other type, write what identifies it.
///
/// # Examples
///
/// ```
/// use leasehold::{KeyPart, KeyTemplate};
///
/// struct Account { bank: u32, number: u64 }
///
/// impl KeyPart for Account {
///     fn write_part(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
///         write!(out, "{}-{}", self.bank, self.number)
///     }
/// }
/// let key = KeyTemplate::new().text("account:").part("it", &Account { bank: 7, number: 42 });
/// assert_eq!(key.finish()?.name(), "account:7-42");
/// # Ok::<(), leasehold::LockError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a lock's key",
    label = "not a key part",
    note = "integers, strings, `bool`, `char`, `Uuid` and `IpAddr` can, and a newtype of yours with `#[derive(leasehold::KeyPart)]`",
    note = "of another value use a field that identifies it, such as `{{order.id}}`, or a text of it: in an attribute, `key = {{ let day = day.to_string(); lock_key!(\"report:{{day}}\") }}`",
    note = "an `Option` can't, since its `None` would be one lock for many: take the value out of it before, and decide what is locked without one"
)]
pub trait KeyPart {
    /// Writes what identifies the value. The template escapes it afterwards.
    ///
    /// # Errors
    ///
    /// [`fmt::Error`] if `out` fails.
    fn write_part(&self, out: &mut dyn fmt::Write) -> fmt::Result;
}

macro_rules! key_part {
    ($($value:ty),*) => {$(
        impl KeyPart for $value {
            fn write_part(&self, out: &mut dyn fmt::Write) -> fmt::Result {
                write!(out, "{self}")
            }
        }
    )*};
}
key_part!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);
key_part!(bool, char, str, String, Uuid);
key_part!(NonZeroU8, NonZeroU16, NonZeroU32, NonZeroU64, NonZeroU128, NonZeroUsize);
key_part!(NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroI128, NonZeroIsize);
// Each has one text, whatever text it was read from.
key_part!(IpAddr, Ipv4Addr, Ipv6Addr);

macro_rules! key_part_by_reference {
    ($($pointer:ty),*) => {$(
        impl<T: KeyPart + ?Sized> KeyPart for $pointer {
            fn write_part(&self, out: &mut dyn fmt::Write) -> fmt::Result {
                (**self).write_part(out)
            }
        }
    )*};
}
key_part_by_reference!(&T, &mut T, Box<T>, Arc<T>, Rc<T>);

impl KeyPart for Cow<'_, str> {
    fn write_part(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        (**self).write_part(out)
    }
}
