//! The macros of [`leasehold`], which re-exports them: depend on that crate, not on this
//! one.
//!
//! [`leasehold`]: https://docs.rs/leasehold

use proc_macro::TokenStream;

mod args;
mod argument;
mod contradictions;
mod duration;
mod expand;
mod fenceless;
mod function;
#[cfg(test)]
mod hostile;
mod key_part;
mod lock_key;
mod option_rules;
mod parser;
mod rate;
mod schedule;
mod schedule_rules;
mod signature;
mod template;
mod values;

#[doc = include_str!("distributed_lock.md")]
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::distributed_lock(args.into(), &item.into()).into()
}

#[doc = include_str!("lock_key.md")]
#[proc_macro]
pub fn lock_key(template: TokenStream) -> TokenStream {
    lock_key::lock_key(template.into()).into()
}

#[doc = include_str!("key_part.md")]
#[proc_macro_derive(KeyPart)]
pub fn derive_key_part(item: TokenStream) -> TokenStream {
    key_part::derive(item.into()).into()
}
