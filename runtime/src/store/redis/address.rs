//! Reads the URL of a server, of a cluster's nodes, or of sentinels. No error repeats any part
//! of the URL: it may contain a password.

use std::borrow::Cow;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

use super::endpoint::Endpoint;
use super::sentinel::Sentinels;
use crate::core::error::{LockError, Step};
use crate::store::StoreError;

/// Where a URL leads.
#[derive(Clone, Debug)]
pub(super) enum Address {
    /// To one server, perhaps the master that sentinels name.
    One(Box<Endpoint>),
    /// To nodes of a cluster.
    Cluster(Vec<ConnectionInfo>),
}

pub(super) fn not_connected(what: String, error: StoreError) -> LockError {
    let StoreError { outcome, is_passing, source: cause, .. } = error;
    LockError::Store { step: Step::Connect, what, outcome, is_passing, cause, label: None }
}

fn invalid<T>(problem: &str) -> Result<T, LockError> {
    Err(LockError::InvalidOption {
        option: "url",
        problem: format!(
            "{problem}; write redis://host:port, redis://user:password@host, redis://host,host \
             for a cluster (with the feature `cluster`), redis+sentinel://host,host/NAME for the \
             master of this name, rediss://host for TLS (with the feature `tls`) or \
             unix:///path?user=…&pass=…"
        ),
    })
}

/// Reads a URL.
pub(super) fn read(url: &str) -> Result<Address, LockError> {
    let url = url.trim();
    if url.contains(char::is_control) {
        // The driver would drop it silently, also from a password.
        return invalid("it contains a control character");
    }
    let Some((scheme, rest)) = url.split_once("://") else { return invalid("it is not a URL") };
    let scheme = scheme.to_ascii_lowercase();
    let parts = Parts::of(rest)?;
    match scheme.as_str() {
        "unix" | "redis+unix" | "valkey+unix" => {
            parts.check(&["db", "user", "pass", "protocol"], false)?;
            one(&format!("{scheme}://{rest}")).map(fixed)
        }
        "redis" | "valkey" => parts.servers(&scheme, false),
        "rediss" | "valkeys" => parts.servers(&scheme, true),
        "redis+sentinel" => parts.sentinels("redis", false),
        "rediss+sentinel" => parts.sentinels("rediss", true),
        _ => invalid("its scheme is unknown"),
    }
}

/// The parts of a URL after its scheme, still percent-encoded.
struct Parts<'a> {
    /// User and password, with the `@` after them.
    login: &'a str,
    hosts: Vec<&'a str>,
    /// With the slash before it.
    path: &'a str,
    options: Vec<(&'a str, &'a str)>,
    fragment: &'a str,
}

impl<'a> Parts<'a> {
    fn of(rest: &'a str) -> Result<Self, LockError> {
        let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (login, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        if login.matches('@').count() > 1 && login.contains(',') {
            return invalid(
                "write user and password once, before the first host, and an @ in them as %40",
            );
        }
        let options = query.split('&').filter(|option| !option.is_empty());
        Ok(Self {
            login,
            hosts: hosts.split(',').collect(),
            path,
            options: options.map(|it| it.split_once('=').unwrap_or((it, ""))).collect(),
            fragment,
        })
    }

    /// Refuses what would otherwise be ignored silently.
    fn check(&self, known: &[&str], is_tls: bool) -> Result<(), LockError> {
        if !self.options.iter().all(|(name, _)| known.contains(name)) {
            let known = known.join(", ");
            return invalid(&format!("it has an option other than these: {known}"));
        }
        let is_protocol = |it: &str| matches!(it, "2" | "3" | "resp2" | "resp3");
        if self.options.iter().any(|(name, it)| *name == "protocol" && !is_protocol(it)) {
            return invalid("its protocol is neither resp2 nor resp3");
        }
        if is_tls && !cfg!(feature = "tls-no-provider") {
            return invalid("TLS needs the feature `tls`");
        }
        if !self.fragment.is_empty() {
            return invalid("it has a fragment; if the # belongs to a password, write %23");
        }
        Ok(())
    }

    /// The server at one of the hosts.
    fn at(
        &self,
        scheme: &str,
        login: &str,
        host: &str,
        path: &str,
    ) -> Result<ConnectionInfo, LockError> {
        if host.is_empty() {
            return invalid("a host is missing");
        }
        let (host, zone) = without_zone(host)?;
        let mut url = format!("{scheme}://{login}{host}{path}");
        if let Some((_, protocol)) = self.options.iter().rfind(|(name, _)| *name == "protocol") {
            url.extend(["?protocol=", protocol]);
        }
        let info = one(&url)?;
        let Some(zone) = zone else { return Ok(info) };
        let mut address = info.addr().clone();
        if let ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } = &mut address {
            host.extend(["%", zone]);
        }
        Ok(info.set_addr(address))
    }

    /// One server, or several nodes of a cluster.
    fn servers(&self, scheme: &str, is_tls: bool) -> Result<Address, LockError> {
        self.check(&["protocol"], is_tls)?;
        if let [host] = self.hosts[..] {
            let server = self.at(scheme, self.login, host, self.path)?;
            return Ok(fixed(server));
        }
        let at = |host: &&str| self.at(scheme, self.login, host, self.path);
        let nodes = self.hosts.iter().map(at).collect::<Result<Vec<_>, _>>()?;
        if !cfg!(feature = "cluster") {
            return invalid("several hosts are a cluster, which needs the feature `cluster`");
        }
        nodes.iter().try_for_each(check_node)?;
        Ok(Address::Cluster(nodes))
    }

    fn sentinels(&self, scheme: &str, is_tls: bool) -> Result<Address, LockError> {
        self.check(&["protocol", "sentinel_user", "sentinel_password"], is_tls)?;
        let mut path = self.path.trim_matches('/').split('/');
        let (name, db) = (path.next().unwrap_or_default(), path.next().unwrap_or("0"));
        if name.is_empty() {
            return invalid("the master's name is missing");
        }
        let is_in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if !name.chars().all(is_in_name) || path.next().is_some() {
            return invalid("after the hosts come the master's name and the number of a database");
        }
        let option = |name| self.options.iter().rfind(|it| it.0 == name).map(|it| in_login(it.1));
        let login = match (option("sentinel_user"), option("sentinel_password")) {
            (None, None) => String::new(),
            (user, Some(password)) => format!("{}:{password}@", user.unwrap_or_default()),
            (Some(_), None) => return invalid("sentinel_password is missing"),
        };
        let sentinel = |host: &&str| {
            let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
            let port = if has_port || host.is_empty() { "" } else { ":26379" };
            let info = self.at(scheme, &login, &format!("{host}{port}"), "")?;
            // All sentinels speak it, and the client asks only one question.
            let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
            Ok(info.set_redis_settings(settings))
        };
        let sentinels = self.hosts.iter().map(sentinel).collect::<Result<Vec<_>, _>>()?;
        let master = self.at(scheme, self.login, "master", &format!("/{db}"))?;
        let sentinels = Sentinels::new(sentinels, name.to_owned(), master);
        Ok(Address::One(Box::new(Endpoint::Sentinel(sentinels))))
    }
}

/// Takes the zone out of the host `[fe80::1%25eth0]`, as RFC 6874 writes it. URLs of the driver have none.
fn without_zone(host: &str) -> Result<(Cow<'_, str>, Option<&str>), LockError> {
    let Some((address, rest)) = host.split_once('%').filter(|_| host.starts_with('[')) else {
        return Ok((host.into(), None));
    };
    let (zone, port) = rest.split_once(']').unwrap_or_default();
    let zone = zone.strip_prefix("25").unwrap_or(zone);
    let is_in_zone = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '~');
    if zone.is_empty() || !zone.chars().all(is_in_zone) {
        return invalid("the zone of an address is malformed; write [fe80::1%25eth0]");
    }
    Ok((format!("{address}]{port}").into(), Some(zone)))
}

fn fixed(server: ConnectionInfo) -> Address {
    Address::One(Box::new(Endpoint::Fixed(server)))
}

/// Escapes the value of an option for use as a user or a password.
fn in_login(value: &str) -> String {
    let escape = |c: char| match c {
        '@' => "%40".to_owned(),
        ':' => "%3A".to_owned(),
        '/' => "%2F".to_owned(),
        '?' => "%3F".to_owned(),
        c => c.to_string(),
    };
    value.chars().map(escape).collect()
}

/// Refuses settings that a cluster does not have.
pub(super) fn check_node(node: &ConnectionInfo) -> Result<(), LockError> {
    if node.redis_settings().db() != 0 {
        return invalid("a cluster has only the database 0");
    }
    if !node.redis_settings().protocol().supports_resp3() {
        return invalid("a cluster needs RESP3");
    }
    Ok(())
}

/// The error for a single node of a cluster, which keeps only the locks of its own slots.
pub(super) fn no_cluster() -> LockError {
    LockError::InvalidOption {
        option: "url",
        problem:
            "it leads to a node of a cluster; connect to the cluster, redis://host,host, with \
                  the feature `cluster`"
                .to_owned(),
    }
}

/// Reads the URL of one server.
fn one(url: &str) -> Result<ConnectionInfo, LockError> {
    let Ok(info) = url.into_connection_info() else {
        // The driver's own text may repeat a part of the URL.
        return invalid("its host, port, database or login is malformed");
    };
    let settings = info.redis_settings();
    if settings.username().is_some() && settings.password().is_none() {
        // The driver would log in as the user `default`, without a word.
        return invalid(
            "it has a user and no password; write user:password@host, with any password for a user \
             that needs none",
        );
    }
    // The driver's default is RESP2. By RESP3 the connection for commands also carries hints.
    let is_chosen = url.contains("?protocol=") || url.contains("&protocol=");
    let protocol =
        if is_chosen { info.redis_settings().protocol() } else { ProtocolVersion::RESP3 };
    let settings = info.redis_settings().clone().set_protocol(protocol);
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    Ok(info.set_tcp_settings(tcp).set_redis_settings(settings))
}

#[cfg(test)]
mod tests;
