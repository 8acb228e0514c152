//! What a restart forgets, and whether the server can save.

use super::super::server_info;
use super::info::Info;
use super::material::Material;
use super::names;
use super::report::{Report, config_set};

pub(super) fn check(material: &Material, report: &mut Report) {
    let Some(info) = material.info.got() else {
        if material.write.is_refused_with("MISCONF") {
            refuses(material, report);
        }
        return;
    };
    let saves = material.setting("save");
    if let Some(aof) = info.text("aof_enabled") {
        let aof = match (aof, material.setting("appendfsync")) {
            ("1", Some(sync)) => format!("appendonly yes, appendfsync {sync}"),
            ("1", None) => "appendonly yes".to_owned(),
            _ => "appendonly no".to_owned(),
        };
        let saves = match saves {
            Some("") => "no save points".to_owned(),
            Some(saves) => format!("save {saves}"),
            None => "save points unknown".to_owned(),
        };
        report.fact("persistence", format!("{aof}; {saves}"));
    }
    forgets(material, info, saves, report);
    saving(material, info, saves, report);
}

fn forgets(material: &Material, info: &Info, saves: Option<&str>, report: &mut Report) {
    let remedy = config_set("appendonly", "yes");
    let again = match material.client.counts_after {
        Some(time) => format!(" This server of a quorum then grants none for {time:?}."),
        None => " Then two clients may hold the same one.".to_owned(),
    };
    if let Some(risk) = server_info::persistence_risk(info.all(), saves) {
        let meaning = format!("{}.{again}", risk.meaning);
        report.warning(names::PERSISTENCE, risk.found, meaning, remedy);
    } else if let Some(saves) = saves.filter(|_| info.is("aof_enabled", "0")) {
        let found = format!("it saves snapshots alone (appendonly no, save {saves})");
        let meaning = format!("a restart loses the locks since the last snapshot.{again}");
        report.warning(names::PERSISTENCE, found, meaning, remedy);
    }
}

/// It can't write to its disk.
fn saving(material: &Material, info: &Info, saves: Option<&str>, report: &mut Report) {
    if material.write.is_refused_with("MISCONF") {
        return refuses(material, report);
    }
    let is_bad = |name| info.text(name).is_some_and(|status| status != "ok");
    if is_bad("aof_last_write_status") {
        report.problem(
            names::SAVING,
            "it could not write to its append-only file (aof_last_write_status)",
            "A restart loses the locks since then, and the server may refuse writes.",
            "Mend its disk: is that full? The next write that succeeds clears this.",
        );
    } else if is_bad("rdb_last_bgsave_status") {
        let stops = material.setting("stop-writes-on-bgsave-error") != Some("no");
        let found = "its last snapshot failed (rdb_last_bgsave_status)";
        if stops && saves != Some("") {
            report.problem(names::SAVING, found, STOPS, MEND);
        } else {
            let meaning = "Locks work. A restart loses those since the last snapshot, unless \
                           there is an append-only file.";
            report.warning(names::SAVING, found, meaning, MEND);
        }
    } else if is_bad("aof_last_bgrewrite_status") {
        report.warning(
            names::SAVING,
            "it could not rewrite its append-only file (aof_last_bgrewrite_status)",
            "Locks work. The file grows until the disk is full.",
            "Mend its disk: is that full? Then `BGREWRITEAOF`",
        );
    }
}

const STOPS: &str = "With stop-writes-on-bgsave-error the server refuses all writes: no lock is \
                     granted, renewed or released.";

const MEND: &str = "Mend its disk: is that full, or its folder gone? Then `BGSAVE`";

fn refuses(material: &Material, report: &mut Report) {
    let text = material.write.refusal().map(|refusal| refusal.text.clone()).unwrap_or_default();
    report.problem(names::SAVING, format!("it refuses writes: {text}"), STOPS, MEND);
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use super::super::material::tests::{refused, said};
    use crate::store::Severity::{self, Problem, Warning};

    fn checks(info: &str, config: &[(&str, &str)]) -> Vec<(&'static str, Severity)> {
        judge(&said(info, config)).findings.iter().map(|it| (it.check, it.severity)).collect()
    }

    #[test]
    fn only_an_append_only_file_keeps_locks() {
        let (off, on) = ("aof_enabled:0\n", "aof_enabled:1\n");
        assert_eq!(checks(on, &[("save", "")]), []);
        assert_eq!(checks(off, &[("save", "")]), [("persistence", Warning)]);
        assert_eq!(checks(off, &[("save", "3600 1")]), [("persistence", Warning)]);
        assert_eq!(checks(off, &[]), [], "it is not known");
    }

    #[test]
    fn a_disk_that_fails_stops_writes() {
        let failed = "aof_enabled:1\nrdb_last_bgsave_status:err\n";
        let stop = |yes| [("stop-writes-on-bgsave-error", yes), ("save", "60 1")];
        assert_eq!(checks(failed, &stop("yes")), [("saving", Problem)]);
        assert_eq!(checks(failed, &stop("no")), [("saving", Warning)]);
        assert_eq!(checks(failed, &[]), [("saving", Problem)]);
        assert_eq!(checks("aof_last_write_status:err\n", &[]), [("saving", Problem)]);
        assert_eq!(checks("aof_last_bgrewrite_status:err\n", &[]), [("saving", Warning)]);
        let mut silent = said("", &[]);
        silent.write = refused("MISCONF", "Redis is configured to save");
        assert_eq!(judge(&silent).findings[0].check, "saving");
    }
}
