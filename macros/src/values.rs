//! Checks the values of single arguments. `duration` does the same for durations.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::{Error, Expr, ExprLit, ExprPath, ExprUnary, Lit, Path, Result, UnOp, spanned::Spanned};

use crate::template::Template;

/// The name of the lock.
pub(crate) enum Key {
    Template(Template),
    Expr(Expr),
}

/// The reaction when the wait ends and somebody else still holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfHeld {
    Error,
    Skip,
}

/// The value without the invisible group that a `macro_rules` macro puts around it.
pub(crate) fn ungrouped(value: Expr) -> Expr {
    match value {
        Expr::Group(group) => ungrouped(*group.expr),
        value => value,
    }
}

pub(crate) fn key(value: Expr) -> Result<Key> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) => {
            Template::parse(literal).map(Key::Template)
        }
        value => Ok(Key::Expr(value)),
    }
}

pub(crate) fn if_held(value: &Expr) -> Result<IfHeld> {
    match word(value).as_str() {
        "error" => Ok(IfHeld::Error),
        "skip" => Ok(IfHeld::Skip),
        _ => Err(Error::new_spanned(
            value,
            "`if_held` must be \"error\" or \"skip\"; to take the place of an older call, write `replace = true` and a `wait`",
        )),
    }
}

/// The method that lets the body finish when the lease is lost. `None` cancels it, which is
/// the default.
pub(crate) fn on_lost(value: &Expr) -> Result<Option<Ident>> {
    match word(value).as_str() {
        "cancel" => Ok(None),
        "finish" => Ok(Some(Ident::new("let_finish", value.span()))),
        _ => Err(Error::new_spanned(value, "`on_lost` must be \"cancel\" or \"finish\"")),
    }
}

/// The name of the lease's handle inside the body.
pub(crate) fn lease(value: &Expr) -> Result<Ident> {
    if let Expr::Path(ExprPath { attrs, qself: None, path }) = value
        && let Some(name) = path.get_ident()
        && attrs.is_empty()
        && !["self", "Self", "super", "crate"].iter().any(|keyword| name == keyword)
    {
        return Ok(name.clone());
    }
    let text = match syn::parse_str::<Ident>(&word(value)) {
        Ok(name) => format!("`lease` is a name, without quotes: write `lease = {name}`"),
        Err(_) => "`lease` is the name of the lease's handle inside the function, such as \
                   `lease = lease`"
            .to_owned(),
    };
    Err(Error::new_spanned(value, text))
}

/// Reads `auto_renew`: any expression, except a literal that is not a `bool`.
pub(crate) fn auto_renew(value: Expr) -> Result<TokenStream> {
    boolean(
        value,
        "`auto_renew` must be true or false, without quotes: with false, the lease ends after its `ttl`",
    )
}

/// Reads `replace`, in the same way.
pub(crate) fn replace(value: Expr) -> Result<TokenStream> {
    boolean(
        value,
        "`replace` must be true or false, without quotes: with true, a newer call takes the place of an \
         older one",
    )
}

fn boolean(value: Expr, text: &str) -> Result<TokenStream> {
    match &value {
        Expr::Lit(ExprLit { lit: Lit::Bool(_), .. }) => Ok(value.into_token_stream()),
        Expr::Lit(_) => Err(Error::new_spanned(value, text)),
        _ => Ok(value.into_token_stream()),
    }
}

/// The method that makes the caller a reader or a writer.
pub(crate) fn mode(value: &Expr) -> Result<Ident> {
    match word(value).as_str() {
        word @ ("read" | "write") => Ok(Ident::new(word, value.span())),
        _ => Err(Error::new_spanned(value, "`mode` must be \"read\" or \"write\"")),
    }
}

fn word(value: &Expr) -> String {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(word), .. }) => word.value(),
        _ => String::new(),
    }
}

pub(crate) fn permits(value: Expr) -> Result<TokenStream> {
    counted(
        value,
        "`permits` is the number of holders allowed at once: a whole number from 1, such as 4",
    )
}

pub(crate) fn weight(value: Expr) -> Result<TokenStream> {
    let text =
        "`weight` is the number of `permits` that a call takes: a whole number from 1, such as 2";
    counted(value, text)
}

fn counted(value: Expr, otherwise: &str) -> Result<TokenStream> {
    let count = match &value {
        Expr::Lit(ExprLit { lit: Lit::Int(count), .. }) => count.base10_parse().unwrap_or(0),
        Expr::Lit(_) | Expr::Unary(ExprUnary { op: UnOp::Neg(_), .. }) => 0,
        _ => 1,
    };
    match count {
        0_u32 => Err(Error::new_spanned(value, otherwise)),
        _ => Ok(value.into_token_stream()),
    }
}

/// Which results are successes: a function of a reference to the result.
pub(crate) fn success(value: Expr) -> Result<TokenStream> {
    match value {
        Expr::Lit(_) => Err(Error::new_spanned(
            &value,
            "`success` is a function of a reference to the result, such as \
             `success = |result| matches!(result, Ok(status) if *status < 400)`",
        )),
        _ => Ok(value.into_token_stream()),
    }
}

pub(crate) fn path(value: &Expr) -> Result<Path> {
    match value {
        Expr::Path(path) if path.qself.is_none() => Ok(path.path.clone()),
        _ => Err(Error::new_spanned(value, "`crate` must be the path of the `leasehold` crate")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expr(text: &str) -> Expr {
        syn::parse_str(text).unwrap()
    }

    #[test]
    fn a_literal_key_is_a_template() {
        assert!(matches!(key(expr("\"a:{id}\"")), Ok(Key::Template(_))));
        assert!(matches!(key(expr("name(id)")), Ok(Key::Expr(Expr::Call(_)))));
    }

    #[test]
    fn if_held_is_one_of_two_words() {
        assert_eq!(if_held(&expr("\"error\"")).unwrap(), IfHeld::Error);
        assert_eq!(if_held(&expr("\"skip\"")).unwrap(), IfHeld::Skip);
        for wrong in ["\"Skip\"", "\"\"", "skip", "1"] {
            let told = if_held(&expr(wrong)).unwrap_err().to_string();
            assert!(
                told.starts_with("`if_held` must be \"error\" or \"skip\";"),
                "{wrong}: {told}"
            );
        }
    }

    #[test]
    fn mode_is_one_of_two_words() {
        for right in ["read", "write"] {
            assert_eq!(mode(&expr(&format!("\"{right}\""))).unwrap(), right);
        }
        for wrong in ["\"Read\"", "\"\"", "\"shared\"", "read", "1"] {
            let told = mode(&expr(wrong)).unwrap_err().to_string();
            assert_eq!(told, "`mode` must be \"read\" or \"write\"", "{wrong}");
        }
    }

    #[test]
    fn on_lost_is_one_of_two_words() {
        assert_eq!(on_lost(&expr("\"cancel\"")).unwrap(), None);
        assert_eq!(on_lost(&expr("\"finish\"")).unwrap().unwrap(), "let_finish");
        for wrong in ["\"Cancel\"", "\"\"", "\"continue\"", "finish", "true"] {
            let told = on_lost(&expr(wrong)).unwrap_err().to_string();
            assert_eq!(told, "`on_lost` must be \"cancel\" or \"finish\"", "{wrong}");
        }
    }

    #[test]
    fn a_lease_is_a_name() {
        assert_eq!(lease(&expr("held")).unwrap(), "held");
        assert_eq!(lease(&expr("r#type")).unwrap(), "r#type");
        let told = lease(&expr("\"held\"")).unwrap_err().to_string();
        assert_eq!(told, "`lease` is a name, without quotes: write `lease = held`");
        for wrong in ["self", "Self", "crate", "_", "a::b", "f()", "1", "true", "\"a b\"", "\"fn\""]
        {
            let told = lease(&expr(wrong)).unwrap_err().to_string();
            assert!(
                told.starts_with("`lease` is the name of the lease's handle"),
                "{wrong}: {told}"
            );
        }
    }

    #[test]
    fn auto_renew_is_a_bool() {
        for right in ["true", "false", "RENEW", "! is_short"] {
            assert_eq!(auto_renew(expr(right)).unwrap().to_string(), right);
        }
        for wrong in ["\"false\"", "0", "\"never\""] {
            let told = auto_renew(expr(wrong)).unwrap_err().to_string();
            assert!(told.starts_with("`auto_renew` must be true or false"), "{wrong}: {told}");
        }
    }

    #[test]
    fn permits_and_weights_count_from_one() {
        for wrong in ["0", "-1", "1.5", "\"4\"", "true", "4294967296"] {
            let told = permits(expr(wrong)).unwrap_err().to_string();
            assert!(told.starts_with("`permits` is the number of holders"), "{wrong}: {told}");
            let told = weight(expr(wrong)).unwrap_err().to_string();
            assert!(told.starts_with("`weight` is the number of `permits`"), "{wrong}: {told}");
        }
        for right in ["1", "4294967295", "LIMIT", "- LIMIT + 5"] {
            assert_eq!(permits(expr(right)).unwrap().to_string(), right);
            assert_eq!(weight(expr(right)).unwrap().to_string(), right);
        }
    }

    #[test]
    fn crate_is_a_path() {
        assert!(path(&expr("crate::lock")).is_ok());
        assert!(path(&expr("1")).is_err());
        assert!(path(&expr("<T as Trait>::lock")).is_err());
    }
}
