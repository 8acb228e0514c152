//! A cluster as one of its nodes knows it.

use super::material::{Deployment, Material};
use super::names;
use super::report::Report;

const SLOTS: u32 = 16_384;

pub(super) fn check(material: &Material, report: &mut Report) {
    if let Some(full) = material.setting("cluster-require-full-coverage")
        && material.client.deployment == Deployment::Cluster
    {
        report.fact("full-coverage", format!("cluster-require-full-coverage {full}"));
    }
    let info = material.cluster.got();
    let number = |name| info.and_then(|info| info.number::<u32>(name));
    if let (Some(slots), Some(nodes)) = (number("cluster_slots_ok"), number("cluster_known_nodes"))
    {
        report.fact("cluster", format!("{nodes} nodes, {slots} of {SLOTS} slots are served"));
    }
    let assigned = number("cluster_slots_assigned").unwrap_or(SLOTS);
    let is_down = info.is_some_and(|info| info.text("cluster_state").is_some_and(|it| it != "ok"));
    if assigned < SLOTS {
        let state = if is_down { "and the cluster is down" } else { "the others work" };
        report.problem(
            names::CLUSTER_SLOTS,
            format!("{} of {SLOTS} slots have no node; {state}", SLOTS - assigned),
            "Locks whose names are in these slots can't be acquired. With \
             cluster-require-full-coverage that holds for all locks.",
            "Give the slots to a node: `redis-cli --cluster fix HOST:PORT`",
        );
    } else if is_down || material.write.is_refused_with("CLUSTERDOWN") {
        report.problem(
            names::CLUSTER_STATE,
            "its cluster is down (cluster_state fail)",
            "This node refuses all commands: too few masters can be reached, or slots have no \
             node that works.",
            "Start the nodes that fail: `CLUSTER NODES` names them.",
        );
    }
    let nodes = material.nodes.got().map_or("", String::as_str);
    let failed: Vec<_> = nodes.lines().filter_map(failed).collect();
    if let Some(first) = failed.first() {
        let found = match failed.len() {
            1 => format!("the node {first} does not answer the others"),
            more => format!("{more} nodes do not answer the others, such as {first}"),
        };
        report.warning(
            names::CLUSTER_NODES,
            found,
            "If it is a master, its locks can't be acquired until a replica has taken over. If \
             it is a replica, its master has none.",
            "Start it, or remove it: `CLUSTER FORGET` on each other node.",
        );
    }
}

/// The address of a node that is said to fail: `id host:port@bus flags …`.
fn failed(line: &str) -> Option<&str> {
    let mut words = line.split(' ').skip(1);
    let (address, flags) = (words.next()?, words.next()?);
    let fails = flags.split(',').any(|flag| flag == "fail" || flag == "fail?");
    fails.then(|| address.split('@').next().unwrap_or(address))
}

#[cfg(test)]
mod tests {
    use super::super::info::Info;
    use super::super::judge;
    use super::super::material::Reply;
    use super::super::material::tests::{refused, said};
    use super::*;

    fn checks(material: &Material) -> Vec<&'static str> {
        judge(material).findings.iter().map(|it| it.check).collect()
    }

    #[test]
    fn slots_and_the_state_are_checked() {
        let with = |state: &str, assigned: u32| {
            let info = format!("cluster_state:{state}\ncluster_slots_assigned:{assigned}\n");
            checks(&Material { cluster: Reply::Got(Info::new(info)), ..said("", &[]) })
        };
        assert_eq!(with("ok", 16_384), [""; 0]);
        assert_eq!(with("fail", 16_384), ["cluster-state"]);
        assert_eq!(with("fail", 16_383), ["cluster-slots"]);
        assert_eq!(with("ok", 99_999), [""; 0]);
        let down = refused("CLUSTERDOWN", "The cluster is down");
        assert_eq!(checks(&Material { write: down, ..said("", &[]) }), ["cluster-state"]);
    }

    #[test]
    fn nodes_that_fail_are_found() {
        let with = |nodes: &str| {
            checks(&Material { nodes: Reply::Got(nodes.to_owned()), ..said("", &[]) })
        };
        assert_eq!(with("a 1.2.3.4:1@2 myself,master - 0\nb 1.2.3.4:2@3 slave a\n\nx"), [""; 0]);
        assert_eq!(with("b 1.2.3.4:2@3,host slave,fail? a"), ["cluster-nodes"]);
        assert_eq!(with("b 1.2.3.4:2@3 master,fail -"), ["cluster-nodes"]);
    }
}
