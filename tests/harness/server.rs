//! A redis-server of a test's own.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;

use crate::shell::Shell;
use crate::skew::{Clock, micros};
use crate::tls::{self, Wire};
use crate::waiting::{until, until_blocking};

/// A server on a free port of the loopback interface, empty, without
/// persistence. It ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    port: u16,
    /// The port for TLS, if it speaks TLS.
    tls_port: Option<u16>,
    shell: Shell,
    /// Its wall clock, if the test controls it.
    clock: Option<Clock>,
}

/// A connection to a server that is there, for a machine that may be busy: the driver alone waits for
/// half a second.
///
/// # Panics
///
/// If the server can't be reached, or refuses.
pub async fn connected(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).expect("a URL");
    let patience = Some(Duration::from_secs(10));
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(patience)
        .set_response_timeout(patience);
    let connected = client.get_multiplexed_async_connection_with_config(&config).await;
    connected.expect("the server is there")
}

impl Server {
    /// Starts a server.
    ///
    /// # Panics
    ///
    /// If there is no redis-server, or it does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with further arguments, such as `--requirepass x`.
    ///
    /// # Panics
    ///
    /// If there is no redis-server, or it does not start.
    #[must_use]
    pub fn start_with(arguments: &[&str]) -> Self {
        // Another process may take the port between the two binds.
        (0..10).find_map(|_| Self::try_start(free_port(), arguments, None)).expect(
            "redis-server did not start; `./tests/run` installs it with the system's package manager",
        )
    }

    /// Starts a server on a port that was used before. The system may have given the port to a
    /// connection meanwhile, so this tries for some seconds.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start_on(port: u16) -> Self {
        Self::start_on_with(port, &[])
    }

    /// The same with further arguments.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start_on_with(port: u16, arguments: &[&str]) -> Self {
        let mut started = None;
        until_blocking("the port is free again", || {
            started = Self::try_start(port, arguments, None);
            started.is_some()
        });
        started.expect("it has started")
    }

    /// The same. `None` if it does not start, for example because somebody has the port.
    ///
    /// # Panics
    ///
    /// If there is no shell.
    #[must_use]
    pub fn try_start_on(port: u16, arguments: &[&str]) -> Option<Self> {
        Self::try_start(port, arguments, None)
    }

    /// Starts a server whose wall clock is moved by [`jump`](Self::jump). `TIME` and every expiry
    /// use it. On Linux only; needs a C compiler.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start_skewed() -> Self {
        (0..10)
            .find_map(|_| Self::try_start(free_port(), &[], Some(Clock::new())))
            .expect("redis-server starts with a clock that is moved")
    }

    /// Moves the wall clock of a skewed server on.
    ///
    /// # Panics
    ///
    /// If the server goes by the real clock.
    pub fn jump(&self, time: Duration) {
        self.clock().jump(micros(time));
    }

    /// Moves the wall clock of a skewed server back.
    ///
    /// # Panics
    ///
    /// If the server goes by the real clock.
    pub fn jump_back(&self, time: Duration) {
        self.clock().jump(-micros(time));
    }

    /// Stops the wall clock of a skewed server, so that only jumps move it.
    ///
    /// # Panics
    ///
    /// If the server goes by the real clock.
    pub fn stop_clock(&self) {
        self.clock().stop();
    }

    fn clock(&self) -> &Clock {
        self.clock.as_ref().expect("it was started with `start_skewed`")
    }

    pub(crate) fn try_start(port: u16, arguments: &[&str], clock: Option<Clock>) -> Option<Self> {
        let port_text = port.to_string();
        let own = ["--bind", "127.0.0.1", "--port", &port_text, "--save", "", "--appendonly", "no"];
        let all: Vec<_> = own.iter().chain(arguments).map(|&text| text.to_owned()).collect();
        let shell = Shell::start("", &all, clock.as_ref())?;
        Some(Self { port, tls_port: None, shell, clock })
    }

    /// Starts a server that speaks TLS on this port. It has another port without TLS, for the
    /// test's own connections.
    pub(crate) fn try_start_tls(tls_port: u16, arguments: &[&str]) -> Option<Self> {
        let of_tls = tls::arguments(tls_port);
        let all = of_tls.iter().map(String::as_str).chain(arguments.iter().copied());
        let server = Self::try_start(free_port(), &all.collect::<Vec<_>>(), None)?;
        Some(Self { tls_port: Some(tls_port), ..server })
    }

    /// Starts a sentinel. It keeps its state in its configuration file.
    pub(crate) fn try_start_sentinel(port: u16, config: &str, wire: Wire) -> Option<Self> {
        let config = format!("bind 127.0.0.1\nport {port}\n{config}");
        let tls_port = (wire == Wire::Tls).then(free_port);
        let mut arguments = vec!["--sentinel".to_owned()];
        arguments.extend(tls_port.into_iter().flat_map(tls::arguments));
        let shell = Shell::start(&config, &arguments, None)?;
        Some(Self { port, tls_port, shell, clock: None })
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port that clients and other servers use: the one for TLS, if there is one.
    pub(crate) fn public_port(&self) -> u16 {
        self.tls_port.unwrap_or(self.port)
    }

    /// The URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_as("")
    }

    /// The same with a login, such as `user:password@`.
    #[must_use]
    pub fn url_as(&self, login: &str) -> String {
        format!("redis://{login}127.0.0.1:{}/", self.port)
    }

    /// A connection of the test's own.
    ///
    /// # Panics
    ///
    /// If the server can't be reached.
    pub async fn redis(&self) -> MultiplexedConnection {
        connected(&self.url()).await
    }

    /// The same to a server that requires a password.
    ///
    /// # Panics
    ///
    /// If the server can't be reached, or the password is another.
    pub async fn redis_as(&self, password: &str) -> MultiplexedConnection {
        connected(&self.url_as(&format!(":{password}@"))).await
    }

    /// The same as a user of the server.
    ///
    /// # Panics
    ///
    /// If the server can't be reached, or the password is another.
    pub async fn redis_of(&self, user: &str, password: &str) -> MultiplexedConnection {
        connected(&self.url_as(&format!("{user}:{password}@"))).await
    }

    /// The same to a server that may be dead or frozen.
    ///
    /// # Errors
    ///
    /// If it can't be reached within a quarter of a second.
    ///
    /// # Panics
    ///
    /// Never: its URL is one.
    pub async fn try_redis(&self) -> redis::RedisResult<MultiplexedConnection> {
        let client = redis::Client::open(self.url()).expect("a URL");
        let patience = Some(Duration::from_millis(250));
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(patience)
            .set_response_timeout(patience);
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// A number from the server's `INFO`.
    ///
    /// # Panics
    ///
    /// If the server can't be asked, or does not say it.
    pub async fn info(&self, section: &str, name: &str) -> u64 {
        let info = self.sections(&[section]).await;
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.expect(name).trim().parse().expect("a number")
    }

    async fn sections(&self, names: &[&str]) -> String {
        let mut info = redis::cmd("INFO");
        info.arg(names).query_async(&mut self.redis().await).await.expect("INFO")
    }

    /// The number of times that the server ran a command, and their time in microseconds, since its
    /// start or the last `forget_stats`.
    ///
    /// # Panics
    ///
    /// If the server can't be asked.
    pub async fn stats(&self, command: &str) -> (u64, u64) {
        let (info, line) = (self.sections(&["commandstats"]).await, format!("cmdstat_{command}"));
        (field(&info, &line, "calls="), field(&info, &line, "usec="))
    }

    /// The same for script calls, without those that the server refused because it did not know the
    /// script.
    ///
    /// # Panics
    ///
    /// If the server can't be asked.
    pub async fn script_calls(&self) -> u64 {
        let info = self.sections(&["commandstats", "errorstats"]).await;
        let calls = |line| field(&info, line, "calls=");
        let refused = field(&info, "errorstat_NOSCRIPT", "count=");
        calls("cmdstat_evalsha") + calls("cmdstat_eval") - refused
    }

    /// Resets the counts of `stats`.
    ///
    /// # Panics
    ///
    /// If the server can't be asked.
    pub async fn forget_stats(&self) {
        let mut reset = redis::cmd("CONFIG");
        reset.arg("RESETSTAT").exec_async(&mut self.redis().await).await.expect("CONFIG RESETSTAT");
    }

    /// Stops the server's process, so that it neither answers nor closes.
    ///
    /// # Panics
    ///
    /// If there is no `kill`.
    #[expect(clippy::unused_async, reason = "a test awaits what happens to servers")]
    pub async fn freeze(&self) -> Frozen {
        let frozen = Frozen { pid: self.shell.pid().to_owned() };
        signal("-STOP", &frozen.pid);
        frozen
    }

    /// Kills the server with SIGKILL, frozen or not, and waits until nobody listens on
    /// its port.
    ///
    /// # Panics
    ///
    /// If there is no `kill`.
    pub async fn kill(&self) {
        signal("-KILL", self.shell.pid());
        until("nobody listens on its port", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_err()
        })
        .await;
    }
}

/// A number in a line of the server's statistics; 0 if there is no such line.
fn field(info: &str, line: &str, name: &str) -> u64 {
    let line = info.lines().find_map(|it| it.strip_prefix(line)?.strip_prefix(':'));
    let value = line.unwrap_or_default().split(',').find_map(|part| part.strip_prefix(name));
    value.map_or(0, |value| value.trim().parse().expect("a number"))
}

/// A server that is stopped until this is dropped.
#[derive(Debug)]
pub struct Frozen {
    pid: String,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // It may have been killed meanwhile, and be gone.
        let _ = Command::new("kill").args(["-CONT", &self.pid]).stderr(Stdio::null()).status();
    }
}

/// Sends a signal to a process.
///
/// # Panics
///
/// If there is no `kill`, or no such process.
pub fn signal(name: &str, pid: &str) {
    let status = Command::new("kill").args([name, pid]).status().expect("there is `kill`");
    assert!(status.success(), "kill {name} {pid}");
}

/// A port that nobody listens on. Each call of the process gives another.
///
/// # Panics
///
/// If the system has none.
#[must_use]
pub fn free_port() -> u16 {
    // The system gives a port that is free now. The next test must not take it as well.
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..1_000 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        if given.insert(port) {
            return port;
        }
    }
    panic!("each free port was given away before");
}
