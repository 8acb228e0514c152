//! Refuses `lease.fence()` for the kinds of lock whose leases have no fencing token.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::{Error, Result};

use crate::args::CallOption;

/// Refuses `name.fence()` in the body of a function whose leases have no token. The body is
/// unparsed tokens, so a body that may bind `name` itself is accepted.
pub(crate) fn refuse(name: &Ident, options: &[CallOption], body: &TokenStream) -> Result<()> {
    let text = options.iter().find_map(|option| match option.name.to_string().as_str() {
        "permits" => Some(
            "a permit has no fencing token, because a semaphore has several holders: `fence()` \
             would always fail with `LockError::NotFenced`; call `is_held()` instead, or remove \
             `permits` if the resource checks tokens",
        ),
        "read" => Some(
            "a reader has no fencing token, because several may read at once: `fence()` would \
             always fail with `LockError::NotFenced`; call `is_held()` instead, or use \
             `mode = \"write\"`",
        ),
        _ => None,
    });
    let mut found = Found { name, fence: None, is_rebound: false };
    found.look(body.clone());
    match (text, found.fence) {
        (Some(text), Some(fence)) if !found.is_rebound => Err(Error::new(fence.span(), text)),
        _ => Ok(()),
    }
}

struct Found<'a> {
    name: &'a Ident,
    /// The first call.
    fence: Option<Ident>,
    /// The body may bind the name to something else.
    is_rebound: bool,
}

impl Found<'_> {
    fn look(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.look(group.stream()),
                TokenTree::Ident(word) if word == self.name => {
                    let before = at.checked_sub(1).map(|at| &tokens[at]);
                    self.name_at(before, &tokens[at + 1..]);
                }
                _ => {}
            }
        }
    }

    fn name_at(&mut self, before: Option<&TokenTree>, after: &[TokenTree]) {
        let is_used = matches!(after, [TokenTree::Punct(dot), ..] if dot.as_char() == '.');
        match before {
            // A field of something else.
            Some(TokenTree::Punct(dot)) if dot.as_char() == '.' => return,
            // It may be a pattern, of which tokens do not tell.
            _ => self.is_rebound |= !is_used,
        }
        if let [_, TokenTree::Ident(fence), TokenTree::Group(call), ..] = after
            && is_used
            && fence == "fence"
            && call.delimiter() == Delimiter::Parenthesis
        {
            self.fence.get_or_insert_with(|| fence.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::tests::parse;

    fn is_refused(options: &str, body: &str) -> bool {
        let args = parse(&format!("key = \"a\", lease = lease, {options}")).unwrap();
        refuse(&args.lease.unwrap(), &args.options, &body.parse().unwrap()).is_err()
    }

    #[test]
    fn fence_without_a_token_is_refused() {
        for body in [
            "lease.fence()?",
            "{ let a = || { f(lease.fence()) }; }",
            "write!(f, \"{}\", lease.fence()?)",
            "if a || lease.fence().is_ok() {}",
            "f(&mut lease.fence())",
        ] {
            assert!(is_refused("permits = 4", body), "{body}");
            assert!(is_refused("mode = \"read\"", body), "{body}");
            assert!(!is_refused("mode = \"write\"", body), "{body}");
            assert!(!is_refused("ttl = \"1s\"", body), "{body}");
        }
    }

    #[test]
    fn another_variable_or_field_of_that_name_is_accepted() {
        for body in [
            "lease.is_held()",
            "fence(lease)",
            "other.fence()",
            "self.lease.fence()",
            "lease.fence.a()",
            "let lease = other(); lease.fence()",
            "if let Some(mut lease) = other() { lease.fence() }",
            "leases.map(|lease| lease.fence())",
            "for lease in leases { lease.fence() }",
            "match other { Ok(lease) => lease.fence(), _ => a }",
            "let (a, lease) = other; lease.fence()",
            "|a, lease| lease.fence()",
            "fn f(lease: LeaseHandle) { lease.fence(); }",
        ] {
            assert!(!is_refused("permits = 4", body), "{body}");
        }
    }
}
