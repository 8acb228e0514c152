//! Reads the arguments between the attribute's parentheses, and reports all mistakes in
//! them at once.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Error, Path, Result, Token, parse::Parser, parse_quote, punctuated::Punctuated};

use crate::{
    args::{Args, CallOption, SetKind, SetLock, Target},
    argument::{Argument, LockArguments, Value},
    contradictions::{contradictions, excluded_by_all},
    duration,
    rate::{self, Rate},
    values::{self, IfHeld, Key},
};

/// The arguments offered to users. `crate` is missing: only crates that re-export this one
/// need it.
const NAMES: [&str; 22] = [
    "key",
    "ttl",
    "wait",
    "permits",
    "weight",
    "mode",
    "rate",
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
    "all",
];

/// Those of one lock in `all(…)`. The others stand beside it.
const OF_A_LOCK: &[&str] = &["key", "permits", "weight", "mode", "rate"];

pub(crate) fn parse(tokens: TokenStream) -> Result<Args> {
    let arguments = Punctuated::parse_terminated.parse2(tokens)?;
    let mut reader = Reader::default();
    reader.read_all(arguments, None)?;
    reader.finish()
}

/// Collects the arguments one by one.
#[derive(Default)]
struct Reader {
    seen: Vec<Ident>,
    key: Option<Key>,
    rate: Option<Rate>,
    set: Option<Vec<SetLock>>,
    if_held: Option<IfHeld>,
    lease: Option<Ident>,
    options: Vec<CallOption>,
    runtime: Option<Path>,
}

impl Reader {
    /// Reads all arguments, of the call or of one lock of a set, and reports every mistake.
    fn read_all(
        &mut self,
        arguments: Punctuated<Argument, Token![,]>,
        of_a_lock: Option<&[&str]>,
    ) -> Result<()> {
        let mut errors = Vec::new();
        for argument in arguments {
            errors.extend(self.read(argument, of_a_lock).err());
        }
        errors.extend(contradictions(&self.seen, &self.options));
        combined(errors).map_or(Ok(()), Err)
    }

    fn read(
        &mut self,
        Argument { name, value }: Argument,
        of_a_lock: Option<&[&str]>,
    ) -> Result<()> {
        let is_for_all = of_a_lock.is_some_and(|words| !words.iter().any(|word| name == word));
        if is_for_all && NAMES.iter().chain(&["crate"]).any(|known| name == known) {
            return Err(Error::new(name.span(), beside_all(&name)));
        }
        if self.seen.contains(&name) {
            return Err(Error::new(name.span(), format!("`{name}` is given twice")));
        }
        self.seen.push(name.clone());
        let value = match value {
            Value::Expr(value) => values::ungrouped(value),
            Value::None => {
                self.options.push(CallOption { name, value: TokenStream::new() });
                return Ok(());
            }
            Value::Locks(locks) => return read_locks(locks).map(|set| self.set = Some(set)),
        };
        let (name, value) = match name.to_string().as_str() {
            "key" => return values::key(value).map(|key| self.key = Some(key)),
            "rate" => return rate::read(&value).map(|rate| self.rate = Some(rate)),
            "if_held" => return values::if_held(&value).map(|what| self.if_held = Some(what)),
            "lease" => return values::lease(&value).map(|name| self.lease = Some(name)),
            "crate" => return values::path(&value).map(|path| self.runtime = Some(path)),
            "mode" => (values::mode(&value)?, TokenStream::new()),
            "on_lost" => match values::on_lost(&value)? {
                Some(method) => (method, TokenStream::new()),
                None => return Ok(()),
            },
            "owner" | "note" => (name, value.into_token_stream()),
            "auto_renew" => (name, values::auto_renew(value)?),
            "permits" => (name, values::permits(value)?),
            "weight" => (name, values::weight(value)?),
            "locks" => {
                let site = Span::mixed_site().located_at(name.span());
                (name, quote_spanned!(site=> &(#value)))
            }
            other if duration::is_option(other) => {
                let value = duration::read(other, &value)?;
                (name, value)
            }
            other => {
                let known = of_a_lock.unwrap_or(&NAMES);
                return Err(Error::new(name.span(), unknown(other, known)));
            }
        };
        self.options.push(CallOption { name, value });
        Ok(())
    }

    fn finish(mut self) -> Result<Args> {
        // Not every client has semaphores. The method `counting` lets rustc report one that
        // has none.
        let has_permits = self.options.iter().any(|option| option.name == "permits");
        let counts = has_permits || self.set.is_some() || self.rate.is_some();
        for option in self.options.iter_mut().filter(|option| counts && option.name == "locks") {
            option.name = Ident::new("counting", option.name.span());
        }
        let missing = || {
            let text =
                "the lock needs a name: add `key = \"...\"`, such as `key = \"invoice:{id}\"`";
            Error::new(Span::call_site(), text)
        };
        let target = match (self.set, self.rate) {
            (Some(set), _) => Target::Set(set),
            (None, Some(rate)) => {
                let weight = self.options.iter().position(|option| option.name == "weight");
                let weight = weight.map_or(quote!(1), |at| self.options.remove(at).value);
                let kind = SetKind::Rate { rate, weight };
                Target::Set(vec![SetLock { key: self.key.ok_or_else(missing)?, kind }])
            }
            (None, None) => Target::One(self.key.ok_or_else(missing)?),
        };
        Ok(Args {
            target,
            if_held: self.if_held.unwrap_or(IfHeld::Error),
            lease: self.lease,
            options: self.options,
            runtime: self.runtime.unwrap_or_else(|| parse_quote!(::leasehold)),
        })
    }
}

/// Checks the arguments of each lock.
fn read_locks(locks: Vec<LockArguments>) -> Result<Vec<SetLock>> {
    let (mut read, mut errors) = (Vec::new(), Vec::new());
    for lock in locks {
        match read_lock(lock) {
            Ok(lock) => read.push(lock),
            Err(error) => errors.push(error),
        }
    }
    combined(errors).map_or(Ok(read), Err)
}

fn read_lock(LockArguments { at, arguments }: LockArguments) -> Result<SetLock> {
    let mut reader = Reader::default();
    reader.read_all(arguments, Some(OF_A_LOCK))?;
    let Some(key) = reader.key else {
        return Err(Error::new(at, "each lock needs a name: write `lock(key = \"...\")`"));
    };
    let mut kind = SetKind::Mutex;
    let mut one = quote!(1);
    for option in reader.options {
        match option.name.to_string().as_str() {
            "permits" => kind = SetKind::Permit { permits: option.value, weight: quote!() },
            "weight" => one = option.value,
            "read" => kind = SetKind::Read,
            _ => kind = SetKind::Write,
        }
    }
    match (&mut kind, reader.rate) {
        (SetKind::Permit { weight, .. }, _) => *weight = one,
        (_, Some(rate)) => kind = SetKind::Rate { rate, weight: one },
        _ => {}
    }
    Ok(SetLock { key, kind })
}

/// All mistakes as one.
fn combined(mistakes: Vec<Error>) -> Option<Error> {
    mistakes.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    })
}

fn beside_all(name: &Ident) -> String {
    let advice = match excluded_by_all(name) {
        Some(why) => format!("`{name}` can't be combined with `all`: {why}"),
        None => "write it beside `all(...)`, for all of them".to_owned(),
    };
    format!(
        "`{name}` is no argument of one lock of a set, which are `key`, `permits`, `weight`, `mode` and \
         `rate`: \
         {advice}"
    )
}

fn unknown(name: &str, known: &[&str]) -> String {
    let there_are = format!("the arguments are `{}`", known.join("`, `"));
    let distance = |known: &&str| strsim::damerau_levenshtein(name, known);
    let near = known.iter().copied().min_by_key(distance);
    match near.filter(|known| distance(known) <= known.len().max(3) / 3) {
        Some(near) => {
            format!("unknown argument `{name}`: did you mean `{near}`? ({there_are})")
        }
        None => format!("unknown argument `{name}`: {there_are}"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
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
        assert_eq!(told[3], "`if_held` must be \"error\" or \"skip\"");
    }

    #[test]
    fn unknown_names_are_answered_with_known_ones() {
        let known = "the arguments are `key`, `ttl`, `wait`, `permits`, `weight`, `mode`, `rate`, \
                     `if_held`, `once`, `once_per`, `offset`, `hold_at_least`, `max_hold`, `linger`, `owner`, `note`, `auto_renew`, `on_lost`, `reentrant`, `lease`, `locks`, `all`";
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
}
