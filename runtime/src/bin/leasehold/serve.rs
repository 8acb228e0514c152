//! `serve`: the console on an address of this machine.

use std::io::Write;

use leasehold::console::Console;
use tokio::net::TcpListener;

use super::args::{Serve, Server};
use super::failure::{Failure, code};
use super::watch::end;

pub(super) async fn serve(server: &Server, serve: &Serve) -> Result<u8, Failure> {
    if !serve.listen.ip().is_loopback() && !serve.allow_remote {
        let text = format!(
            "{} can be reached from other machines, and the console asks nobody for a password; \
             listen on 127.0.0.1, or give --allow-remote",
            serve.listen
        );
        return Err(Failure::new(code::FAILED, text));
    }
    // The console is there while the server is away, and says so.
    let locks = server.connect_lazy("leasehold")?;
    let console = Console::new(&locks).allow_force(serve.allow_force).router();
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
