//! Reads the values of a key's template from the head of a request.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use http::request::Parts;
use http::{Extensions, HeaderName};
use percent_encoding::percent_decode_str;

#[cfg(feature = "axum")]
use super::axum::{RouteParams, connected_peer};
use super::key::NoValue;

/// The head of one request, as the values of a key's template.
pub(super) struct RequestValues<'a> {
    parts: &'a mut Parts,
    /// The route's parameters, once they were read.
    #[cfg(feature = "axum")]
    params: Option<RouteParams>,
}

impl<'a> RequestValues<'a> {
    pub(super) fn new(parts: &'a mut Parts) -> Self {
        Self {
            parts,
            #[cfg(feature = "axum")]
            params: None,
        }
    }

    pub(super) fn header(&self, name: &HeaderName) -> Result<&str, NoValue> {
        let unusable = |why| NoValue::OfClient(format!("the header {name} {why}"));
        let mut values = self.parts.headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (Some(value), None) => value.to_str().map_err(|_| unusable("is not ASCII")),
            (None, _) => Err(unusable("is missing")),
            // The handler might read the other one.
            (Some(_), Some(_)) => Err(unusable("is there more than once")),
        }
    }

    /// A parameter of the URL's query. `+` is a space, as in forms.
    pub(super) fn query(&self, name: &str) -> Result<String, NoValue> {
        let unusable = |why| NoValue::OfClient(format!("the query parameter `{name}` {why}"));
        let query = self.parts.uri.query().unwrap_or_default();
        let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let mut values = pairs.filter(|(it, _)| decode(it).is_some_and(|it| it == name));
        match (values.next(), values.next()) {
            (Some((_, value)), None) => decode(value).ok_or_else(|| unusable("is not UTF-8")),
            (None, _) => Err(unusable("is missing")),
            (Some(_), Some(_)) => Err(unusable("is there more than once")),
        }
    }

    /// The address of the peer, without its port, which is another for each connection.
    pub(super) fn peer(&mut self) -> Result<IpAddr, NoValue> {
        #[cfg(feature = "axum")]
        let connected = connected_peer(self.parts);
        #[cfg(not(feature = "axum"))]
        let connected = None;
        let extensions = self.extensions();
        let address = connected.or_else(|| extensions.get::<SocketAddr>().copied());
        let ip = address.map(|address| address.ip()).or_else(|| extensions.get().copied());
        // A socket for both versions of IP shows IPv4 addresses as `::ffff:192.0.2.1`.
        ip.map(|ip: IpAddr| ip.to_canonical())
            .ok_or_else(|| NoValue::OfServer("the peer's address is not known".to_owned()))
    }

    #[cfg(feature = "axum")]
    pub(super) fn path(&mut self, name: &str) -> Result<&str, NoValue> {
        let params = match self.params.take() {
            Some(params) => params,
            None => RouteParams::read(self.parts)?,
        };
        self.params.insert(params).value(name)
    }

    pub(super) fn extensions(&self) -> &Extensions {
        &self.parts.extensions
    }
}

/// `None` if the text is not UTF-8. A replacement character in its place would make one key
/// of different values.
fn decode(text: &str) -> Option<String> {
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8().ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn query(uri: &str) -> Result<String, NoValue> {
        let (mut parts, ()) = Request::get(uri).body(()).unwrap().into_parts();
        RequestValues::new(&mut parts).query("a")
    }

    #[test]
    fn a_query_is_read_as_a_form_is() {
        for (uri, value) in [
            ("/?a=x", "x"),
            ("/?b=1&a=x&c", "x"),
            ("/?%61=%78", "x"),
            ("/?a=x+y%2Bz", "x y+z"),
            ("/?a=b=c", "b=c"),
            ("/?a=%26b%3D", "&b="),
            ("/?a=%C3%B6", "ö"),
            ("/?a=%zz%", "%zz%"),
            ("/?%ff=1&a=x", "x"),
            ("/?a", ""),
            ("/?a=", ""),
        ] {
            assert_eq!(query(uri), Ok(value.to_owned()), "{uri}");
        }
        for (uri, why) in [
            ("/", "is missing"),
            ("/?", "is missing"),
            ("/?A=x", "is missing"),
            ("/?a=%ff", "is not UTF-8"),
            ("/?a=x&a=x", "is there more than once"),
            ("/?a=x&%61=y", "is there more than once"),
        ] {
            let told = NoValue::OfClient(format!("the query parameter `a` {why}"));
            assert_eq!(query(uri), Err(told), "{uri}");
        }
    }

    fn peer<T: Clone + Send + Sync + 'static>(extension: T) -> Result<String, NoValue> {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.extensions.insert(extension);
        RequestValues::new(&mut parts).peer().map(|ip| ip.to_string())
    }

    #[test]
    fn a_peer_is_its_address_without_a_port() {
        let socket = |text: &str| text.parse::<SocketAddr>().unwrap();
        let v4 = Ok("192.0.2.1".to_owned());
        assert_eq!(peer(socket("192.0.2.1:80")), v4);
        assert_eq!(peer(socket("[::ffff:192.0.2.1]:80")), v4);
        assert_eq!(peer(socket("192.0.2.1:80").ip()), v4);
        assert_eq!(peer(socket("[2001:db8::1]:1")), Ok("2001:db8::1".to_owned()));
        assert!(matches!(peer("192.0.2.1"), Err(NoValue::OfServer(_))));
    }
}
