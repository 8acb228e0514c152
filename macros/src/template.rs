//! Parses the template of a key: text with placeholders, `"invoice:{invoice_id}"`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::{Error, Index, LitStr, Member, ext::IdentExt, parse::Parser};

/// A well-formed template. Its placeholders are resolved later, against the function's
/// arguments.
pub(crate) struct Template {
    pub(crate) literal: LitStr,
    pub(crate) pieces: Vec<Piece>,
}

pub(crate) enum Piece {
    Text(String),
    Placeholder(Placeholder),
}

/// `{root.field.field}`
pub(crate) struct Placeholder {
    /// The text between the braces.
    pub(crate) source: String,
    pub(crate) root: String,
    pub(crate) fields: Vec<Member>,
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

pub(crate) fn pieces(template: &str) -> Result<Vec<Piece>, String> {
    if template.is_empty() {
        return Err("the key is empty: give the lock a name, such as \"report\"".to_owned());
    }
    let (mut pieces, mut text, mut rest) = (Vec::new(), String::new(), template);
    while let Some((before, from_brace)) = rest.find(['{', '}']).map(|at| rest.split_at(at)) {
        text.push_str(before);
        let (brace, after) = from_brace.split_at(1);
        if let Some(after) = after.strip_prefix(brace) {
            text.push_str(brace);
            rest = after;
            continue;
        }
        if brace == "}" {
            let text = "a `}` without a `{` before it: write `}}` for a brace in the key";
            return Err(text.to_owned());
        }
        let Some((source, after)) = after.split_once('}') else {
            let text = "is not closed: write `}` after it, or `{{` for a brace in the key";
            return Err(format!("the placeholder `{from_brace}` {text}"));
        };
        if !text.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut text)));
        }
        pieces.push(Piece::Placeholder(placeholder(source)?));
        rest = after;
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    check_separators(&pieces)?;
    Ok(pieces)
}

/// Checks that a character which no value contains stands between two placeholders.
/// Otherwise different values could make the same key.
fn check_separators(pieces: &[Piece]) -> Result<(), String> {
    let mut open: Option<&str> = None;
    for piece in pieces {
        match piece {
            Piece::Text(text) if text.contains(separates) => open = None,
            Piece::Text(_) => {}
            Piece::Placeholder(Placeholder { source, .. }) => {
                if let Some(before) = open.replace(source) {
                    return Err(format!(
                        "nothing separates the values of `{{{before}}}` and `{{{source}}}`: write \
                         `{{{before}}}:{{{source}}}`, or put between them another character that \
                         values can't contain (they can contain ASCII letters and digits, `-`, \
                         `_`, `.` and `%`)"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// The same rule as in `KeyTemplate`. A `%` separates nothing: it begins an escape in a
/// value.
fn separates(c: char) -> bool {
    !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '%'))
}

fn placeholder(source: &str) -> Result<Placeholder, String> {
    if let Some(placeholder) = path(source) {
        return Ok(placeholder);
    }
    let is_spec = |(name, spec): &(&str, &str)| path(name).is_some() && !spec.starts_with(':');
    Err(match source.split_once(':').filter(is_spec) {
        _ if source.trim().is_empty() => format!(
            "the placeholder `{{{source}}}` names no argument: write `{{id}}` for the argument \
             `id`, or `{{{{` and `}}}}` for braces in the key"
        ),
        Some((name, _)) => format!(
            "the placeholder `{{{source}}}` has a format spec, which keys do not support: write \
             `{{{name}}}`"
        ),
        None => format!(
            "the placeholder `{{{source}}}` is neither an argument, such as `{{id}}`, nor a field \
             of one, such as `{{order.id}}`; for any other key write an expression without quotes"
        ),
    })
}

/// `root.field.0`, without spaces.
fn path(source: &str) -> Option<Placeholder> {
    let mut segments = source.split('.');
    let root = identifier(segments.next()?)?.to_string();
    let fields = segments.map(field).collect::<Option<_>>()?;
    Some(Placeholder { source: source.to_owned(), root, fields })
}

fn field(segment: &str) -> Option<Member> {
    if segment.bytes().all(|byte| byte.is_ascii_digit()) {
        // `syn` panics at the number that no tuple has room for.
        let index = segment.parse().ok().filter(|index| *index < u32::MAX);
        return index.map(|index| Member::Unnamed(Index { index, span: Span::call_site() }));
    }
    let ident = identifier(segment)?;
    match segment {
        "self" | "Self" | "super" | "crate" | "_" => None,
        _ if syn::parse_str::<Ident>(segment).is_ok() => Some(Member::Named(ident)),
        keyword => Some(Member::Named(Ident::new_raw(keyword, ident.span()))),
    }
}

/// An identifier or a keyword: `{type}` is the argument `r#type`.
fn identifier(segment: &str) -> Option<Ident> {
    // The parser skips spaces and comments, but a name can't contain them.
    let is_word = segment.chars().all(|char| char.is_alphanumeric() || char == '_');
    if !is_word {
        return None;
    }
    Ident::parse_any.parse_str(segment).ok()
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
