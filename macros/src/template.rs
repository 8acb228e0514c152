//! Parses the template of a key: text with placeholders, `"invoice:{invoice_id}"`.

mod pieces;

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::{Error, LitStr, Member};

use self::pieces::pieces;
pub(crate) use self::pieces::{Piece, Placeholder};

/// A well-formed template. Its placeholders are resolved later, against the function's
/// arguments.
pub(crate) struct Template {
    pub(crate) literal: LitStr,
    pub(crate) pieces: Vec<Piece>,
}

impl Template {
    pub(crate) fn parse(literal: LitStr) -> syn::Result<Self> {
        match pieces(&literal.value()) {
            Ok(pieces) => Ok(Self { literal, pieces }),
            Err(text) => Err(Error::new(literal.span(), text)),
        }
    }

    /// The expression that makes the key; `variable` gives the variable of a placeholder.
    pub(crate) fn key(
        &self,
        private: &TokenStream,
        variable: impl Fn(&Placeholder) -> syn::Result<Ident>,
    ) -> syn::Result<TokenStream> {
        let site = Span::mixed_site().located_at(self.literal.span());
        let mut pieces = TokenStream::new();
        for piece in &self.pieces {
            pieces.extend(match piece {
                Piece::Text(text) => quote_spanned!(site=> .text(#text)),
                Piece::Placeholder(placeholder) => {
                    let (root, Placeholder { source, fields, .. }) =
                        (variable(placeholder)?, placeholder);
                    let fields = fields.iter().map(|field| located(field, self.literal.span()));
                    quote_spanned!(site=> .part(#source, &#root #(.#fields)*))
                }
            });
        }
        let label = self.literal.value();
        Ok(quote_spanned!(site=> #private::KeyTemplate::new()#pieces.label(#label).finish()))
    }
}

/// The field, with the template as its place: an error points there, and not to the whole attribute.
fn located(field: &Member, at: Span) -> Member {
    let (mut field, at) = (field.clone(), Span::call_site().located_at(at));
    match &mut field {
        Member::Named(name) => name.set_span(at),
        Member::Unnamed(index) => index.span = at,
    }
    field
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    /// The pieces, with placeholders as `<root .field>`.
    fn shown(template: &str) -> Result<Vec<String>, String> {
        let show = |piece| match piece {
            Piece::Text(text) => text,
            Piece::Placeholder(Placeholder { root, fields, .. }) => {
                format!("<{root}{}>", quote!(#(.#fields)*))
            }
        };
        pieces(template).map(|pieces| pieces.into_iter().map(show).collect())
    }

    #[test]
    fn text_and_placeholders_alternate() {
        assert_eq!(shown("report").unwrap(), ["report"]);
        let pieces = shown("invoice:{id}:{order.lines.0.id}!").unwrap();
        assert_eq!(pieces, ["invoice:", "<id>", ":", "<order. lines . 0 . id>", "!"]);
        assert_eq!(shown("{a}:{self.b}").unwrap(), ["<a>", ":", "<self. b>"]);
    }

    #[test]
    fn a_placeholder_keeps_its_source() {
        let Some(Piece::Placeholder(placeholder)) = pieces("{a.0.b}").unwrap().pop() else {
            panic!("a placeholder");
        };
        assert_eq!(placeholder.source, "a.0.b");
    }

    #[test]
    fn doubled_braces_are_braces() {
        assert_eq!(shown("{{a}}").unwrap(), ["{a}"]);
        assert_eq!(shown("{{{a}}}").unwrap(), ["{", "<a>", "}"]);
    }

    #[test]
    fn identifiers_follow_rusts_rules() {
        assert_eq!(shown("{type.match}").unwrap(), ["<type. r#match>"]);
        assert_eq!(shown("{größe._b2}").unwrap(), ["<größe. _b2>"]);
    }

    #[test]
    fn other_syntax_is_refused() {
        for (template, beginning) in [
            ("", "the key is empty"),
            ("{}", "the placeholder `{}` names no argument"),
            ("{ }", "the placeholder `{ }` names no argument"),
            ("{id:?}", "the placeholder `{id:?}` has a format spec"),
            ("{a.0:>5}", "the placeholder `{a.0:>5}` has a format spec"),
            ("a{f()}", "the placeholder `{f()}` is neither"),
            ("{a::b}", "the placeholder `{a::b}` is neither"),
            ("{ id }", "the placeholder `{ id }` is neither"),
            ("{0}", "the placeholder `{0}` is neither"),
            ("{0b}", "the placeholder `{0b}` is neither"),
            ("{a./**/b}", "the placeholder `{a./**/b}` is neither"),
            ("{a.}", "the placeholder `{a.}` is neither"),
            ("{a.-1}", "the placeholder `{a.-1}` is neither"),
            ("{a.4294967295}", "the placeholder `{a.4294967295}` is neither"),
            ("{a.4294967296}", "the placeholder `{a.4294967296}` is neither"),
            ("{a.self}", "the placeholder `{a.self}` is neither"),
            ("{\"}", "the placeholder `{\"}` is neither"),
            ("{a{b}", "the placeholder `{a{b}` is neither"),
            ("a{id", "the placeholder `{id` is not closed"),
            ("a}", "a `}` without a `{`"),
            ("{{}", "a `}` without a `{`"),
        ] {
            let text = shown(template).unwrap_err();
            assert!(text.starts_with(beginning), "{template}: {text}");
        }
    }

    #[test]
    fn placeholders_need_a_separator() {
        for between in ["", "-", "_", ".", "%", "a", "x-y_z.0", "%3A", "%25", "-%-"] {
            let text = shown(&format!("a:{{a}}:{{b.0}}{between}{{c}}")).unwrap_err();
            let told = "nothing separates the values of `{b.0}` and `{c}`: write `{b.0}:{c}`";
            assert!(text.starts_with(told), "{between}: {text}");
        }
        for between in [":", "/", ",", "|", "#", "@", " ", "{{", "}}", "ö", "→", "-:-", "%:3A"] {
            assert!(shown(&format!("{{a}}{between}{{b}}")).is_ok(), "{between}");
        }
        assert!(shown("a-{a}-b").is_ok(), "the ends need no separator");
    }

    #[test]
    fn a_format_spec_is_answered_with_the_bare_name() {
        assert!(shown("{order.id:?}").unwrap_err().ends_with("write `{order.id}`"));
    }
}
