//! Keys from the parameters of axum's route.

use http::request::Parts;

use super::key::{KeyError, RequestKey};
use super::template::path_parameter;
use super::template_key::TemplateKey;
use crate::core::key::LockKey;

/// Makes keys from a template over the parameters of axum's route, such as `"order:{id}"`
/// for the route `/orders/{id}`. [`template_key`](super::template_key) combines them with other
/// values of the request.
///
/// Values are percent-decoded as axum does it, and then escaped as in [`KeyTemplate`](crate::KeyTemplate): a
/// `/` in a value is `%2F` in the key. Text between two parameters must contain a character
/// that no value has, such as `:`, so that different values always make different keys.
/// `{{` and `}}` are braces. The route's wildcard `{*path}` is `{path}` here.
///
/// The values are the text in the URL, not what the handler parses: `1`, `01` and `+1` are
/// three locks for one number. Refuse all spellings but one before the layer, or lock in
/// the handler by the parsed value.
///
/// A request is refused with status 500 if its route lacks a parameter of the template or
/// has it twice, and with 400 if the value is empty, is not UTF-8, or makes the name too long.
///
/// Put the layer on the methods of a route: `put(update).route_layer(…)`. Then only
/// requests that reach a handler take the lock. The parameters are also known with
/// `put(update).layer(…)`, `Router::route_layer` and `Router::layer`. But there a request
/// with a wrong method takes the lock before it is answered with 405, or gets 409 if the
/// lock is held. With `Router::layer`, a request with a wrong path gets 400 instead of 404.
/// A layer around the finished router (`layer.layer(router)`) sees no parameters, and
/// refuses everything.
///
/// # Panics
///
/// When the app is built, as in `Router::route`: if the template is malformed, if nothing
/// separates the values of two parameters (`"{a}-{b}"`), or if no lock can have its names.
///
/// # Examples
///
/// ```
/// use axum::{Router, extract::Path, routing::put};
/// use http::{Request, StatusCode};
/// use leasehold::{LeaseHandle, LockLayer, Locks, path_key};
/// use tower::ServiceExt;
///
/// async fn update(Path(id): Path<u64>, lease: LeaseHandle) -> String {
///     format!("order {id} is changed by one at a time: {lease:?}")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = Locks::in_memory();
///
/// let one_at_a_time = LockLayer::mutex(&locks, path_key("order:{id}"));
/// let app: Router = Router::new().route("/orders/{id}", put(update).route_layer(one_at_a_time));
///
/// let lease = locks.mutex("order:42").lock().await?;
/// let request = Request::put("/orders/42").body(axum::body::Body::empty())?;
/// let response = app.oneshot(request).await?;
/// assert_eq!(response.status(), StatusCode::CONFLICT);
/// # Ok(())
/// # }
/// ```
#[must_use]
#[track_caller]
pub fn path_key(template: &'static str) -> PathKey {
    PathKey(TemplateKey::new(template, path_parameter))
}

/// The key source that [`path_key`] makes, for types that name it.
///
/// # Examples
///
/// ```
/// use leasehold::layer::PathKey;
/// use leasehold::{LockLayer, Locks, path_key};
///
/// fn orders(locks: &Locks) -> LockLayer<PathKey> {
///     LockLayer::mutex(locks, path_key("order:{id}"))
/// }
/// ```
#[derive(Clone, Debug)]
pub struct PathKey(TemplateKey);

impl PathKey {
    pub(super) fn template(&self) -> &'static str {
        self.0.template()
    }
}

impl RequestKey for PathKey {
    fn lock_key(&self, parts: &mut Parts) -> Result<Option<LockKey>, KeyError> {
        self.0.lock_key(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = r#"the key template "order:{id": a `{` without its `}`"#)]
    fn a_malformed_template_panics_when_the_app_is_built() {
        let _ = path_key("order:{id");
    }

    #[test]
    #[should_panic(expected = "`{a}` and `{b}` apart: write `{a}:{b}`")]
    fn a_template_that_mixes_its_values_panics_too() {
        let _ = path_key("files:{a}/{c}:{a}-{b}");
    }

    #[test]
    #[should_panic(expected = "it is empty")]
    fn a_template_that_makes_no_name_panics_too() {
        let _ = path_key("");
    }
}
