//! Rates. Literals are checked here, at compile time; any other expression is left to rustc.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Error, Expr, ExprLit, Lit, LitStr, Result};

use crate::duration;

const EXAMPLE: &str = "write a count and a time, such as \"10/s\", \"100/min\" or \"5/250ms\", or an expression such as \
     `Rate::per_second(10).burst(20)`";

/// A rate, as it is written.
pub(crate) enum Rate {
    Literal { count: u32, period: TokenStream },
    Expr(TokenStream),
}

/// Reads a rate.
pub(crate) fn read(value: &Expr) -> Result<Rate> {
    let Expr::Lit(ExprLit { lit, .. }) = value else {
        return Ok(Rate::Expr(value.into_token_stream()));
    };
    let refuse = |why: &str| Err(Error::new(lit.span(), format!("`rate` {why}: {EXAMPLE}")));
    let Lit::Str(text) = lit else { return refuse("is no number alone") };
    let text = text.value();
    let parts = text.split_once('/').filter(|(_, period)| !period.trim().is_empty());
    let Some((count, period)) = parts else {
        return refuse("says how many in which time");
    };
    let Ok(count @ 1..) = count.trim().parse() else {
        return refuse("begins with a whole number from 1");
    };
    let period = period.trim();
    let one = if period.starts_with(|first: char| first.is_ascii_digit()) { "" } else { "1" };
    let period = LitStr::new(&format!("{one}{period}"), lit.span());
    let period = duration::literal(&Lit::Str(period))?;
    if period < duration::SHORTEST_INTERVAL.saturating_mul(count) {
        return refuse("is at most 10 in a millisecond");
    }
    Ok(Rate::Literal { count, period: duration::tokens(period) })
}

impl Rate {
    /// The expression of the rate, of the runtime's type.
    pub(crate) fn expression(self, private: &TokenStream) -> TokenStream {
        match self {
            Self::Literal { count, period } => quote!(#private::Rate::new(#count, #period)),
            Self::Expr(rate) => rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Result<String> {
        let rate = read(&syn::parse_str(text).unwrap())?;
        Ok(rate.expression(&quote!(p)).to_string().replace(' ', ""))
    }

    #[test]
    fn literals_are_counts_and_times() {
        for (text, secs, nanos) in [
            ("10/s", 1, 0),
            ("10/1s", 1, 0),
            (" 10 / 250ms ", 0, 250_000_000),
            ("10/min", 60, 0),
            ("10/h", 3600, 0),
            ("10/2days", 172_800, 0),
        ] {
            let told = written(&format!("{text:?}")).unwrap();
            let period = format!("::core::time::Duration::new({secs}u64,{nanos}u32)");
            assert_eq!(told, format!("p::Rate::new(10u32,{period})"), "{text}");
        }
        assert_eq!(written("Rate::per_second(2)").unwrap(), "Rate::per_second(2)");
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, why) in [
            ("10", "`rate` is no number alone: write"),
            ("\"10\"", "`rate` says how many in which time: write"),
            ("\"0/s\"", "`rate` begins with a whole number from 1: write"),
            ("\"-1/s\"", "`rate` begins with a whole number from 1: write"),
            ("\"/s\"", "`rate` begins with a whole number from 1: write"),
            ("\"10001/s\"", "`rate` is at most 10 in a millisecond: write"),
            ("\"10/\"", "`rate` says how many in which time: write"),
            ("\"10/month\"", "\"1month\": a month has no fixed length"),
            ("\"10/fortnight\"", "\"1fortnight\" is not a duration"),
        ] {
            let told = written(text).unwrap_err().to_string();
            assert!(told.starts_with(why), "{text}: {told}");
        }
    }
}
