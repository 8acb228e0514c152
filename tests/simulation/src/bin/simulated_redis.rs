//! The simulated server behind a real port: it takes the place of `redis-server` in tests that
//! start one, such as the conformance suite.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_simulation::server::session::SessionId;
use leasehold_simulation::server::{Server, Settings};

fn main() {
    let mut settings = Settings::default();
    let mut args = std::env::args().skip(1).peekable();
    while let Some(arg) = args.next() {
        let Some(name) = arg.strip_prefix("--") else { continue };
        let is_value = |next: &String| !next.starts_with("--");
        let value = args.next_if(is_value).unwrap_or_default();
        match name {
            "version" => {
                println!("Redis server v=7.2.4 sha=00000000:0 malloc=libc bits=64 build=simulated");
                return;
            }
            "port" => settings.port = value.parse().expect("a port"),
            "requirepass" => settings.password = Some(value),
            name => drop(settings.config.insert(name.to_owned(), value)),
        }
    }
    settings.run_id = format!("{:040x}", now_us());
    let listener = TcpListener::bind(("127.0.0.1", settings.port)).expect("the port is free");
    listener.set_nonblocking(true).expect("a listener");
    println!("Ready to accept connections");
    serve(&listener, Server::new(settings, now_us()));
}

fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    i64::try_from(now.as_micros()).expect("it fits")
}

fn serve(listener: &TcpListener, mut server: Server) {
    let mut streams: BTreeMap<SessionId, TcpStream> = BTreeMap::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let mut is_idle = true;
        server.set_clock(now_us());
        while let Ok((stream, address)) = listener.accept() {
            stream.set_nonblocking(true).expect("a socket");
            stream.set_nodelay(true).expect("a socket");
            streams.insert(server.connect(address.to_string()), stream);
            is_idle = false;
        }
        let mut gone = Vec::new();
        for (id, stream) in &mut streams {
            match stream.read(&mut buffer) {
                Ok(0) => gone.push(*id),
                Ok(count) => {
                    server.set_clock(now_us());
                    server.receive(*id, &buffer[..count]);
                    is_idle = false;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => gone.push(*id),
            }
        }
        if server.next_timeout().is_some_and(|at| at <= now_us()) {
            server.set_clock(now_us());
            server.tick();
        }
        let pending: Vec<_> = server.pending().collect();
        for id in pending {
            let Some(stream) = streams.get_mut(&id) else { continue };
            let written = match server.take_output(id) {
                None => false,
                Some(output) => {
                    let _ = stream.set_nonblocking(false);
                    let written = stream.write_all(&output).is_ok();
                    let _ = stream.set_nonblocking(true);
                    written
                }
            };
            if !written {
                gone.push(id);
            }
        }
        for id in gone {
            server.disconnect(id);
            streams.remove(&id);
        }
        if is_idle {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}
