//! The pieces of a template. What is wrong with one is told in words.

use proc_macro2::{Ident, Span};
use syn::{Index, Member, ext::IdentExt, parse::Parser};

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
