//! Key sources: which lock a request takes.

use std::error::Error;
use std::fmt;

use http::request::Parts;

use crate::core::error::LockError;
use crate::core::key::{IntoLockKey, LockKey};

/// Selects the lock for each request of a [`LockLayer`](super::LockLayer).
///
/// A name is the same lock for all requests. [`template_key`](super::template_key) makes a
/// source from a template over the request's values, and [`key_by`] from a function.
///
/// # Examples
///
/// ```
/// use http::request::Parts;
/// use leasehold::LockKey;
/// use leasehold::layer::{KeyError, RequestKey};
///
/// struct ByHost;
///
/// impl RequestKey for ByHost {
///     fn lock_key(&self, parts: &mut Parts) -> Result<Option<LockKey>, KeyError> {
///         let host = parts.uri.host().ok_or_else(|| KeyError::new("the URI has no host"))?;
///         LockKey::new(format!("host:{host}")).map(Some).map_err(KeyError::new)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which lock a request takes",
    label = "not a key source",
    note = "use a name, `template_key(\"order:{{header:x-tenant}}\")`, `key_by(|parts| …)`, or, with the feature `axum`, `path_key(\"order:{{id}}\")`"
)]
pub trait RequestKey {
    /// The lock for this request, from its head. With `None` the request passes without a
    /// lock.
    ///
    /// The head is `&mut` for extractors; leave it as it is.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if no key can be made for this request. It is refused with status 400,
    /// and never passes without a lock.
    fn lock_key(&self, parts: &mut Parts) -> Result<Option<LockKey>, KeyError>;
}

macro_rules! plain_name {
    ($($name:ty),*) => {$(
        impl RequestKey for $name {
            fn lock_key(&self, _: &mut Parts) -> Result<Option<LockKey>, KeyError> {
                some(self)
            }
        }
    )*};
}
plain_name!(String, LockKey);

impl RequestKey for &'static str {
    fn lock_key(&self, _: &mut Parts) -> Result<Option<LockKey>, KeyError> {
        some(*self)
    }
}

/// Makes keys with a function of the request's head.
///
/// The function returns an `Option`, in which `None` lets the request pass without a lock,
/// or a `Result` of a key or of an `Option`. An error is answered with status 400, and so
/// is a name that no lock can have.
///
/// Build keys from untrusted values with [`KeyTemplate`](crate::KeyTemplate), so that no
/// value can name another lock.
///
/// # Examples
///
/// ```
/// use http::{HeaderValue, Request, Response, StatusCode};
/// use leasehold::layer::key_by;
/// use leasehold::{KeyTemplate, LockLayer, Locks};
/// use tower::{Layer, ServiceExt};
/// # use std::convert::Infallible;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = Locks::in_memory();
///
/// // One request at a time for each idempotency key, and no lock without the header. A header
/// // that can't be read is an error: `None` would let the request pass.
/// let by_header = LockLayer::mutex(&locks, key_by(|parts| {
///     let Some(key) = parts.headers.get("idempotency-key") else { return Ok(None) };
///     let key = key.to_str().map_err(|_| "the header Idempotency-Key is not ASCII")?;
///     let key = KeyTemplate::new().text("request:").part("key", key).finish();
///     key.map(Some).map_err(|_| "the header Idempotency-Key has no value that names a request")
/// }));
/// let service = by_header.layer(tower::service_fn(|_: Request<()>| async {
///     Ok::<_, Infallible>(Response::new(String::new()))
/// }));
/// let mut request = Request::new(());
/// let response = service.clone().oneshot(request.clone()).await?;
/// assert_eq!(response.status(), StatusCode::OK);
/// request.headers_mut().insert("idempotency-key", HeaderValue::from_bytes("ké".as_bytes())?);
/// let response = service.oneshot(request).await?;
/// assert_eq!(response.status(), StatusCode::BAD_REQUEST);
///
/// // Here, a request without the header is refused.
/// let by_tenant = LockLayer::mutex(&locks, key_by(|parts| {
///     let tenant = parts.headers.get("x-tenant").ok_or("the header x-tenant is missing")?;
///     let tenant = tenant.to_str().map_err(|_| "the header x-tenant is not ASCII")?;
///     let key = KeyTemplate::new().text("tenant:").part("tenant", tenant).finish();
///     key.map_err(|_| "the header x-tenant has no value that names a tenant")
/// }));
/// # Ok(())
/// # }
/// ```
pub fn key_by<F, T>(key: F) -> KeyBy<F>
where
    F: Fn(&Parts) -> T,
    T: MaybeKey,
{
    KeyBy(key)
}

/// The key source that [`key_by`] makes, for types that name it.
///
/// # Examples
///
/// ```
/// use http::request::Parts;
/// use leasehold::layer::{KeyBy, key_by};
/// use leasehold::{LockLayer, Locks};
///
/// fn by_path(locks: &Locks) -> LockLayer<KeyBy<fn(&Parts) -> Option<String>>> {
///     LockLayer::mutex(locks, key_by(|parts| Some(parts.uri.path().to_owned())))
/// }
/// ```
#[derive(Clone, Copy)]
pub struct KeyBy<F>(F);

impl<F, T> RequestKey for KeyBy<F>
where
    F: Fn(&Parts) -> T,
    T: MaybeKey,
{
    fn lock_key(&self, parts: &mut Parts) -> Result<Option<LockKey>, KeyError> {
        (self.0)(parts).maybe_key()
    }
}

impl<F> fmt::Debug for KeyBy<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyBy").finish_non_exhaustive()
    }
}

/// The return value of a function for [`key_by`]: an `Option` of a key, or a `Result` of a
/// key or of such an `Option`.
///
/// # Examples
///
/// ```
/// use leasehold::layer::MaybeKey;
///
/// assert!(Some("tenant:7").maybe_key().unwrap().is_some());
/// assert!(None::<String>.maybe_key().unwrap().is_none());
/// assert!(Err::<String, _>("the header x-tenant is missing").maybe_key().is_err());
/// ```
#[diagnostic::on_unimplemented(
    message = "a function for `key_by` cannot return `{Self}`",
    label = "neither a key nor the lack of one",
    note = "return `Option<_>`, `Result<_, E>` or `Result<Option<_>, E>`, of strings or `LockKey`s"
)]
pub trait MaybeKey {
    /// The key of a request; `None` lets it pass without a lock.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if the request should have a key and has none.
    fn maybe_key(self) -> Result<Option<LockKey>, KeyError>;
}

impl<K: IntoLockKey> MaybeKey for Option<K> {
    fn maybe_key(self) -> Result<Option<LockKey>, KeyError> {
        self.map_or(Ok(None), some)
    }
}

impl<K, E> MaybeKey for Result<K, E>
where
    K: IntoLockKey,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    fn maybe_key(self) -> Result<Option<LockKey>, KeyError> {
        self.map_err(KeyError::new).and_then(some)
    }
}

impl<K, E> MaybeKey for Result<Option<K>, E>
where
    K: IntoLockKey,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    fn maybe_key(self) -> Result<Option<LockKey>, KeyError> {
        self.map_err(KeyError::new)?.maybe_key()
    }
}

fn some(key: impl IntoLockKey) -> Result<Option<LockKey>, KeyError> {
    key.into_lock_key().map(Some).map_err(KeyError::new)
}

/// Why no key could be made for a request, or why it has no weight. The HTTP client gets to read
/// its text.
///
/// # Examples
///
/// ```
/// use leasehold::layer::KeyError;
///
/// let error = KeyError::new("the header x-tenant is missing");
/// assert_eq!(error.to_string(), "the header x-tenant is missing");
/// ```
#[derive(Debug)]
pub struct KeyError {
    text: String,
    /// No request of this kind has a key, whatever its client sends.
    pub(super) is_of_server: bool,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for KeyError {}

impl KeyError {
    /// Makes an error from a text, or with the text of another error.
    ///
    /// It takes only the problem of [`LockError::InvalidKey`], because the HTTP client must
    /// not read the name.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error = error.into();
        let text = match error.downcast_ref() {
            Some(LockError::InvalidKey { problem, .. }) => problem.clone(),
            _ => error.to_string(),
        };
        Self { text, is_of_server: false }
    }

    pub(super) fn of_server(text: String) -> Self {
        Self { text, is_of_server: true }
    }
}

/// Why a request has no value for a placeholder of a template.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoValue {
    /// The client sent none that can be used.
    OfClient(String),
    /// No client can correct it: a layer is missing, or is in the wrong place.
    OfServer(String),
    /// The request is on no route: its path is wrong, or the layer is around the whole app.
    #[cfg(feature = "axum")]
    OffRoute(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(source: &impl RequestKey) -> Result<Option<String>, String> {
        let (mut parts, ()) = http::Request::new(()).into_parts();
        let key = source.lock_key(&mut parts);
        key.map(|key| key.map(|key| key.name().to_owned())).map_err(|error| error.to_string())
    }

    #[test]
    fn names_and_functions_are_sources() {
        let a = || Ok(Some("a".to_owned()));
        assert_eq!(ask(&"a"), a());
        assert_eq!(ask(&"a".to_owned()), a());
        assert_eq!(ask(&LockKey::new("a").unwrap()), a());
        assert_eq!(ask(&key_by(|_| Some("a"))), a());
        assert_eq!(ask(&key_by(|_| Some(LockKey::new("a")))), a());
        assert_eq!(ask(&key_by(|_| LockKey::new("a"))), a());
        assert_eq!(ask(&key_by(|_| Ok::<_, &str>(Some("a")))), a());
        assert_eq!(ask(&key_by(|parts| Some(parts.uri.path().to_owned()))), Ok(Some("/".into())));
    }

    #[test]
    fn no_key_is_no_error_and_a_bad_one_is() {
        assert_eq!(ask(&key_by(|_| None::<String>)), Ok(None));
        assert_eq!(ask(&key_by(|_| Ok::<_, LockError>(None::<String>))), Ok(None));
        assert_eq!(ask(&key_by(|_| Err::<String, _>("no tenant"))), Err("no tenant".into()));
        assert_eq!(ask(&key_by(|_| Some(""))), ask(&""));
        assert!(ask(&"").is_err());
    }

    #[test]
    fn the_error_does_not_tell_the_name() {
        let text = ask(&"secret\n").unwrap_err();
        assert!(text.contains("control character") && !text.contains("secret"), "{text}");
    }
}
