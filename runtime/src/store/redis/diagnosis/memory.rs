//! Memory: what happens when it is full, and whether it nearly is.

use super::super::server_info;
use super::material::Material;
use super::names;
use super::report::{Report, bytes, config_set};

/// The part of `maxmemory` in use from which on there is a warning, in percent.
const NEARLY_FULL: u64 = 90;

/// It is no use to raise `maxmemory` to less: connections alone take some.
const ENOUGH: u64 = 64 << 20;

const FULL: &str = "A full server grants no lock and takes no waiter (OOM). It still renews and \
                    releases.";

pub(super) fn check(material: &Material, report: &mut Report) {
    let info = material.info.got();
    let number = |name| info.and_then(|info| info.number::<u64>(name));
    let (used, most) = (number("used_memory"), number("maxmemory").unwrap_or(0));
    if let (Some(info), Some(used)) = (info, used) {
        let policy = info.text("maxmemory_policy").unwrap_or("unknown");
        let most = if most == 0 { "no limit".to_owned() } else { bytes(most) };
        report.fact("memory", format!("{} of {most}, maxmemory-policy {policy}", bytes(used)));
    }
    let eviction = info.and_then(|info| server_info::eviction_risk(info.all()));
    if let Some(risk) = &eviction {
        let remedy = format!(
            "{}, or give the locks a server of their own",
            config_set("maxmemory-policy", "noeviction")
        );
        if most > 0 {
            let found = format!("{}, with maxmemory {}", risk.found, bytes(most));
            report.problem(names::EVICTION, found, risk.meaning, remedy);
        } else {
            let found = format!("{}, without a maxmemory as yet", risk.found);
            report.warning(names::EVICTION, found, risk.meaning, remedy);
        }
    }
    if let Some(evicted) = number("evicted_keys").filter(|count| *count > 0) {
        let found = format!("it has evicted {evicted} keys since its statistics began");
        let meaning = "Held locks may be among them: then two clients held the same one.";
        let remedy = "Set the policy to noeviction, look for work that ran twice, then start the \
                      count again: `CONFIG RESETSTAT`";
        if eviction.is_some() {
            report.problem(names::EVICTED, found, meaning, remedy);
        } else {
            report.warning(names::EVICTED, found, meaning, remedy);
        }
    }
    let refuses = material.write.is_refused_with("OOM");
    let counted =
        used.unwrap_or(0).saturating_sub(number("mem_not_counted_for_evict").unwrap_or(0));
    let is_limited = most > 0 && eviction.is_none();
    let percent = counted.saturating_mul(100).checked_div(most).filter(|_| is_limited);
    let percent = percent.unwrap_or(0);
    if !refuses && percent < NEARLY_FULL {
        return;
    }
    let found = match used {
        Some(used) if most > 0 => format!("it uses {} of {}", bytes(used), bytes(most)),
        _ => "it refuses writes: its memory is full".to_owned(),
    };
    let target = used.unwrap_or(0).max(most).saturating_mul(2).max(ENOUGH);
    let remedy = if most > 0 {
        format!("{}; or find out which keys fill it", config_set("maxmemory", &target.to_string()))
    } else {
        "Raise its maxmemory, or find out which keys fill it.".to_owned()
    };
    if refuses || percent >= 100 {
        report.problem(names::MEMORY, found, FULL, remedy);
    } else {
        report.warning(names::MEMORY, found, FULL, remedy);
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use super::super::material::tests::{refused, said};
    use crate::store::Severity;

    fn checks(info: &str) -> Vec<(&'static str, Severity)> {
        judge(&said(info, &[])).findings.iter().map(|it| (it.check, it.severity)).collect()
    }

    #[test]
    fn eviction_matters_more_with_a_limit() {
        use Severity::{Problem, Warning};
        assert_eq!(checks("maxmemory:0\nmaxmemory_policy:noeviction\n"), []);
        let free = "maxmemory:0\nmaxmemory_policy:volatile-ttl\n";
        assert_eq!(checks(free), [("eviction", Warning)]);
        let limited = "maxmemory:100\nmaxmemory_policy:allkeys-lru\nused_memory:100\n";
        assert_eq!(checks(limited), [("eviction", Problem)]);
        assert_eq!(checks("evicted_keys:3\n"), [("evicted-keys", Warning)]);
        let evicting = format!("{limited}evicted_keys:3\n");
        assert_eq!(checks(&evicting), [("eviction", Problem), ("evicted-keys", Problem)]);
    }

    /// A server may use little memory, and have been given less.
    #[test]
    fn the_remedy_is_enough_for_some_connections() {
        let info = "maxmemory:1\nmaxmemory_policy:noeviction\nused_memory:1000000\n";
        let remedy = judge(&said(info, &[])).findings[0].remedy.clone();
        assert!(remedy.contains("CONFIG SET maxmemory 67108864"), "{remedy}");
    }

    #[test]
    fn nearly_full_and_full() {
        use Severity::{Problem, Warning};
        let at = |used: u64| {
            checks(&format!("maxmemory:1000\nmaxmemory_policy:noeviction\nused_memory:{used}\n"))
        };
        assert_eq!(at(899), []);
        assert_eq!(at(900), [("memory", Warning)]);
        assert_eq!(at(1000), [("memory", Problem)]);
        assert_eq!(at(u64::MAX), [("memory", Problem)]);
        let mut silent = said("", &[]);
        silent.write = refused("OOM", "command not allowed");
        assert_eq!(judge(&silent).findings[0].check, "memory");
    }
}
