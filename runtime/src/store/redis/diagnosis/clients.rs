//! The connections of all clients, and what ends them.

use super::material::Material;
use super::names;
use super::report::{Report, config_set};

/// The part of `maxclients` in use from which on there is a warning, in percent.
const NEARLY_FULL: u64 = 90;

/// A connection that is idle for fewer seconds than this is closed too soon.
const IDLE: u64 = 60;

/// Limits for the buffer of a connection with messages that are smaller are tiny: the hard one,
/// and the soft one.
const BUFFERS: (u64, u64) = (1 << 20, 256 << 10);

pub(super) fn check(material: &Material, report: &mut Report) {
    let number = |name| material.info.got().and_then(|info| info.number::<u64>(name));
    if let Some(connected) = number("connected_clients") {
        let most = number("maxclients").map_or(String::new(), |most| format!(" of {most}"));
        report.fact("clients", format!("{connected}{most}"));
        let percent = |most: u64| connected.saturating_mul(100).checked_div(most);
        if let Some(most) = number("maxclients").filter(|it| percent(*it) >= Some(NEARLY_FULL)) {
            let found = format!("{connected} clients are connected, and its maxclients is {most}");
            let meaning = "A client that connects, or reconnects, is refused, and then acquires \
                           and renews nothing.";
            let raised = most.saturating_mul(2).max(connected).to_string();
            let remedy = format!(
                "{}; or find out who opens so many: `CLIENT LIST`",
                config_set("maxclients", &raised)
            );
            if connected >= most {
                report.problem(names::MAX_CLIENTS, found, meaning, remedy);
            } else {
                report.warning(names::MAX_CLIENTS, found, meaning, remedy);
            }
        }
    }
    if let Some(count) = number("rejected_connections").filter(|count| *count > 0) {
        report.warning(
            names::REJECTED,
            format!("it has rejected {count} connections since its statistics began"),
            "Its maxclients was reached. A client that is rejected acquires and renews nothing.",
            "Raise its maxclients, or find out who opens so many: `CLIENT LIST`. Then start the \
             count again: `CONFIG RESETSTAT`",
        );
    }
    let idle: u64 = material.setting("timeout").and_then(|it| it.parse().ok()).unwrap_or(0);
    if (1..IDLE).contains(&idle) {
        report.warning(
            names::IDLE_TIMEOUT,
            format!("it closes connections that are idle for {idle} s"),
            "Locks are correct. After a quiet time the next command has to connect first, and \
             the log says each time that the connection failed.",
            config_set("timeout", "0"),
        );
    }
    if let Some(limits) = material.setting("client-output-buffer-limit").and_then(pubsub) {
        let (hard, soft) = limits;
        if (1..BUFFERS.0).contains(&hard) || (1..BUFFERS.1).contains(&soft) {
            report.warning(
                names::BUFFER,
                format!("its client-output-buffer-limit for pubsub is {hard} and {soft} bytes"),
                "The connection that carries messages, and by RESP3 all answers, is closed when \
                 they come faster than they are read. Commands in flight then fail.",
                config_set("client-output-buffer-limit", "\"pubsub 33554432 8388608 60\""),
            );
        }
    }
}

/// The hard and the soft limit of the class `pubsub`.
fn pubsub(limits: &str) -> Option<(u64, u64)> {
    let mut words = limits.split_whitespace().skip_while(|word| *word != "pubsub").skip(1);
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use super::super::material::tests::said;
    use crate::store::Severity::{self, Problem, Warning};

    fn checks(info: &str, config: &[(&str, &str)]) -> Vec<(&'static str, Severity)> {
        judge(&said(info, config)).findings.iter().map(|it| (it.check, it.severity)).collect()
    }

    #[test]
    fn room_for_clients_is_checked() {
        let with =
            |count: u64| checks(&format!("connected_clients:{count}\nmaxclients:100\n"), &[]);
        assert_eq!(with(89), []);
        assert_eq!(with(90), [("max-clients", Warning)]);
        assert_eq!(with(100), [("max-clients", Problem)]);
        assert_eq!(checks("connected_clients:5\nmaxclients:0\n", &[]), []);
        assert_eq!(checks("rejected_connections:0\n", &[]), []);
        assert_eq!(checks("rejected_connections:1\n", &[]), [("rejected-connections", Warning)]);
    }

    #[test]
    fn limits_of_connections_are_checked() {
        let idle = |seconds| checks("", &[("timeout", seconds)]);
        assert_eq!((idle("0"), idle("60"), idle("-1")), (vec![], vec![], vec![]));
        assert_eq!(idle("59"), [("idle-timeout", Warning)]);
        let buffer = |limits| checks("", &[("client-output-buffer-limit", limits)]);
        assert_eq!(
            buffer("normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"),
            []
        );
        assert_eq!(buffer("normal 1 1 1 slave 1 1 1 pubsub 0 0 0"), []);
        assert_eq!(buffer("normal 0 0 0 pubsub 1048575 0 0"), [("pubsub-buffer", Warning)]);
        assert_eq!(buffer("pubsub 0 1 1"), [("pubsub-buffer", Warning)]);
        assert_eq!(buffer("pubsub x"), []);
    }
}
