//! Arguments and functions that make no sense.

use proc_macro2::TokenStream;
use proptest::prelude::*;
use quote::quote;

use crate::{expand, key_part, lock_key};

/// Words of which arguments consist, and others.
const WORDS: [&str; 46] = [
    "key",
    "ttl",
    "wait",
    "permits",
    "weight",
    "mode",
    "if_held",
    "once",
    "once_per",
    "offset",
    "hold_at_least",
    "max_hold",
    "linger",
    "owner",
    "note",
    "auto_renew",
    "on_lost",
    "reentrant",
    "lease",
    "locks",
    "crate",
    "=",
    ",",
    "==",
    "\"\"",
    "\"a:{b}\"",
    "\"{a}{b}\"",
    "\"{\"",
    "\"{a:?}\"",
    "\"10s\"",
    "\"1y 2\"",
    "\"99999999999999999999s\"",
    "\"-1s\"",
    "\"∞\"",
    "0",
    "-1",
    "4_000_000_000_000",
    "true",
    "false",
    "'a'",
    "r#type",
    "self.a",
    "(a)",
    "{ return }",
    "|a| a",
    "\"read\"",
];

const ITEMS: [&str; 12] = [
    "fn f() {}",
    "async fn f(b: u64) -> Result<(), E> { Ok(()) }",
    "async fn f(&self, (a, b): (u8, u8), [c, ..]: [u8; 3], _: u8) -> Result<(), E> { Ok(()) }",
    "async unsafe extern \"C\" fn f<const N: usize>() -> impl Send {}",
    "async fn f(b: u64);",
    "const async fn f() -> ! { loop {} }",
    "struct A<'a, T: ?Sized>(&'a T);",
    "enum A {}",
    "union A { a: u8 }",
    "mod a {}",
    "",
    "fn f() -> Pin<Box<dyn Future<Output = Result<(), E>>>> { Box::pin(async move {}) }",
];

/// Tokens from a text; none if it can't be split into tokens.
fn tokens(text: &str) -> Option<TokenStream> {
    text.parse().ok()
}

fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(WORDS.to_vec()).prop_map(str::to_owned);
    let argument = (prop::sample::select(WORDS[..21].to_vec()), word.clone())
        .prop_map(|(name, value)| format!("{name} = {value},"));
    let any = prop_oneof![4 => argument, 2 => word, 1 => "[!-~]{1,4}"];
    prop::collection::vec(any, 0..6).prop_map(|words| words.join(" "))
}

fn item() -> impl Strategy<Value = String> {
    let item = prop::sample::select(ITEMS.to_vec()).prop_map(str::to_owned);
    // Some have lost what was around them.
    let rest = (item.clone(), any::<prop::sample::Index>()).prop_map(|(item, from)| {
        let words: Vec<_> = item.split(' ').collect();
        words[from.index(words.len())..].join(" ")
    });
    prop_oneof![3 => item, 1 => rest, 1 => words()]
}

proptest! {
    /// Whatever is wrong becomes an error of the compiler.
    #[test]
    fn no_arguments_make_the_attribute_panic(args in words(), item in item()) {
        let (Some(args), Some(item)) = (tokens(&args), tokens(&item)) else { return Ok(()) };
        prop_assert!(!expand::distributed_lock(args, &item).is_empty());
    }

    /// On a function that could be locked, it gives items that can be parsed.
    #[test]
    fn what_the_attribute_gives_is_rust(args in words()) {
        let Some(args) = tokens(&args) else { return Ok(()) };
        let item = quote!(async fn f(&self, a: u64, b: u64) -> Result<(), E> { Ok(()) });
        let given = expand::distributed_lock(args, &item);
        let inside = quote!(impl A { #given });
        let is_error = given.to_string().contains("compile_error");
        prop_assert!(is_error || syn::parse2::<syn::File>(inside).is_ok(), "{}", given);
    }

    #[test]
    fn no_template_makes_lock_key_panic(text in words(), name in any::<String>()) {
        if let Some(tokens) = tokens(&text) {
            prop_assert!(!lock_key::lock_key(tokens).is_empty());
        }
        prop_assert!(!lock_key::lock_key(quote!(#name)).is_empty());
    }

    #[test]
    fn no_item_makes_the_derive_panic(item in item()) {
        if let Some(item) = tokens(&item) {
            prop_assert!(!key_part::derive(item).is_empty());
        }
    }
}
