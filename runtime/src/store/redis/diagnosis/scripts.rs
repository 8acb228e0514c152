//! Whether the server runs scripts and takes writes now.

use super::material::{Material, Reply};
use super::names;
use super::report::Report;
use super::unreachable::LOADING;

/// With these a replica, a full server and others refuse. Other checks say so.
const OTHERS: [&str; 7] =
    ["NOPERM", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "OOM", "MISCONF", "NOREPLICAS"];

pub(super) fn check(material: &Material, report: &mut Report) {
    let refused = [material.info.refusal(), material.script.refusal(), material.write.refusal()];
    let with = |code: &str| refused.iter().flatten().find(|refusal| refusal.code == code);
    let is_loading = material.info.got().is_some_and(|info| info.is("loading", "1"));
    if is_loading || with("LOADING").is_some() {
        let found = "it is loading its data from disk";
        let meaning = "Until it has loaded it, it grants, renews and releases nothing.";
        return report.problem(names::LOADING, found, meaning, LOADING);
    }
    if with("BUSY").is_some() {
        return report.problem(
            names::SCRIPT_RUNS,
            "somebody's script or function has been running for long (BUSY)",
            "Until it ends, the server answers nobody: leases can't be renewed, and expire.",
            "`SCRIPT KILL`, or `FUNCTION KILL`. If it has written already, only a restart ends it.",
        );
    }
    // A failover pauses the clients as well, and has a finding of its own.
    let fails_over = material.info.got().is_some_and(|info| {
        info.text("master_failover_state").is_some_and(|state| state != "no-failover")
    });
    let answers = !material.round_trips.is_empty();
    if answers && matches!(material.write, Reply::Missing) && !fails_over {
        return report.problem(
            names::PAUSED,
            "it answers, but it did not answer a write in time",
            "Its clients are paused, or it is overloaded: it grants, renews and releases nothing.",
            "`CLIENT UNPAUSE`. If it was not paused: `SLOWLOG GET`",
        );
    }
    let refusal = material.script.refusal();
    if let Some(refusal) = refusal.filter(|it| !OTHERS.contains(&&*it.code)) {
        let remedy = if refusal.is_unknown() {
            "EVAL was removed or renamed: take `rename-command` for EVAL and EVALSHA out of its \
             configuration, or use another server."
        } else {
            "Install Redis 6.2 or Valkey 7.2, or newer ones."
        };
        report.problem(
            names::SCRIPTS,
            format!("it runs no script: {} {}", refusal.code, refusal.text),
            "Each command of a lock is a script.",
            remedy,
        );
    }
    if !material.takes_flags {
        report.warning(
            names::SCRIPT_FLAGS,
            "it refuses the flags of scripts (`#!lua`), as servers before Redis 7.0 do",
            "Locks are correct. The server does not check which keys a script touches, and \
             inspect and list wait while writes are paused.",
            "Install Redis 7.0 or Valkey 7.2, or newer ones.",
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::judge;
    use super::super::material::tests::{refused, said};
    use super::*;

    #[test]
    fn each_refusal_is_one_finding() {
        let checks = |material: &Material| {
            judge(material).findings.iter().map(|it| it.check).collect::<Vec<_>>()
        };
        assert_eq!(checks(&said("loading:1\n", &[])), ["loading"]);
        let mut busy = said("", &[]);
        busy.script = refused("BUSY", "Redis is busy running a script.");
        assert_eq!(checks(&busy), ["busy-script"]);
        let mut paused = said("", &[]);
        paused.round_trips = vec![Duration::from_millis(1)];
        paused.write = Reply::Missing;
        assert_eq!(checks(&paused), ["paused"]);
        for (code, text) in [("ERR", "unknown command 'EVAL'"), ("ERR", "Error compiling script")] {
            let mut without = said("", &[]);
            without.script = refused(code, text);
            assert_eq!(checks(&without), ["scripts"]);
        }
        let mut old = said("", &[]);
        old.takes_flags = false;
        assert_eq!(checks(&old), ["script-flags"]);
    }
}
