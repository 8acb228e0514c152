//! `serve`: the console on an address of this machine.

use std::io::Write;
use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use leasehold_console::Console;
use tokio::net::TcpListener;

use super::args::{Serve, Server};
use super::failure::{Failure, code};
use super::watch::end;

pub(super) async fn serve(server: &Server, serve: &Serve) -> Result<u8, Failure> {
    if !serve.listen.ip().is_loopback() && !serve.allow_remote {
        let text = format!(
            "{} can be reached from other machines, and the console has no login; \
             listen on 127.0.0.1, or give --allow-remote",
            serve.listen
        );
        return Err(Failure::new(code::FAILED, text));
    }
    // The console is there while the server is away, and says so.
    let locks = server.connect_lazy("leasehold")?;
    let mut console = Console::new(&locks)
        .server_name(server.url.as_deref().unwrap_or_default())
        .prefix(&server.prefix)
        .allow_force(serve.people.allow_force)
        .allow_limits(serve.people.allow_limits)
        .allow_run_again(serve.people.allow_run_again)
        .router();
    if !serve.allow_remote {
        console = console.layer(middleware::from_fn(refuse_other_hosts));
    }
    let listener = TcpListener::bind(serve.listen).await.map_err(|error| {
        Failure::new(code::FAILED, format!("can't listen on {}: {error}", serve.listen))
    })?;
    let end = end()?;
    let mut out = anstream::stdout();
    writeln!(out, "http://{}/", listener.local_addr()?)?;
    out.flush()?;
    // A page that a browser keeps open must not keep the process.
    tokio::select! {
        ended = async { axum::serve(listener, console).await } => ended?,
        () = end => {}
    }
    Ok(0)
}

/// Refuses requests for any other host than this machine. A page of somebody's, whose name leads
/// to 127.0.0.1 all of a sudden, is another host to the browser's rules: it could read the console.
async fn refuse_other_hosts(request: Request, next: Next) -> Response {
    if is_of_this_machine(request.headers()) {
        return next.run(request).await;
    }
    let text = "This console answers to localhost and 127.0.0.1 alone.\n";
    (StatusCode::MISDIRECTED_REQUEST, text).into_response()
}

fn is_of_this_machine(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
    host.is_some_and(|host| {
        let name = host.host().trim_start_matches('[').trim_end_matches(']');
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_served() {
        let is_served = |host: &'static str| {
            is_of_this_machine(&HeaderMap::from_iter([(HOST, host.parse().expect("a header"))]))
        };
        for host in ["localhost", "LOCALHOST:8517", "127.0.0.1:8517", "127.9.9.9", "[::1]:8517"] {
            assert!(is_served(host), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example:8517", "10.0.0.1", "", "127.0.0.1@evil"]
        {
            assert!(!is_served(host), "{host}");
        }
        assert!(!is_of_this_machine(&HeaderMap::new()));
    }
}
