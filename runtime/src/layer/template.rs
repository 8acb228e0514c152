//! Parses the template of a request's key: text, and where each value comes from.

use http::HeaderName;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(&'static str),
    Value {
        /// The text between the braces. Errors name the value by it.
        placeholder: &'static str,
        source: Source,
    },
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Header(HeaderName),
    Query(&'static str),
    #[cfg(feature = "axum")]
    Path(&'static str),
    Peer,
    Extension(&'static str),
}

/// How the sources begin in a template.
const BEGINNINGS: [&str; 5] = ["header:", "query:", "path:", "peer}", "extension:"];

/// Returns true if the name has a placeholder with a source.
pub(super) fn has_source(name: &str) -> bool {
    let mut insides = name.split('{').skip(1);
    insides.any(|inside| BEGINNINGS.iter().any(|beginning| inside.starts_with(beginning)))
}

/// Splits a template into its pieces. `source` reads the text between two braces.
pub(super) fn pieces(
    template: &'static str,
    source: impl Fn(&'static str) -> Result<Source, String>,
) -> Result<Vec<Piece>, String> {
    let (mut pieces, mut rest) = (Vec::new(), template);
    while let Some(at) = rest.find(['{', '}']) {
        let (brace, after) = rest[at..].split_at(1);
        if let Some(after) = after.strip_prefix(brace) {
            // One of the two belongs to the text.
            pieces.push(Piece::Text(&rest[..=at]));
            rest = after;
            continue;
        }
        if brace == "}" {
            return Err("a `}` without its `{`; write `}}` for a brace in the key".to_owned());
        }
        let Some((placeholder, after)) = after.split_once('}') else {
            return Err("a `{` without its `}`; write `{{` for a brace in the key".to_owned());
        };
        let source = source(placeholder)?;
        pieces.extend([Piece::Text(&rest[..at]), Piece::Value { placeholder, source }]);
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    pieces.retain(|piece| *piece != Piece::Text(""));
    Ok(pieces)
}

/// A placeholder that says its source, such as `header:x-tenant`.
pub(super) fn any_source(placeholder: &'static str) -> Result<Source, String> {
    let source = match placeholder.split_once(':') {
        None if placeholder == "peer" => Some(Source::Peer),
        Some(("header", name)) => HeaderName::from_bytes(name.as_bytes()).ok().map(Source::Header),
        Some(("query", name)) => {
            let is_name = is_name(&name.replace(['[', ']'], ""));
            is_name.then_some(Source::Query(name))
        }
        #[cfg(feature = "axum")]
        Some(("path", name)) => is_name(name).then_some(Source::Path(name)),
        #[cfg(not(feature = "axum"))]
        Some(("path", _)) => return Err(format!("`{{{placeholder}}}` needs the feature `axum`")),
        Some(("extension", name)) => is_name(name).then_some(Source::Extension(name)),
        _ => None,
    };
    source.ok_or_else(|| {
        format!(
            "`{{{placeholder}}}` is no value of a request; write `{{header:x-tenant}}`, \
             `{{query:page}}`, `{{path:id}}`, `{{peer}}` or `{{extension:user}}`"
        )
    })
}

/// A parameter of the route, without the word `path`.
#[cfg(feature = "axum")]
pub(super) fn path_parameter(placeholder: &'static str) -> Result<Source, String> {
    if is_name(placeholder) {
        return Ok(Source::Path(placeholder));
    }
    Err(format!(
        "`{{{placeholder}}}` is no parameter's name; write it as `{{id}}`, without anything else, \
         or use `template_key` for values from elsewhere"
    ))
}

fn is_name(name: &str) -> bool {
    let is_of_a_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.chars().all(is_of_a_name)
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "axum")]
    use super::Piece::Text;
    use super::Piece::Value;
    use super::*;

    fn sources(template: &'static str) -> Vec<Source> {
        let pieces = pieces(template, any_source).unwrap().into_iter();
        pieces
            .filter_map(|piece| if let Value { source, .. } = piece { Some(source) } else { None })
            .collect()
    }

    #[test]
    fn each_source_has_its_word() {
        let x_tenant = HeaderName::from_static("x-tenant");
        assert_eq!(sources("{header:X-Tenant}"), [Source::Header(x_tenant)]);
        assert_eq!(sources("{query:filter[id]}"), [Source::Query("filter[id]")]);
        assert_eq!(sources("{peer}:{extension:user}"), [Source::Peer, Source::Extension("user")]);
    }

    #[test]
    fn values_without_a_source_are_refused() {
        for template in [
            "{id}",
            "{}",
            "{peer:ip}",
            "{header}",
            "{header:}",
            "{header:a b}",
            "{header:ö}",
            "{query:}",
            "{query:a b}",
            "{query:[]}",
            "{extension:}",
            "{cookie:a}",
            "{ peer}",
        ] {
            let problem = pieces(template, any_source).unwrap_err();
            assert!(problem.contains("is no value of a request"), "{template}: {problem}");
        }
        assert!(pieces("{header:a", any_source).is_err());
    }

    #[test]
    fn a_name_with_a_source_in_it_is_found() {
        for name in ["{header:x}", "a:{query:b}", "{{path:id}}", "{peer}", "x{extension:"] {
            assert!(has_source(name), "{name}");
        }
        for name in ["order:{42}:pdf", "header:x", "{peers}", "{id}", ""] {
            assert!(!has_source(name), "{name}");
        }
    }

    #[cfg(feature = "axum")]
    #[test]
    fn text_and_parameters_alternate() {
        let path = |name| Value { placeholder: name, source: Source::Path(name) };
        let pieces = |template| pieces(template, path_parameter).unwrap();
        assert_eq!(pieces("a:{b}:{c-d}"), [Text("a:"), path("b"), Text(":"), path("c-d")]);
        assert_eq!(pieces("{{a}}{b}"), [Text("{"), Text("a}"), path("b")]);
        assert_eq!(pieces("{{{a}}}"), [Text("{"), path("a"), Text("}")]);
    }

    #[cfg(feature = "axum")]
    #[test]
    fn malformed_templates_are_refused() {
        for template in ["{", "}", "{}", "a{b", "{a}}", "{a b}", "{*a}", "{a:?}", "{a{b}"] {
            assert!(pieces(template, path_parameter).is_err(), "{template}");
        }
    }
}
