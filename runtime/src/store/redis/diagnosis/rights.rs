//! What the user may not do that locks need.

use super::material::{Material, Refusal};
use super::names;
use super::report::Report;

pub(super) fn check(material: &Material, report: &mut Report) {
    let refused = || {
        let all = material.rights.iter();
        all.filter_map(|(right, reply)| Some((right, reply.refusal()?)))
    };
    // One grant may be needed for both.
    let mut named: Vec<String> = Vec::new();
    // Locks don't work, or only something around them.
    for is_vital in [true, false] {
        let of_level = || refused().filter(|(right, _)| is_vital == right.need.is_vital());
        let mut grants: Vec<String> = Vec::new();
        for (right, refusal) in of_level().filter(|(_, refusal)| refusal.is_no_right()) {
            let grant = match subject(refusal) {
                Subject::Command => format!("+{}", right.grant),
                Subject::Keys => format!("~{}:*", material.client.prefix),
                Subject::Channels => format!("&{}:wake:*", material.client.prefix),
            };
            if !named.contains(&grant) {
                named.push(grant.clone());
                grants.push(grant);
            }
        }
        // A server that runs no scripts has a finding of its own.
        let runs_scripts = !material.script.refusal().is_some_and(Refusal::is_unknown);
        let removed = of_level().filter(|(right, refusal)| {
            refusal.is_unknown() && (runs_scripts || !["eval", "evalsha"].contains(&right.grant))
        });
        let removed: Vec<_> =
            removed.map(|(right, _)| right.grant.replace('|', " ").to_uppercase()).collect();
        write(material, report, is_vital, &grants, &removed);
    }
}

fn write(
    material: &Material,
    report: &mut Report,
    is_vital: bool,
    grants: &[String],
    removed: &[String],
) {
    let meaning = if is_vital {
        "Commands of locks are refused, some of them halfway: a lock that is acquired may stay \
         held until its TTL."
    } else {
        "Locks are correct. Without messages, waiters ask again every 5 to 200 ms; by \
         RESP2 and on a cluster, without publish alone, a hand-over takes up to 2 s. Without \
         client|info and client|kill, a late copy of a command can leave a lock held until its \
         TTL. Without role, a client may use a replica for a moment. Without mget, a call for \
         several locks costs the server more. Without hgetall, limits that operators set have no \
         effect."
    };
    if !grants.is_empty() {
        let found = format!("the user lacks {}", grants.join(" "));
        let remedy = material.client.grant(grants);
        if is_vital {
            report.problem(names::RIGHTS, found, meaning, remedy);
        } else {
            report.warning(names::RIGHTS, found, meaning, remedy);
        }
    }
    if !removed.is_empty() {
        let found = format!("the server does not know {}", removed.join(", "));
        let remedy = "Take `rename-command` for these out of its configuration, or use another \
                      server.";
        if is_vital {
            report.problem(names::RIGHTS, found, meaning, remedy);
        } else {
            report.warning(names::RIGHTS, found, meaning, remedy);
        }
    }
}

/// What a user may not use.
enum Subject {
    Command,
    Keys,
    Channels,
}

/// Reads the words of Redis 7.0 (`… to run the 'get' command`, `… to access one of the keys used
/// as arguments`) and of later versions (`… to access the 'x' key`).
fn subject(refusal: &Refusal) -> Subject {
    let text = refusal.text.trim_end();
    if text.contains(" to run ") {
        Subject::Command
    } else if text.contains("one of the channels ") || text.ends_with(" channel") {
        Subject::Channels
    } else if text.contains("one of the keys ") || text.ends_with(" key") {
        Subject::Keys
    } else {
        Subject::Command
    }
}

#[cfg(test)]
mod tests {
    use super::super::commands::{Need, RIGHTS, Right};
    use super::super::judge;
    use super::super::material::Reply;
    use super::super::material::tests::{refused, said};
    use super::*;
    use crate::store::Severity::{Problem, Warning};

    fn with(no: &[(&str, &str)]) -> Vec<crate::store::Finding> {
        let reply = |right: &'static Right| {
            let no = no.iter().find(|(grant, _)| *grant == right.grant);
            let reply = no.map_or(Reply::Got(()), |(_, text)| match text.split_once(' ') {
                Some((code, text)) => refused(code, text),
                None => Reply::Missing,
            });
            (right, reply)
        };
        judge(&Material { rights: RIGHTS.iter().map(reply).collect(), ..said("", &[]) }).findings
    }

    #[test]
    fn missing_rights_are_named_once_with_what_grants_them() {
        assert!(with(&[]).is_empty());
        let command = "NOPERM this user has no permissions to run the 'get' command";
        let keys =
            "NOPERM this user has no permissions to access one of the keys used as arguments";
        let found = with(&[("get", command), ("zadd", keys), ("zrem", keys), ("publish", command)]);
        assert_eq!((found.len(), found[0].severity, found[1].severity), (2, Problem, Warning));
        assert_eq!(found[0].found, "the user lacks +get ~leasehold:*");
        assert!(found[0].remedy.contains("`ACL SETUSER app +get ~leasehold:*`"), "{found:?}");
        assert!(found[1].remedy.contains("`ACL SETUSER app +publish`"), "{found:?}");
        let newer =
            with(&[("publish", "NOPERM User a has no permissions to access the 'x' channel")]);
        assert_eq!(newer[0].found, "the user lacks &leasehold:wake:*");
        let newer = with(&[("get", "NOPERM User a has no permissions to access the 'x' key")]);
        assert_eq!(newer[0].found, "the user lacks ~leasehold:*");
    }

    #[test]
    fn removed_commands_are_found_and_other_errors_are_none() {
        let found = with(&[("setrange", "ERR unknown command 'SETRANGE', with args")]);
        assert_eq!(found[0].found, "the server does not know SETRANGE");
        assert!(
            with(&[("hset", "ERR wrong number of arguments"), ("get", "MOVED 1 a:1")]).is_empty()
        );
    }

    /// The page lists what a user needs.
    #[test]
    fn the_rights_are_those_of_the_docs() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/keys.md");
        let page = std::fs::read_to_string(page).unwrap();
        let line = page.lines().find(|line| line.starts_with("ACL SETUSER")).unwrap();
        let listed: Vec<_> = line.split(' ').filter_map(|word| word.strip_prefix('+')).collect();
        let is_basic = |need| {
            use Need::{Batches, Connections, Limits, Locks, Messages};
            matches!(need, Locks | Batches | Limits | Messages | Connections)
        };
        let checked: Vec<_> =
            RIGHTS.iter().filter(|it| is_basic(it.need)).map(|it| it.grant).collect();
        for right in listed.iter().filter(|right| **right != "info") {
            assert!(checked.contains(right), "{right} is not checked");
        }
        for right in &checked {
            assert!(listed.contains(right), "{right} is not in docs/keys.md");
        }
        for right in RIGHTS {
            assert!(page.contains(&format!("+{}", right.grant)), "{}", right.grant);
        }
    }
}
