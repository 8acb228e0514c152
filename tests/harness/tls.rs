//! A server that speaks TLS, and who signed for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::server::{Server, free_port};
use crate::skew::folder;

/// What a server is started with goes behind this. Beside TLS, the tests' one has a port
/// by which they can look behind the scenes.
const DOCUMENTED: &str = "redis-server --port 0 ";

/// A server with a certificate of the tests' own authority.
#[derive(Debug)]
pub struct Tls {
    /// It listens on a second port without TLS.
    _server: Server,
    port: u16,
}

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
        let [cert, key] = ["server.crt", "server.key"].map(|file| text(&certificates().join(file)));
        let authority = authority();
        let page = include_str!("../../docs/deployments.md");
        // Another process may take the port between the two binds.
        let start = |_| {
            let port = free_port();
            let of_port = port.to_string();
            let line = page.lines().find_map(|line| line.strip_prefix(DOCUMENTED));
            let line = line.expect("docs/deployments.md says how");
            let filled = |word| match word {
                "6379" => &of_port,
                "server.crt" => &cert,
                "server.key" => &key,
                "ca.crt" => &authority,
                word => word,
            };
            let mut arguments: Vec<_> = line.split(' ').map(filled).collect();
            arguments.extend(more);
            let server = Server::try_start(free_port(), &arguments, None)?;
            Some(Self { _server: server, port })
        };
        (0..10).find_map(start).expect("a redis-server that can TLS")
    }

    /// The URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_as("")
    }

    /// The same with a login, such as `:password@`.
    #[must_use]
    pub fn url_as(&self, login: &str) -> String {
        format!("rediss://{login}127.0.0.1:{}/", self.port)
    }
}

/// The file of the authority's certificate: who has it in `SSL_CERT_FILE`, from its
/// start on, trusts these servers.
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

/// The folder of the certificates, which do not end. They are made once in a target
/// folder; where other processes do so at the same time, the first has its way.
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
