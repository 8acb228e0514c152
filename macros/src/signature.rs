//! Reads the signature: the names that a key can use, and the type of the awaited result.

use proc_macro2::Ident;
use quote::quote_spanned;
use syn::{
    AssocType, Attribute, FnArg, PatIdent, PatType, Receiver, ReturnType, Signature, Type,
    spanned::Spanned,
    visit_mut::{self, VisitMut},
};

/// The names that the arguments bind, `self` among them.
pub(crate) fn arguments(signature: &Signature) -> Vec<Ident> {
    signature.inputs.iter().flat_map(names).collect()
}

/// The names that an argument binds.
pub(crate) fn names(argument: &FnArg) -> Vec<Ident> {
    match argument {
        FnArg::Receiver(receiver) => vec![Ident::new("self", receiver.self_token.span)],
        FnArg::Typed(argument) => {
            let mut names = Names(Vec::new());
            names.visit_pat_mut(&mut argument.pat.clone());
            names.0
        }
    }
}

/// The conditions under which an argument is there. rustc evaluates them after the attribute.
pub(crate) fn conditions(argument: &FnArg) -> impl Iterator<Item = &Attribute> {
    let (FnArg::Receiver(Receiver { attrs, .. }) | FnArg::Typed(PatType { attrs, .. })) = argument;
    attrs.iter().filter(|it| it.path().is_ident("cfg"))
}

/// The type of the awaited result, with `_` where only the body determines it. `None`
/// without a return type.
pub(crate) fn output(signature: &Signature) -> Option<Type> {
    let ReturnType::Type(_, written) = &signature.output else {
        return None;
    };
    let mut written = Type::clone(written);
    if signature.asyncness.is_none() {
        let mut output = FutureOutput(None);
        output.visit_type_mut(&mut written);
        let unknown = || Type::Verbatim(quote_spanned!(written.span()=> _));
        written = output.0.unwrap_or_else(unknown);
    }
    ImplToInfer.visit_type_mut(&mut written);
    Some(written)
}

/// Collects the names that patterns bind.
struct Names(Vec<Ident>);

impl VisitMut for Names {
    fn visit_pat_ident_mut(&mut self, pattern: &mut PatIdent) {
        self.0.push(pattern.ident.clone());
        visit_mut::visit_pat_ident_mut(self, pattern);
    }
}

/// Finds `T` in `Pin<Box<dyn Future<Output = T>>>`.
struct FutureOutput(Option<Type>);

impl VisitMut for FutureOutput {
    fn visit_assoc_type_mut(&mut self, binding: &mut AssocType) {
        if binding.ident == "Output" {
            self.0.get_or_insert_with(|| binding.ty.clone());
        }
    }
}

/// Replaces `impl Trait` by `_`: rustc does not accept it inside a function's body.
struct ImplToInfer;

impl VisitMut for ImplToInfer {
    fn visit_type_mut(&mut self, written: &mut Type) {
        match written {
            Type::ImplTrait(_) => *written = Type::Verbatim(quote_spanned!(written.span()=> _)),
            written => visit_mut::visit_type_mut(self, written),
        }
    }
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;

    use super::*;

    fn names(signature: &str) -> Vec<String> {
        let signature = syn::parse_str(signature).unwrap();
        arguments(&signature).iter().map(Ident::to_string).collect()
    }

    #[test]
    fn patterns_bind_names() {
        assert!(names("async fn f()").is_empty());
        assert_eq!(names("async fn f(mut self, a: A, _: B)"), ["self", "a"]);
        let extractors = "async fn f(State(db): State<Db>, (a, [b, ..]): T, c @ P { d, e: &f }: P)";
        assert_eq!(names(extractors), ["db", "a", "b", "c", "d", "f"]);
    }

    fn output_is(signature: &str, expected: &str) {
        let output = output(&syn::parse_str(signature).unwrap());
        let expected: Type = syn::parse_str(expected).unwrap();
        let [output, expected] =
            [output.unwrap(), expected].map(|written| written.to_token_stream().to_string());
        assert_eq!(output, expected, "{signature}");
    }

    #[test]
    fn the_output_is_the_type_of_the_awaited_result() {
        assert!(output(&syn::parse_str("async fn f()").unwrap()).is_none());
        output_is("async fn f() -> Result<T, E>", "Result<T, E>");
        output_is("fn f() -> Pin<Box<dyn Future<Output = Option<T>> + Send>>", "Option<T>");
        output_is("fn f() -> Pin<Box<dyn Named<Name = N> + Future<Output = T>>>", "T");
        output_is("fn f() -> BoxFuture<T>", "_");
    }

    #[test]
    fn impl_trait_is_inferred_from_the_body() {
        output_is("async fn f() -> impl Debug", "_");
        output_is("async fn f() -> Result<Vec<impl Iterator<Item = u8>>, E>", "Result<Vec<_>, E>");
    }
}
