//! A server that speaks TLS, and the authority that signed for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::server::{Server, free_port};
use crate::shim::folder;

/// The documented arguments of a server with TLS follow this text. The tests' server has one more
/// port, without TLS, for the test's own connections.
const DOCUMENTED: &str = "redis-server --port 0 ";

/// The documented arguments for servers that connect to each other follow this text.
const DOCUMENTED_BETWEEN: &str = "speak TLS with each other if you add `";

/// The wire between servers, and between them and clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Not encrypted.
    Plain,
    /// Encrypted.
    Tls,
}

impl Wire {
    /// Starts a server that others find on this port.
    pub(crate) fn try_start(self, port: u16, arguments: &[&str]) -> Option<Server> {
        match self {
            Self::Plain => Server::try_start(port, arguments, None),
            Self::Tls => Server::try_start_tls(port, arguments),
        }
    }

    /// The URL of several servers of this sort.
    pub(crate) fn url(self, sort: &str, login: &str, servers: &[Server]) -> String {
        let scheme = match self {
            Self::Plain => "redis",
            Self::Tls => "rediss",
        };
        let hosts = servers.iter().map(|server| format!("127.0.0.1:{}", server.public_port()));
        format!("{scheme}{sort}://{login}{}", hosts.collect::<Vec<_>>().join(","))
    }
}

/// A server with a certificate of the tests' own authority.
#[derive(Debug)]
pub struct Tls(Server);

impl Tls {
    /// Starts it.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts it with further arguments.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start_with(more: &[&str]) -> Self {
        // Another process may take the port between the two binds.
        let start = |_| Server::try_start_tls(free_port(), more);
        Self((0..10).find_map(start).expect("a redis-server that can TLS"))
    }

    /// The URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_as("")
    }

    /// The same with a login, such as `:password@`.
    #[must_use]
    pub fn url_as(&self, login: &str) -> String {
        format!("rediss://{login}127.0.0.1:{}/", self.0.public_port())
    }
}

/// The arguments that make a server or a sentinel speak TLS on this port.
pub(crate) fn arguments(port: u16) -> Vec<String> {
    let page = include_str!("../../docs/guide/deployments.md");
    let line = page.lines().find_map(|line| line.strip_prefix(DOCUMENTED));
    let between = page.lines().find_map(|line| line.split_once(DOCUMENTED_BETWEEN));
    let between = between.and_then(|(_, rest)| rest.split('`').next());
    let (line, between) = line.zip(between).expect("docs/guide/deployments.md says how");
    let filled = |word| match word {
        "6379" => port.to_string(),
        "server.crt" | "server.key" => text(&certificates().join(word)),
        "ca.crt" => authority(),
        word => word.to_owned(),
    };
    line.split(' ').chain(between.split(' ')).map(filled).collect()
}

/// The file of the authority's certificate: a process that starts with it in
/// `SSL_CERT_FILE` trusts these servers.
///
/// # Panics
///
/// If it can't be made.
#[must_use]
pub fn authority() -> String {
    text(&certificates().join("ca.crt"))
}

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

/// The folder of the certificates, which do not expire. They are made once in a target folder. If
/// several processes make them at the same time, the first one's stay.
fn certificates() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let whole = folder().join("certificates");
        if !whole.exists() {
            let draft = folder().join(format!("certificates-{}", std::process::id()));
            redis_server_wrapper::tls::generate_test_certs(&draft).expect("certificates");
            if fs::rename(&draft, &whole).is_err() {
                fs::remove_dir_all(&draft).expect("our own folder");
            }
        }
        whole
    })
}
