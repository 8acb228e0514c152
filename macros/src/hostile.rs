//! Arguments and functions that make no sense.

use proc_macro2::TokenStream;
use proptest::prelude::*;
use quote::quote;

use crate::{expand, key_part, lock_key};

/// Words of which arguments consist, and others.
const WORDS: [&str; 49] = [
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
    "schedule",
    "success",
    "hold_at_least",
    "max_hold",
    "linger",
    "replace",
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

/// Arguments that are valid alone. Most pairs of them are valid too.
const VALID: [&str; 26] = [
    "ttl = \"10s\"",
    "ttl = TTL",
    "wait = \"1m 5s\"",
    "wait = crate::Wait::Forever",
    "permits = 3",
    "permits = self.permits()",
    "weight = 2",
    "weight = a as u32",
    "mode = \"read\"",
    "mode = \"write\"",
    "if_held = \"skip\"",
    "if_held = \"error\"",
    "once = \"5m\"",
    "once_per = \"1h\"",
    "offset = \"90s\"",
    "hold_at_least = \"1s\"",
    "max_hold = \"1h\"",
    "linger = \"20ms\"",
    "owner = &self.name",
    "note = format!(\"{a}\")",
    "auto_renew = false",
    "on_lost = \"finish\"",
    "reentrant",
    "lease = lease",
    "locks = self.locks",
    "crate = a::b",
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

/// Templates of keys, and what looks like them.
fn template() -> impl Strategy<Value = String> {
    let with_meaning = [
        "{",
        "}",
        "{{",
        "}}",
        "{a}",
        "{b}",
        "{self.a}",
        "{c}",
        "{r#a}",
        "{type}",
        "{a.",
        "a",
        ".",
        "0",
        "4294967295",
        "4294967296",
        "_",
        "self",
        "crate",
        ":",
        ":?",
        "%",
        "-",
        " ",
        "\\",
        "\"",
        "²",
        "é",
    ];
    let piece = prop_oneof![
        3 => prop::sample::select(with_meaning.to_vec()).prop_map(str::to_owned),
        1 => ("[a-c]|self", "[0-9]{1,11}|[a-z]{1,5}")
            .prop_map(|(root, field)| format!("{{{root}.{field}}}")),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

/// Durations, and what looks like them.
fn duration() -> impl Strategy<Value = String> {
    let unit = prop::sample::select(vec!["", "ns", "ms", "s", "m", "h", "days", "y", "µs", "x"]);
    let number = prop_oneof![
        4 => (0_u64..1000).prop_map(|number| number.to_string()),
        1 => any::<u64>().prop_map(|number| number.to_string()),
        1 => "[0-9]{0,3}[.][0-9]{0,3}",
    ];
    let part = (number, unit).prop_map(|(number, unit)| format!("{number}{unit}"));
    prop::collection::vec(part, 0..3).prop_map(|parts| parts.join(" "))
}

/// Arguments of which most are valid, so that what is behind the first check is reached.
fn nearly_valid() -> impl Strategy<Value = String> {
    let durations = prop::sample::select(vec!["ttl", "wait", "once", "offset", "linger"]);
    let other = prop_oneof![
        6 => prop::sample::select(VALID.to_vec()).prop_map(str::to_owned),
        2 => (durations, duration()).prop_map(|(name, value)| format!("{name} = {value:?}")),
        1 => words(),
    ];
    let key = prop_oneof![
        2 => Just("a:{b}".to_owned()),
        1 => template(),
    ];
    (key, prop::collection::vec(other, 0..4)).prop_map(|(key, others)| {
        let all: Vec<_> = [format!("key = {key:?}")].into_iter().chain(others).collect();
        all.join(", ")
    })
}

fn args() -> impl Strategy<Value = String> {
    prop_oneof![words(), nearly_valid()]
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
    fn no_arguments_make_the_attribute_panic(args in args(), item in item()) {
        let (Some(args), Some(item)) = (tokens(&args), tokens(&item)) else { return Ok(()) };
        prop_assert!(!expand::distributed_lock(args, &item).is_empty());
    }

    /// On a function that could be locked, it gives items that can be parsed.
    #[test]
    fn what_the_attribute_gives_is_rust(args in args()) {
        let Some(args) = tokens(&args) else { return Ok(()) };
        let item = quote!(async fn f(&self, a: u64, b: u64) -> Result<(), E> { Ok(()) });
        let given = expand::distributed_lock(args, &item);
        let inside = quote!(impl A { #given });
        let is_error = given.to_string().contains("compile_error");
        prop_assert!(is_error || syn::parse2::<syn::File>(inside).is_ok(), "{}", given);
    }

    #[test]
    fn no_template_makes_lock_key_panic(
        text in words(),
        template in template(),
        name in any::<String>(),
    ) {
        if let Some(tokens) = tokens(&text) {
            prop_assert!(!lock_key::lock_key(tokens).is_empty());
        }
        for template in [template, name] {
            prop_assert!(!lock_key::lock_key(quote!(#template)).is_empty());
        }
    }

    #[test]
    fn no_item_makes_the_derive_panic(item in item()) {
        if let Some(item) = tokens(&item) {
            prop_assert!(!key_part::derive(item).is_empty());
        }
    }
}
