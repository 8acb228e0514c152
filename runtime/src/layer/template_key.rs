//! Keys from a template over the values of a request.

use std::any::Any;

use http::Extensions;
use http::request::Parts;

use super::demand::assert_none;
use super::key::{KeyError, NoValue, RequestKey};
use super::request_values::RequestValues;
use super::template::{self, Piece, Source, has_source};
use crate::core::key::{IntoLockKey, KeyPart, KeyTemplate, LockKey};
use crate::core::log_rate::seldom;

/// Makes keys from a template over the values of a request, such as
/// `"order:{header:x-tenant}:{path:id}"`.
///
/// | placeholder | value |
/// |---|---|
/// | `{header:x-tenant}` | the header; its name in any case |
/// | `{query:page}` | the parameter of the URL's query, decoded as a form is: `+` is a space |
/// | `{path:id}` | the parameter of axum's route, as in `path_key` (feature `axum`) |
/// | `{peer}` | the IP address at the other end of the connection, without the port |
/// | `{extension:user}` | an extension of the request, whose type [`TemplateKey::extension`] says |
///
/// `{{` and `}}` are braces. Values are escaped as in [`KeyTemplate`], and text between two
/// values must contain a character that no value has, such as `:`. So different values
/// always make different keys. Begin each template with a text of its own, so that no other
/// template makes the same key.
///
/// A request without one of the values is refused with status 400 and never passes without
/// a lock. So is a request with a value that is empty, that is there more than once, or that
/// is not text (ASCII in a header, UTF-8 elsewhere). If the server is to blame, because nobody
/// sets the extension or the peer is unknown, the status is 500. For requests that may pass
/// without a lock, use [`key_by`](super::key_by).
///
/// `{peer}` is axum's `ConnectInfo<SocketAddr>`, so serve the app with
/// `into_make_service_with_connect_info::<SocketAddr>()`. Without axum, put a `SocketAddr` or
/// an `IpAddr` into the request's extensions. Behind a proxy it is the *proxy's* address for
/// all clients. A header such as `x-forwarded-for` names the client only if your own proxy
/// replaces what the client sent.
///
/// # Panics
///
/// When the app is built: if the template is malformed, if a placeholder names no source, if
/// nothing separates two values (`"{peer}-{query:a}"`), or if no lock can have its names.
/// [`LockLayer`](super::LockLayer) also panics if an extension has no type.
///
/// # Examples
///
/// ```
/// use http::{Request, Response, StatusCode};
/// use leasehold::layer::template_key;
/// use leasehold::{LockLayer, Locks};
/// use tower::{Layer, ServiceExt};
/// # use std::convert::Infallible;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = Locks::in_memory();
/// let key = template_key("export:{header:x-tenant}:{query:month}");
/// let service = LockLayer::mutex(&locks, key).layer(tower::service_fn(|_: Request<()>| async {
///     Ok::<_, Infallible>(Response::new(String::new()))
/// }));
///
/// let _held = locks.mutex("export:acme:2026-11").lock().await?;
/// let october = Request::get("/?month=2026-10").header("x-tenant", "acme").body(())?;
/// assert_eq!(service.clone().oneshot(october).await?.status(), StatusCode::OK);
/// let november = Request::get("/?month=2026-11").header("x-tenant", "acme").body(())?;
/// assert_eq!(service.clone().oneshot(november).await?.status(), StatusCode::CONFLICT);
/// let of_nobody = Request::get("/?month=2026-11").body(())?;
/// assert_eq!(service.oneshot(of_nobody).await?.status(), StatusCode::BAD_REQUEST);
/// # Ok(())
/// # }
/// ```
#[must_use]
#[track_caller]
pub fn template_key(template: &'static str) -> TemplateKey {
    TemplateKey::new(template, template::any_source)
}

/// The key source that [`template_key`] makes.
///
/// # Examples
///
/// ```
/// use leasehold::layer::{TemplateKey, template_key};
/// use leasehold::{LockLayer, Locks};
///
/// fn exports(locks: &Locks) -> LockLayer<TemplateKey> {
///     LockLayer::mutex(locks, template_key("export:{header:x-tenant}"))
/// }
/// ```
#[derive(Clone, Debug)]
pub struct TemplateKey {
    template: &'static str,
    pieces: Vec<Piece>,
    extensions: Vec<Extension>,
}

/// The type of an extension, as the function that writes its value.
#[derive(Clone, Copy, Debug)]
struct Extension {
    name: &'static str,
    write: fn(KeyTemplate, &'static str, &Extensions) -> Option<KeyTemplate>,
}

impl TemplateKey {
    #[track_caller]
    pub(super) fn new(
        template: &'static str,
        source: impl Fn(&'static str) -> Result<Source, String>,
    ) -> Self {
        let checked = template::pieces(template, source).and_then(|pieces| {
            let sample = build(&pieces, |key, placeholder, _| Ok(key.part(placeholder, "x")));
            sample.map(|_| pieces).map_err(|error| error.to_string())
        });
        match checked {
            Ok(pieces) => Self { template, pieces, extensions: Vec::new() },
            Err(problem) => panic!("the key template {template:?}: {problem}"),
        }
    }

    /// Says the type of `{extension:name}`: the extension of this type that an outer layer
    /// has put into the request, such as the user of an authentication.
    ///
    /// A newtype of yours is a [`KeyPart`] with `#[derive(KeyPart)]`. A request without the
    /// extension is refused with status 500, and logged as a warning, because it is the
    /// server's mistake.
    ///
    /// # Panics
    ///
    /// If the template has no such placeholder, or if it has a type already.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::layer::template_key;
    /// use leasehold::{KeyPart, LockLayer, Locks};
    ///
    /// #[derive(Clone, KeyPart)]
    /// struct UserId(u64);
    ///
    /// // Inside of a layer that does `request.extensions_mut().insert(UserId(7))`.
    /// let key = template_key("cart:{extension:user}").extension::<UserId>("user");
    /// let one_at_a_time_for_each_user = LockLayer::mutex(&Locks::in_memory(), key);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn extension<T: KeyPart + Send + Sync + 'static>(mut self, name: &'static str) -> Self {
        assert!(
            self.names().any(|it| it == name),
            "the key template {:?} has no `{{extension:{name}}}`",
            self.template
        );
        assert!(
            self.type_of(name).is_none(),
            "`{{extension:{name}}}` of the key template {:?} has a type already",
            self.template
        );
        let write = |key: KeyTemplate, placeholder, extensions: &Extensions| {
            extensions.get::<T>().map(|value| key.part(placeholder, value))
        };
        self.extensions.push(Extension { name, write });
        self
    }

    pub(super) fn template(&self) -> &'static str {
        self.template
    }

    /// Panics if an extension has no type.
    #[track_caller]
    pub(super) fn assert_complete(&self) {
        if let Some(name) = self.names().find(|name| self.type_of(name).is_none()) {
            panic!(
                "the key template {:?} does not say what `{{extension:{name}}}` is: add \
                 `.extension::<Type>({name:?})`",
                self.template
            );
        }
    }

    /// The names of the extensions.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Value { source: Source::Extension(name), .. } => Some(*name),
            _ => None,
        })
    }

    fn type_of(&self, name: &str) -> Option<&Extension> {
        self.extensions.iter().find(|extension| extension.name == name)
    }
}

impl RequestKey for TemplateKey {
    fn lock_key(&self, parts: &mut Parts) -> Result<Option<LockKey>, KeyError> {
        let mut values = RequestValues::new(parts);
        let key = build(&self.pieces, |key, placeholder, source| {
            self.write(key, placeholder, source, &mut values).map_err(|error| self.refuse(error))
        });
        key.map(|key| Some(key.with_label(self.template)))
    }
}

impl TemplateKey {
    fn write(
        &self,
        key: KeyTemplate,
        placeholder: &'static str,
        source: &Source,
        values: &mut RequestValues<'_>,
    ) -> Result<KeyTemplate, NoValue> {
        Ok(match source {
            Source::Header(name) => key.part(placeholder, values.header(name)?),
            Source::Query(name) => key.part(placeholder, &values.query(name)?),
            #[cfg(feature = "axum")]
            Source::Path(name) => key.part(placeholder, values.path(name)?),
            Source::Peer => key.part(placeholder, &values.peer()?.to_string()),
            Source::Extension(name) => {
                let extension = self.type_of(name);
                extension
                    .and_then(|it| (it.write)(key, placeholder, values.extensions()))
                    .ok_or_else(|| NoValue::OfServer(format!("no extension `{name}` is set")))?
            }
        })
    }

    fn warn(&self, problem: &str) {
        let lock = self.template;
        if let Some(left_out) = seldom("no-key", lock) {
            tracing::warn!(lock, left_out, problem, "no lock key can be made from a request");
        }
    }

    /// Logs a mistake of the server.
    fn refuse(&self, error: NoValue) -> KeyError {
        match error {
            NoValue::OfClient(problem) => KeyError::new(problem),
            NoValue::OfServer(problem) => {
                self.warn(&problem);
                KeyError::of_server(problem)
            }
            #[cfg(feature = "axum")]
            NoValue::OffRoute(problem) => {
                self.warn(&problem);
                KeyError::new(problem)
            }
        }
    }
}

/// The key of a template, whose values `write` appends.
fn build(
    pieces: &[Piece],
    mut write: impl FnMut(KeyTemplate, &'static str, &Source) -> Result<KeyTemplate, KeyError>,
) -> Result<LockKey, KeyError> {
    let mut key = KeyTemplate::new();
    for piece in pieces {
        key = match piece {
            Piece::Text(text) => key.text(text),
            Piece::Value { placeholder, source } => write(key, placeholder, source)?,
        };
    }
    key.finish().map_err(KeyError::new)
}

/// The name, if the key of a layer is one plain name: the same for all requests.
///
/// # Panics
///
/// If it looks like a template, is a template that lacks something, or is no name of a lock.
#[track_caller]
pub(super) fn plain_name<K: 'static>(key: &K) -> Option<&'static str> {
    if let Some(key) = <dyn Any>::downcast_ref::<TemplateKey>(key) {
        key.assert_complete();
    }
    if let Some(name) = fixed_name(key) {
        assert_none(LockKey::new(name).err());
    }
    // The braces of a `String` may come from values.
    let name = *<dyn Any>::downcast_ref::<&'static str>(key)?;
    assert!(
        !has_source(name),
        "the key {name:?} is one lock for all requests: write `template_key({name:?})`"
    );
    assert!(
        name.into_lock_key().is_ok(),
        "the key {name:?} is one lock for all requests: write `path_key({name:?})` (with the feature \
         `axum`) or `key_by(…)` for one lock each"
    );
    Some(name)
}

/// The name, if the key is the same for all requests.
pub(super) fn fixed_name<K: 'static>(key: &K) -> Option<&str> {
    let any: &dyn Any = key;
    let text = any.downcast_ref::<&'static str>().copied();
    text.or_else(|| any.downcast_ref::<String>().map(String::as_str))
        .or_else(|| any.downcast_ref::<LockKey>().map(LockKey::name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = r#"the key template "a:{id}": `{id}` is no value of a request"#)]
    fn a_template_without_sources_panics_when_the_app_is_built() {
        let _ = template_key("a:{id}");
    }

    #[test]
    #[should_panic(expected = "nothing keeps the values of `{peer}` and `{query:a}` apart")]
    fn a_template_that_mixes_its_values_panics() {
        let _ = template_key("{peer}-{query:a}");
    }

    #[test]
    #[should_panic(expected = "it is empty")]
    fn a_template_that_makes_no_name_panics() {
        let _ = template_key("");
    }

    #[test]
    #[should_panic(expected = "has no `{extension:user}`")]
    fn a_type_without_its_extension_panics() {
        let _ = template_key("{extension:tenant}").extension::<String>("user");
    }

    #[test]
    #[should_panic(expected = "has a type already")]
    fn a_second_type_panics() {
        let _ = template_key("{extension:a}").extension::<String>("a").extension::<u8>("a");
    }

    #[test]
    #[should_panic(expected = r#"add `.extension::<Type>("user")`"#)]
    fn an_extension_without_a_type_panics() {
        let key = template_key("{extension:user}:{extension:a}").extension::<String>("a");
        key.assert_complete();
    }
}
