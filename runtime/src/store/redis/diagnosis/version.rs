//! The version, and what kind of server it is.

use super::super::server_info;
use super::material::Material;
use super::names;
use super::report::Report;

pub(super) fn check(material: &Material, report: &mut Report) {
    let Some(info) = material.info.got() else { return };
    // Valkey reports the version of Redis that it is compatible with.
    match (info.text("valkey_version"), info.text("redis_version")) {
        (Some(valkey), _) => report.fact("version", format!("Valkey {valkey}")),
        (None, Some(redis)) => report.fact("version", format!("Redis {redis}")),
        (None, None) => {}
    }
    if let Some(mode) = info.text("redis_mode") {
        report.fact("mode", mode);
    }
    if let Some(role) = info.text("role") {
        report.fact("role", role);
    }
    if let Some(seconds) = info.number::<i64>("uptime_in_seconds") {
        report.fact("uptime", format!("{} s", seconds.max(0)));
    }
    if let Some(risk) = info.server().as_ref().and_then(server_info::version_risk) {
        report.problem(names::VERSION, &risk.found, risk.meaning, risk.remedy);
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use super::super::material::tests::said;

    #[test]
    fn a_version_before_6_2_is_a_problem() {
        let of = |version| {
            let info = format!("redis_version:{version}\nrun_id:a\nuptime_in_seconds:1\n");
            judge(&said(&info, &[])).findings
        };
        for works in ["6.2.14", "7.0.0", "10.0.1", "255.255.255", "x"] {
            assert!(of(works).is_empty(), "{works}");
        }
        for old in ["6.0.20", "5.0.14"] {
            assert_eq!(of(old)[0].check, "version");
        }
        assert_eq!(of("6.0.20")[0].found, "its version is 6.0");
    }
}
