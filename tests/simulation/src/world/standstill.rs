//! A world in which nobody moves any more: who waits for what, so that a reader sees the circle.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::director::Director;
use super::shared::Shared;
use crate::oracle::{CLIENT, overview};
use crate::server::Server;
use crate::trace::time;

/// Says which requests of which processes have not ended, and who has each lock on each server.
pub(super) fn told(director: &Director, shared: &Shared) -> String {
    let who: Vec<_> = director.processes.iter().map(|it| it.name.clone()).collect();
    let now = time(director.now());
    let mut text = format!("standstill: at {}, {} have not ended\n", now.trim(), who.join(", "));
    for process in &director.processes {
        let _ = writeln!(text, "  {process:?}");
        let open = shared.open_requests(&process.name);
        if open.is_empty() {
            let _ = writeln!(text, "    has no request; its client shuts down");
        }
        for request in open {
            let _ = writeln!(text, "    {request}");
        }
    }
    let mut network = director.network();
    for address in network.addresses() {
        let host = network.host(address);
        let clients = clients(&host.server);
        let _ = writeln!(text, "  {address} ({:?})", host.condition);
        text += &overview(&host.server.core().borrow(), |client| {
            let number = clients.get(client.get(..CLIENT)?)?;
            let process = director.processes.iter().find(|it| it.id() == *number);
            Some(process.map_or_else(|| format!("process {number}"), |it| it.name.clone()))
        });
    }
    text.trim_end().to_owned()
}

/// The processes of the clients that listen to a server, by the ids of these clients.
pub(super) fn clients(server: &Server) -> BTreeMap<Vec<u8>, usize> {
    let known = server.listeners().filter_map(|(channel, address)| {
        let client = channel.get(channel.len().checked_sub(CLIENT)?..)?;
        let machine = address.split_once(':')?.0;
        Some((client.to_vec(), machine.rsplit('.').next()?.parse().ok()?))
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_history::{Kind, Line};

    use super::super::run_until_ended;
    use super::super::turns::{Worker, now};
    use super::super::wishes::{Part, Wish};
    use super::*;

    /// Has one lock, and waits for the other for longer than any world lasts.
    async fn cross(worker: Worker, has: &'static str, wants: &'static str) {
        let wish = |lock, wait| {
            let owner = format!("{}.0", worker.name);
            Wish::plain(Part::of(lock, Kind::Mutex), owner, Duration::from_secs(1), wait)
        };
        let first = wish(has, Duration::ZERO);
        let ids = worker.ask(&first);
        let held = worker.client.acquire(&first).await;
        worker.note(Line::Got { id: ids[0].clone(), at: now(), token: None });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let second = wish(wants, Duration::from_secs(10_000));
        worker.ask(&second);
        let _never = worker.client.acquire(&second).await;
        drop(held);
    }

    #[test]
    fn a_circle_is_told() {
        let (mut director, shared) = Director::quiet();
        for (has, wants) in [("mutex", "second"), ("second", "mutex")] {
            director.start_with(|worker| cross(worker, has, wants));
        }
        assert!(!run_until_ended(&mut director));
        let text = told(&director, &shared);
        for part in [
            "p0, p1 have not ended",
            "p0.0 holds `mutex` (Mutex) since 0.0",
            "p0.0 waits for `second` (Mutex) since 0.1",
            "p1.0 holds `second` (Mutex) since 0.0",
            "p1.0 waits for `mutex` (Mutex) since 0.1",
            "`{mutex}` is held\n      request 0 of p0 has it, for ",
            "ms\n      waiter 1: request 1 of p1, alive (",
            "`{second}` is held\n      request 0 of p1 has it, for ",
            "ms\n      waiter 1: request 1 of p0, alive (",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
