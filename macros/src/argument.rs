//! The syntax of the arguments: `name = value`, a name alone, and `all(lock(…), …)`.

use proc_macro2::Span;
use syn::{
    Error, Expr, Ident, Result, Token,
    ext::IdentExt,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
};

/// The most locks that one call can take.
const MOST: usize = 64;

const EXAMPLE: &str =
    "write `all(lock(key = \"account:{from}\"), lock(key = \"transfers\", permits = 8))`";

/// `name = value`, `reentrant` alone, or `all(…)`. Not checked yet.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) value: Value,
}

pub(crate) enum Value {
    Expr(Expr),
    /// A name stands alone.
    None,
    Locks(Vec<LockArguments>),
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if !input.peek(Ident::peek_any) {
            return Err(input.error("an argument is `name = value`, such as `key = \"report\"`"));
        }
        let name = input.call(Ident::parse_any)?;
        if name == "all" {
            let value = Value::Locks(locks(&name, input)?);
            return Ok(Self { name, value });
        }
        let equals: Option<Token![=]> = input.parse()?;
        if name == "reentrant" {
            return match equals {
                None => Ok(Self { name, value: Value::None }),
                Some(_) => Err(Error::new(name.span(), "`reentrant` has no value: write it alone")),
            };
        }
        if equals.is_none() || input.is_empty() || input.peek(Token![,]) {
            let text = format!("`{name}` needs a value: write `{name} = ...`");
            return Err(Error::new(name.span(), text));
        }
        Ok(Self { name, value: Value::Expr(input.parse()?) })
    }
}

/// `lock(key = …, …)`. Not checked yet.
pub(crate) struct LockArguments {
    pub(crate) at: Span,
    pub(crate) arguments: Punctuated<Argument, Token![,]>,
}

impl Parse for LockArguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let is_lock = input.peek(Ident::peek_any) && input.peek2(syn::token::Paren);
        let at = input.span();
        if !is_lock || input.call(Ident::parse_any)? != "lock" {
            return Err(Error::new(at, format!("`all` takes locks: {EXAMPLE}")));
        }
        let inside;
        syn::parenthesized!(inside in input);
        Ok(Self { at, arguments: Punctuated::parse_terminated(&inside)? })
    }
}

/// The locks in the parentheses after `all`.
fn locks(name: &Ident, input: ParseStream<'_>) -> Result<Vec<LockArguments>> {
    if !input.peek(syn::token::Paren) {
        return Err(Error::new(
            name.span(),
            format!("`all` has its locks in parentheses: {EXAMPLE}"),
        ));
    }
    let inside;
    syn::parenthesized!(inside in input);
    let locks = Punctuated::<LockArguments, Token![,]>::parse_terminated(&inside)?;
    if !(1..=MOST).contains(&locks.len()) {
        let text = format!("`all` takes 1 to {MOST} locks, not {}: {EXAMPLE}", locks.len());
        return Err(Error::new(name.span(), text));
    }
    Ok(locks.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use crate::args::{SetKind, Target};
    use crate::parser::tests::{mistakes, parse};

    fn kinds(args: &str) -> Vec<String> {
        let Target::Set(locks) = parse(args).unwrap().target else { panic!("no set: {args}") };
        let kind = |kind| match kind {
            SetKind::Mutex => "mutex".to_owned(),
            SetKind::Permit { permits, weight } => format!("{weight} of {permits}"),
            SetKind::Read => "read".to_owned(),
            SetKind::Write => "write".to_owned(),
            SetKind::Rate { weight, .. } => format!("{weight} of a rate"),
        };
        locks.into_iter().map(|lock| kind(lock.kind)).collect()
    }

    #[test]
    fn each_lock_has_its_kind() {
        let args = r#"all(lock(key = "a"), lock(key = name(id), permits = 4,), lock(weight = w,
                      key = "c", permits = MOST), lock(key = "d", mode = "read"),
                      lock(key = "e", mode = "write")), ttl = "5s""#;
        assert_eq!(kinds(args), ["mutex", "1 of 4", "w of MOST", "read", "write"]);
        assert_eq!(kinds(r#"all(lock(key = "a"),), lease = leases"#), ["mutex"]);
        let args =
            r#"all(lock(key = "a", rate = "10/s"), lock(key = "b", rate = RATE, weight = w))"#;
        assert_eq!(kinds(args), ["1 of a rate", "w of a rate"]);
        assert_eq!(kinds(r#"key = "a", rate = "10/s", wait = "1s""#), ["1 of a rate"]);
        assert_eq!(kinds(r#"weight = 3, key = "a", rate = RATE"#), ["3 of a rate"]);
    }

    #[test]
    fn a_lock_has_no_options_of_the_call() {
        let none = "is no argument of one lock of a set, which are `key`, `permits`, `weight`, `mode` and `rate`: ";
        for (option, advice) in [
            ("ttl = \"1s\"", "write it beside `all(...)`, for all of them"),
            ("wait = WAIT", "write it beside `all(...)`, for all of them"),
            (
                "linger = \"1s\"",
                "`linger` can't be combined with `all`: only a function with one lock has it",
            ),
            (
                "reentrant",
                "`reentrant` can't be combined with `all`: only a function with one lock has it",
            ),
        ] {
            let name = option.split(' ').next().unwrap();
            let told = mistakes(&format!("all(lock(key = \"a\", {option}))"));
            assert_eq!(told, [format!("`{name}` {none}{advice}")]);
        }
        let told = mistakes("all(lock(kay = \"a\"))");
        let there_are = "(the arguments are `key`, `permits`, `weight`, `mode`, `rate`)";
        assert_eq!(told, [format!("unknown argument `kay`: did you mean `key`? {there_are}")]);
    }

    #[test]
    fn what_means_one_lock_does_not_go_with_a_set() {
        for option in [
            "key = \"b\"",
            "permits = 2",
            "weight = 2",
            "offset = \"1s\"",
            "mode = \"read\"",
            "rate = \"1/s\"",
            "once = \"1h\"",
            "once_per = \"1h\"",
            "hold_at_least = \"1s\"",
            "linger = \"1s\"",
            "reentrant",
        ] {
            let name = option.split(' ').next().unwrap();
            let told = mistakes(&format!("{option}, all(lock(key = \"a\"))"));
            assert!(
                told[0].starts_with(&format!("`all` can't be combined with `{name}`: ")),
                "{told:?}"
            );
        }
    }

    #[test]
    fn mistakes_in_a_set_are_explained() {
        for wrong in ["all = x", "all", "all[lock(key = \"a\")]"] {
            assert!(
                mistakes(wrong)[0].starts_with("`all` has its locks in parentheses: write "),
                "{wrong}"
            );
        }
        for wrong in ["all(\"a\")", "all(key = \"a\")", "all(mutex(key = \"a\"))", "all(lock = x)"]
        {
            assert!(mistakes(wrong)[0].starts_with("`all` takes locks: write "), "{wrong}");
        }
        assert!(mistakes("all()")[0].starts_with("`all` takes 1 to 64 locks, not 0: "));
        let told = mistakes(
            "all(lock(permits = 3), lock(key = \"\"), lock(key = \"a\", permits = 2, mode = \"read\"))",
        );
        assert!(told[0].starts_with("each lock needs a name"), "{told:?}");
        assert!(told[1].starts_with("the key is empty"), "{told:?}");
        assert!(told[2].starts_with("`permits` can't be combined with `mode`"), "{told:?}");
        assert_eq!(told.len(), 3);
        for option in ["lease = leases", "ttl = \"1s\"", "on_lost = \"finish\""] {
            let told = mistakes(&format!("all(lock(key = \"a\", rate = \"1/s\")), {option}"));
            let name = option.split(' ').next().unwrap();
            assert!(told[0].starts_with(&format!("`{name}` needs a lock: ")), "{told:?}");
        }
        let told = mistakes("all(lock(key = \"a\")), all(lock(key = \"b\"))");
        assert_eq!(told, ["`all` is given twice"]);
        let told = mistakes("all(lock(key = \"a\", weight = 3))");
        assert!(told[0].starts_with("`weight` is how many of a semaphore's permits"), "{told:?}");
        let told = mistakes("all(lock(key = \"a\", permits = 2, weight = 3))");
        assert!(told[0].starts_with("`weight = 3` is more than `permits = 2`"), "{told:?}");
    }
}
