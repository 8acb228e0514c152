//! Reads the arguments between the attribute's parentheses, and reports all mistakes in
//! them at once.

#[cfg(test)]
pub(crate) mod tests;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Error, Path, Result, Token, parse::Parser, parse_quote, punctuated::Punctuated};

use crate::{
    args::{Args, CallOption, SetKind, SetLock, Target},
    argument::{Argument, LockArguments, Value},
    contradictions::{NO_LEASE, contradictions, excluded_by_all, needs_lease},
    duration,
    rate::{self, Rate},
    schedule,
    values::{self, IfHeld, Key},
};

/// The arguments offered to users. `crate` is missing: only crates that re-export this one
/// need it.
const NAMES: [&str; 25] = [
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
    success: Option<TokenStream>,
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
            "success" => {
                self.success = Some(values::success(value)?);
                return Ok(());
            }
            "crate" => return values::path(&value).map(|path| self.runtime = Some(path)),
            "mode" => (values::mode(&value)?, TokenStream::new()),
            "on_lost" => match values::on_lost(&value)? {
                Some(method) => (method, TokenStream::new()),
                None => return Ok(()),
            },
            "owner" | "note" => (name, value.into_token_stream()),
            "schedule" => (name, schedule::read(&value)?),
            "auto_renew" => (name, values::auto_renew(value)?),
            "replace" => (name, values::replace(value)?),
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
            (Some(set), _) => {
                let is_rate = |lock: &SetLock| matches!(lock.kind, SetKind::Rate { .. });
                let is_of_leases = |name: &&Ident| needs_lease(name);
                if set.iter().all(is_rate)
                    && let Some(name) = self.seen.iter().find(is_of_leases)
                {
                    let text =
                        format!("`{name}` needs a lock: `all` has rates alone, and {NO_LEASE}");
                    return Err(Error::new(name.span(), text));
                }
                Target::Set(set)
            }
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
            success: self.success,
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
