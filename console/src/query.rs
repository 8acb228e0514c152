//! The parameters of a page, from its address or from a form.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Longer ones are refused. A lock's name has 512 bytes, which are 1,536 when they are encoded.
const LONGEST: usize = 8 * 1024;

/// The parameters of a request.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads them, or says what is wrong with them.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > LONGEST {
            return Err("The request's parameters are too long.");
        }
        // All that separates them is ASCII, so they are UTF-8 together or not at all.
        if percent_decode_str(text).decode_utf8().is_err() {
            return Err("The request's parameters are not UTF-8.");
        }
        let pairs = form_urlencoded::parse(text.as_bytes());
        Ok(Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()))
    }

    /// A single parameter.
    pub(super) fn of(name: &str, value: &str) -> Self {
        Self(vec![(name.to_owned(), value.to_owned())])
    }

    /// The value of a parameter; empty if it is not there.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(it, _)| it == name).map_or("", |(_, value)| value)
    }
}

/// A link to a page with parameters. Those without a value are left out.
pub(super) fn link<'a>(
    page: &str,
    query: impl IntoIterator<Item = (&'a str, Cow<'a, str>)>,
) -> String {
    let mut text = form_urlencoded::Serializer::new(String::new());
    for (name, value) in query {
        if !value.is_empty() {
            text.append_pair(name, &value);
        }
    }
    match text.finish() {
        query if query.is_empty() => page.to_owned(),
        query => format!("{page}?{query}"),
    }
}

/// Relative links from a page to the console. They stay right if a proxy in front of the app adds
/// something before the console's path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Way {
    /// To the root itself. It has no slash at its end, because axum does not route one to a nested
    /// router.
    pub(super) home: String,
    /// To the root as a folder: what pages and files are below.
    pub(super) up: String,
}

impl Way {
    /// From the page with this path, of which the console sees the inside.
    pub(super) fn from(original: &str, inside: &str) -> Self {
        let page = inside.trim_start_matches('/');
        if page.is_empty() {
            return match last(original) {
                "" => Self { home: "./".to_owned(), up: "./".to_owned() },
                root => Self::to(root),
            };
        }
        let base = original.strip_suffix(page).unwrap_or_default().trim_end_matches('/');
        let depth = page.matches('/').count();
        let up = if depth == 0 { "./".to_owned() } else { "../".repeat(depth) };
        match last(base) {
            "" => Self { home: up.clone(), up },
            root => Self { home: format!("{}{root}", "../".repeat(depth + 1)), up },
        }
    }

    /// From the root without a slash, as seen from a page below it.
    pub(super) fn of_root(&self) -> Self {
        match last(&self.home) {
            "" => self.clone(),
            root => Self::to(root),
        }
    }

    /// From the root with a slash at its end, as seen from a page below it.
    pub(super) fn of_folder(&self) -> Self {
        Self { home: self.up.clone(), up: self.up.clone() }
    }

    fn to(root: &str) -> Self {
        Self { home: format!("./{root}"), up: format!("./{root}/") }
    }
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_knows_the_way_up() {
        let cases = [
            ("/locks", "/", "./locks", "./locks/"),
            ("/locks/", "/", "./", "./"),
            ("/", "/", "./", "./"),
            ("/lock", "/lock", "./", "./"),
            ("/no/page", "/no/page", "../", "../"),
            ("/locks/lock", "/lock", "../locks", "./"),
            ("/a/b/lock", "/lock", "../b", "./"),
            ("/a:b", "/", "./a:b", "./a:b/"),
            ("/locks/lock/", "/lock/", "../../locks", "../"),
            ("/locks/no/such/page", "/no/such/page", "../../../locks", "../../"),
        ];
        for (original, inside, home, up) in cases {
            let way = Way::from(original, inside);
            assert_eq!((&*way.home, &*way.up), (home, up), "{original}");
        }
        let below = Way::from("/locks/list-events", "/list-events");
        assert_eq!(below.of_root(), Way::from("/locks", "/"));
        assert_eq!(below.of_folder(), Way::from("/locks/", "/"));
    }

    #[test]
    fn parameters_go_and_come_back() {
        let name = "a&b=c d%2F+<ü>\u{202e}\"'#?";
        let link = link("lock", [("name", name.into()), ("empty", "".into())]);
        let (page, query) = link.split_once('?').unwrap();
        assert_eq!((page, Query::parse(query).unwrap().get("name")), ("lock", name));
        assert_eq!(Query::parse("").unwrap().get("name"), "");
        assert!(Query::parse("name=%ff").is_err() && Query::parse("name=%C3%28").is_err());
        assert!(Query::parse(&"a".repeat(9_000)).is_err());
    }
}
