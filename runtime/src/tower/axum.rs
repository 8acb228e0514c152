//! For axum: keys from a route's parameters, and the lease as an argument of a handler.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, OptionalFromRequestParts, RawPathParams};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::StatusCode;
use http::request::Parts;

use super::key::{KeyError, RequestKey};
use super::reject::problem;
use crate::core::key::{KeyTemplate, LockKey};
use crate::engine::lease::LeaseHandle;

/// Makes keys from a template over the parameters of axum's route, such as `"order:{id}"`
/// for the route `/orders/{id}`.
///
/// Values are percent-decoded as axum does it, and then escaped as in [`KeyTemplate`]: a
/// `/` in a value is `%2F` in the key. Text between two parameters must contain a character
/// that no value has, such as `:`, so that different values always make different keys.
/// `{{` and `}}` are braces. The route's wildcard `{*path}` is `{path}` here.
///
/// The values are the text in the URL, not what the handler parses: `1`, `01` and `+1` are
/// three locks for one number. Refuse all spellings but one before the layer, or lock in
/// the handler by the parsed value.
///
/// A request is refused with status 400 if its route lacks a parameter of the template or
/// has it twice, and if the value is empty, is not UTF-8, or makes the name too long.
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
    let checked = pieces(template).and_then(|pieces| {
        let sample = build(&pieces, |name| Ok::<_, KeyError>((name, "x")));
        sample.map(|_| PathKey { template, pieces }).map_err(|error| error.to_string())
    });
    match checked {
        Ok(key) => key,
        Err(problem) => panic!("the key template {template:?}: {problem}"),
    }
}

/// The key source that [`path_key`] makes, for types that name it.
///
/// # Examples
///
/// ```
/// use leasehold::tower::PathKey;
/// use leasehold::{LockLayer, Locks, path_key};
///
/// fn orders(locks: &Locks) -> LockLayer<PathKey> {
///     LockLayer::mutex(locks, path_key("order:{id}"))
/// }
/// ```
#[derive(Clone, Debug)]
pub struct PathKey {
    template: &'static str,
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Text(&'static str),
    Parameter(&'static str),
}

impl RequestKey for PathKey {
    fn lock_key(&self, parts: &mut Parts) -> Result<Option<LockKey>, KeyError> {
        let params = match RawPathParams::from_request_parts(parts, &()).now_or_never() {
            Some(Ok(params)) => params,
            Some(Err(RawPathParamsRejection::InvalidUtf8InPathParam(error))) => {
                return Err(KeyError::new(error.body_text()));
            }
            // It never has to wait, so this is a missing route, too.
            Some(Err(_)) | None => {
                return Err(self.misplaced("the layer is not on a route".to_owned()));
            }
        };
        let value = |name| {
            let mut values = params.iter().filter(|param| param.0 == name);
            match (values.next(), values.next()) {
                (Some((_, value)), None) => Ok((name, value)),
                (None, _) => {
                    Err(self.misplaced(format!("its route has no parameter `{{{name}}}`")))
                }
                (Some(_), Some(_)) => {
                    Err(self.misplaced(format!("its route has `{{{name}}}` more than once")))
                }
            }
        };
        build(&self.pieces, value).map(Some)
    }
}

impl PathKey {
    /// Logs a mistake of the server, which no client can correct.
    fn misplaced(&self, problem: String) -> KeyError {
        tracing::warn!(template = self.template, problem, "no lock key can be made from a request");
        KeyError::new(problem)
    }
}

/// The key for the values, each with its parameter's name.
fn build<'a>(
    pieces: &[Piece],
    value: impl Fn(&'static str) -> Result<(&'static str, &'a str), KeyError>,
) -> Result<LockKey, KeyError> {
    let mut key = KeyTemplate::new();
    for piece in pieces {
        key = match *piece {
            Piece::Text(text) => key.text(text),
            Piece::Parameter(name) => {
                let (name, value) = value(name)?;
                key.part(name, value)
            }
        };
    }
    key.finish().map_err(KeyError::new)
}

/// Splits a template into its pieces.
fn pieces(template: &'static str) -> Result<Vec<Piece>, String> {
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
        let Some((name, after)) = after.split_once('}') else {
            return Err("a `{` without its `}`; write `{{` for a brace in the key".to_owned());
        };
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!(
                "`{{{name}}}` is no parameter's name; write it as `{{id}}`, without anything else"
            ));
        }
        pieces.extend([Piece::Text(&rest[..at]), Piece::Parameter(name)]);
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    pieces.retain(|piece| *piece != Piece::Text(""));
    Ok(pieces)
}

/// The lease that the request runs under. With several layers it is the innermost one's.
///
/// Take an `Option` of it if a request may pass without a lock.
impl<S: Send + Sync> FromRequestParts<S> for LeaseHandle {
    type Rejection = NoLease;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoLease> {
        parts.extensions.get::<Self>().cloned().ok_or(NoLease)
    }
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for LeaseHandle {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned())
    }
}

/// The rejection of a request without a lock whose handler takes a [`LeaseHandle`]: status
/// 500.
///
/// # Examples
///
/// ```
/// use axum::extract::FromRequestParts;
/// use leasehold::LeaseHandle;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (mut parts, ()) = http::Request::new(()).into_parts();
/// let lease = <LeaseHandle as FromRequestParts<()>>::from_request_parts(&mut parts, &()).await;
/// println!("{}", lease.unwrap_err()); // says what to do
/// # }
/// ```
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "the handler takes a `LeaseHandle`, but this request is under no lock: no `LockLayer` is \
     on its route, or the layer let it through without one, as `fail_open()` does; take an \
     `Option<LeaseHandle>` there"
)]
pub struct NoLease;

impl IntoResponse for NoLease {
    fn into_response(self) -> Response {
        tracing::error!("{self}");
        problem(StatusCode::INTERNAL_SERVER_ERROR, &self.to_string(), None).map(Body::from)
    }
}

#[cfg(test)]
mod tests {
    use super::Piece::{Parameter, Text};
    use super::*;

    #[test]
    fn text_and_parameters_alternate() {
        assert_eq!(
            pieces("a:{b}:{c-d}"),
            Ok([Text("a:"), Parameter("b"), Text(":"), Parameter("c-d")].into())
        );
        assert_eq!(pieces("{{a}}{b}"), Ok([Text("{"), Text("a}"), Parameter("b")].into()));
        assert_eq!(pieces("{{{a}}}"), Ok([Text("{"), Parameter("a"), Text("}")].into()));
    }

    #[test]
    fn malformed_templates_are_refused() {
        for template in ["{", "}", "{}", "a{b", "{a}}", "{a b}", "{*a}", "{a:?}", "{a{b}"] {
            assert!(pieces(template).is_err(), "{template}");
        }
    }

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
