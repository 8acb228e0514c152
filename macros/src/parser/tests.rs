use quote::ToTokens;

use super::*;

pub(crate) fn parse(args: &str) -> Result<Args> {
    super::parse(args.parse().unwrap())
}

/// The messages for wrong arguments.
pub(crate) fn mistakes(args: &str) -> Vec<String> {
    let error = parse(args).err().expect("a mistake");
    error.into_iter().map(|error| error.to_string()).collect()
}

fn options(args: &Args) -> Vec<String> {
    args.options.iter().map(|option| format!("{} {}", option.name, option.value)).collect()
}

#[test]
fn options_keep_their_order_and_values() {
    let args = parse(r#"wait = WAIT, key = "a", permits = 2, locks = self.locks,"#).unwrap();
    assert_eq!(options(&args), ["wait WAIT", "permits 2", "counting & (self . locks)"]);
    assert!(matches!(args.target, Target::One(Key::Template(_))));
    assert_eq!(args.if_held, IfHeld::Error);
    assert_eq!(args.runtime.to_token_stream().to_string(), ":: leasehold");
}

#[test]
fn a_mode_is_the_method_of_its_word() {
    for mode in ["read", "write"] {
        let args = parse(&format!("key = \"a\", mode = \"{mode}\", wait = WAIT")).unwrap();
        assert_eq!(options(&args), [&format!("{mode} "), "wait WAIT"]);
    }
}

#[test]
fn on_lost_is_the_method_of_its_word() {
    let args = parse("key = \"a\", on_lost = \"finish\", auto_renew = false").unwrap();
    assert_eq!(options(&args), ["let_finish ", "auto_renew false"]);
    let args = parse("key = \"a\", on_lost = \"cancel\"").unwrap();
    assert!(options(&args).is_empty(), "it is the default");
    let told = mistakes("key = \"a\", on_lost = \"cancel\", on_lost = \"finish\"");
    assert_eq!(told, ["`on_lost` is given twice"]);
}

#[test]
fn reentrant_is_a_word_alone() {
    for args in ["key = \"a\", reentrant", "reentrant, key = \"a\","] {
        assert_eq!(options(&parse(args).unwrap()), ["reentrant "], "{args}");
    }
    for args in ["reentrant = true", "reentrant ="] {
        let told = mistakes(&format!("key = \"a\", {args}"));
        assert_eq!(told, ["`reentrant` has no value: write it alone"], "{args}");
    }
    assert_eq!(mistakes("key = \"a\", reentrant, reentrant"), ["`reentrant` is given twice"]);
}

#[test]
fn an_owner_is_any_expression() {
    let args = parse("key = \"a\", owner = worker.name()").unwrap();
    assert_eq!(options(&args), ["owner worker . name ()"]);
}

#[test]
fn other_arguments_are_read() {
    let args = parse(r#"key = name(id), if_held = "skip", crate = crate::lock"#).unwrap();
    assert!(matches!(args.target, Target::One(Key::Expr(syn::Expr::Call(_)))));
    assert_eq!(args.if_held, IfHeld::Skip);
    assert_eq!(args.runtime.to_token_stream().to_string(), "crate :: lock");
    assert_eq!(args.lease, None);
    assert_eq!(parse("key = \"a\", lease = held").unwrap().lease.unwrap(), "held");
    assert_eq!(parse(r#"key = "a", if_held = "error""#).unwrap().if_held, IfHeld::Error);
}

#[test]
fn every_mistake_is_reported() {
    let told = mistakes(r#"key = "", ttl = "1s", ttl = "2s", permits = 0, if_held = skip"#);
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[0].starts_with("the key is empty"));
    assert_eq!(told[1], "`ttl` is given twice");
    assert!(told[2].starts_with("`permits` is the number of holders"));
    assert!(told[3].starts_with("`if_held` must be \"error\" or \"skip\""));
}

#[test]
fn unknown_names_are_answered_with_known_ones() {
    let known = "the arguments are `key`, `ttl`, `wait`, `permits`, `weight`, `mode`, `rate`, \
                 `if_held`, `once`, `once_per`, `offset`, `schedule`, `success`, `hold_at_least`, `max_hold`, `linger`, `replace`, `owner`, `note`, `auto_renew`, `on_lost`, `reentrant`, `lease`, `locks`, `all`";
    for unknown in ["retries", "name", "crat"] {
        let told = mistakes(&format!("key = \"a\", {unknown} = 1"));
        assert_eq!(told, [format!("unknown argument `{unknown}`: {known}")]);
    }
    for (name, near) in [
        ("tll", "ttl"),
        ("holdatleast", "hold_at_least"),
        ("lock", "locks"),
        ("weigth", "weight"),
        ("wieght", "weight"),
        ("mod", "mode"),
        ("modes", "mode"),
        ("maxhold", "max_hold"),
        ("max_holds", "max_hold"),
        ("auto_renews", "auto_renew"),
        ("on_loss", "on_lost"),
        ("reentrent", "reentrant"),
        ("leese", "lease"),
    ] {
        let told = mistakes(&format!("key = \"a\", {name} = 1"));
        let hint = format!("did you mean `{near}`? ({known})");
        assert_eq!(told, [format!("unknown argument `{name}`: {hint}")]);
    }
}

#[test]
fn other_syntax_is_answered_with_an_example() {
    assert!(mistakes("")[0].starts_with("the lock needs a name: add `key = "));
    assert!(mistakes("\"a\"")[0].starts_with("an argument is `name = value`"));
    for valueless in ["key", "key =", "key = , ttl = \"1s\"", "key: \"a\""] {
        assert_eq!(mistakes(valueless), ["`key` needs a value: write `key = ...`"]);
    }
}
