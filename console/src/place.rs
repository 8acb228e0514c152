//! Which server and which prefix a console shows.

use super::text::shown;

/// What the head of each page says. Each is empty if the console does not know it.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) server: String,
    pub(super) prefix: String,
}

impl Place {
    /// The server's name, of a name or a URL.
    pub(super) fn set_server(&mut self, name: &str) {
        self.server = shown(without_secrets(name.trim()));
    }

    pub(super) fn set_prefix(&mut self, prefix: &str) {
        self.prefix = shown(prefix);
    }
}

/// The hosts and the path of a URL: without its scheme, its user, its password and its options.
/// Empty if it is not clear where they end.
fn without_secrets(url: &str) -> &str {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (place, options) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    // A password may have any of these characters, if it is not encoded.
    if !place.contains('@') && options.contains('@') && !scheme.contains("unix") {
        return "";
    }
    let place = place.rsplit('@').next().unwrap_or_default();
    place.strip_suffix('/').unwrap_or(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_shown() {
        for (url, wanted) in [
            ("redis-1:6379", "redis-1:6379"),
            ("orders, in Frankfurt", "orders, in Frankfurt"),
            ("redis://redis-1:6379/", "redis-1:6379"),
            ("rediss://user:secret@redis-1:6379/2?protocol=resp3#x", "redis-1:6379/2"),
            ("redis://:sec@ret@a:1,b:2", "a:1,b:2"),
            ("redis://:sec/ret@a", "a"),
            ("redis://:sec?ret@a", ""),
            ("redis://:sec#ret@a", ""),
            ("user:secret@a", "a"),
            ("redis+sentinel://u:secret@a:1,b:2/NAME?sentinel_password=secret", "a:1,b:2/NAME"),
            ("redis+sentinel://a/NAME?sentinel_password=sec@ret", ""),
            ("unix:///run/redis.sock?user=u&pass=sec@ret", "/run/redis.sock"),
            ("", ""),
        ] {
            assert_eq!(without_secrets(url), wanted, "{url}");
        }
    }
}
