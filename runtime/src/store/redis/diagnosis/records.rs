//! The stored keys: how many, and whether each has an expiry.

use super::material::{Material, Records};
use super::names;
use super::report::Report;

pub(super) fn check(material: &Material, report: &mut Report) {
    if let Some(info) = material.info.got() {
        let (keys, expires) = info.keys();
        report.fact("keys", format!("{keys} in all databases, {expires} of them with an expiry"));
    }
    let Some(records) = material.records.got() else { return };
    let Records { seen, locks, in_use, lasting, is_all } = records;
    let prefix = &material.client.prefix;
    let sample = if *is_all { "all" } else { "a sample" };
    report.fact(
        "records",
        format!(
            "{seen} keys under the prefix {prefix} ({sample}): {locks} of locks, {in_use} of \
             these in use"
        ),
    );
    let Some(first) = lasting.first() else { return };
    let of = if *is_all { "" } else { " in a sample of the keys" };
    let remedy = if is_plain(first) {
        format!(
            "Find out who writes it. `PEXPIRE {first} 60000` frees the lock after a minute, \
             unless somebody acquires it meanwhile."
        )
    } else {
        "Find out who writes it, and give it an expiry: `PEXPIRE`".to_owned()
    };
    report.warning(
        names::NO_EXPIRY,
        format!("{} records of locks have no expiry{of}: {first}", lasting.len()),
        "Something other than Leasehold wrote them, or removed the expiry. Such a lock counts as \
         held for ever, until a client asks for it and gives it an expiry.",
        remedy,
    );
}

/// A key that a shell and `redis-cli` take as it is.
fn is_plain(key: &str) -> bool {
    key.len() <= 200 && key.chars().all(|c| c.is_ascii_alphanumeric() || "{}:-_.%/".contains(c))
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use super::super::material::Reply;
    use super::super::material::tests::said;
    use super::*;

    #[test]
    fn a_record_without_an_expiry_is_found() {
        let with = |lasting: &[&str]| {
            let lasting = lasting.iter().map(|it| (*it).to_owned()).collect();
            let records = Reply::Got(Records { lasting, ..Records::default() });
            judge(&Material { records, ..said("", &[]) }).findings
        };
        assert!(with(&[]).is_empty());
        let found = with(&["p:lock:{a}", "p:lock:{b}"]);
        assert!(found[0].remedy.contains("`PEXPIRE p:lock:{a} 60000`"), "{found:?}");
        let odd = with(&["p:lock:{a' b`}"]);
        assert!(odd[0].remedy.ends_with("`PEXPIRE`"), "{odd:?}");
    }
}
