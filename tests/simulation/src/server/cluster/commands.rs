//! `CLUSTER`, and the commands that only nodes of a cluster have.

use super::super::Server;
use super::super::command::{Answer, check_arity, integer, is};
use super::super::reply::Reply;
use super::super::session::SessionId;
use super::{COUNT, Cluster, Node, NodeNumber, slot_of};

/// Runs one of them; `None` if it is not one.
pub(in super::super) fn run(
    server: &mut Server,
    id: SessionId,
    name: &str,
    args: &[Vec<u8>],
) -> Option<Answer> {
    let arity = match name {
        "ASKING" => 1,
        "CLUSTER" => -2,
        _ => return None,
    };
    if let Err(error) = check_arity(name, arity, args) {
        return Some(Err(error));
    }
    let is_node = server.core.borrow().cluster.is_some();
    Some(if !is_node {
        Err(Reply::error("ERR This instance has cluster support disabled"))
    } else if name == "ASKING" {
        server.session(id).is_asking = true;
        Ok(Reply::Ok)
    } else {
        about(server, args)
    })
}

fn about(server: &mut Server, args: &[Vec<u8>]) -> Answer {
    let cluster = server.core.borrow().cluster.clone().expect("it is a node");
    let subcommand = String::from_utf8_lossy(&args[1]).to_uppercase();
    match (subcommand.as_str(), &args[2..]) {
        ("INFO", []) => Ok(Reply::text(info(&cluster))),
        ("MYID", []) => Ok(Reply::text(cluster.view.nodes[cluster.own].id.clone())),
        ("NODES", []) => Ok(Reply::text(nodes(&cluster))),
        ("SLOTS", []) => Ok(slots(&cluster)),
        ("KEYSLOT", [key]) => Ok(Reply::Int(i64::from(slot_of(key)))),
        ("COUNTKEYSINSLOT", [slot]) => {
            integer(slot)?;
            Ok(Reply::count(server.keys_in(number(slot, "ERR Invalid slot")?).len()))
        }
        ("GETKEYSINSLOT", [slot, most]) => {
            let invalid = "ERR Invalid slot or number of keys";
            let (_, most) = (integer(slot)?, integer(most)?);
            let slot = number(slot, invalid)?;
            let most = usize::try_from(most).map_err(|_| Reply::error(invalid))?;
            let keys = server.keys_in(slot).into_iter().take(most);
            Ok(Reply::Array(keys.map(Reply::Bulk).collect()))
        }
        ("SETSLOT", [slot, rest @ ..]) if !rest.is_empty() => {
            set_slot(server, &cluster, number(slot, "ERR Invalid or out of range slot")?, rest)
        }
        (
            "INFO" | "MYID" | "NODES" | "SLOTS" | "KEYSLOT" | "COUNTKEYSINSLOT" | "GETKEYSINSLOT"
            | "SETSLOT",
            _,
        ) => {
            let name = subcommand.to_lowercase();
            let text = format!("ERR wrong number of arguments for 'cluster|{name}' command");
            Err(Reply::Error(text))
        }
        _ => {
            let given = String::from_utf8_lossy(&args[1]);
            Err(Reply::Error(format!("ERR unknown subcommand '{given}'. Try CLUSTER HELP.")))
        }
    }
}

fn number(slot: &[u8], error: &'static str) -> Result<u16, Reply> {
    let slot = integer(slot).ok().and_then(|it| u16::try_from(it).ok());
    slot.filter(|it| *it < COUNT).ok_or_else(|| Reply::error(error))
}

fn set_slot(server: &mut Server, cluster: &Cluster, slot: u16, rest: &[Vec<u8>]) -> Answer {
    let Cluster { own, view, .. } = cluster;
    if view.nodes[*own].master.is_some() {
        return Err(Reply::error("ERR Please use SETSLOT only with masters."));
    }
    let is_own = view.owner(slot) == Some(*own);
    let node = |id: &Vec<u8>, unknown: &str| {
        let found = view.nodes.iter().position(|it| it.id.as_bytes() == id.as_slice());
        let text = || format!("ERR {unknown} {}", String::from_utf8_lossy(id));
        found.ok_or_else(|| Reply::Error(text()))
    };
    match rest {
        [word, id] if is(word, "MIGRATING") => {
            if !is_own {
                return Err(Reply::Error(format!("ERR I'm not the owner of hash slot {slot}")));
            }
            server.set_migrating(slot, node(id, "I don't know about node")?);
        }
        [word, id] if is(word, "IMPORTING") => {
            if is_own {
                let text = format!("ERR I'm already the owner of hash slot {slot}");
                return Err(Reply::Error(text));
            }
            server.set_importing(slot, node(id, "I don't know about node")?);
        }
        [word] if is(word, "STABLE") => server.set_stable(slot),
        [word, id] if is(word, "NODE") => {
            let owner = node(id, "Unknown node")?;
            if is_own && owner != *own && !server.keys_in(slot).is_empty() {
                let text = format!(
                    "ERR Can't assign hashslot {slot} to a different node while I still hold keys \
                     for this hash slot."
                );
                return Err(Reply::Error(text));
            }
            server.set_owner(slot, owner);
        }
        _ => {
            let text =
                "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP";
            return Err(Reply::error(text));
        }
    }
    Ok(Reply::Ok)
}

fn slots(cluster: &Cluster) -> Reply {
    let nodes = &cluster.view.nodes;
    let node = |Node { host, port, id, .. }: &Node| {
        let port = Reply::Int(i64::from(*port));
        let parts = [Reply::text(host.clone()), port, Reply::text(id.clone()), Reply::Map(vec![])];
        Reply::Array(parts.to_vec())
    };
    let ranges = cluster.view.ranges().into_iter().map(|(first, last, owner)| {
        let replicas = nodes.iter().filter(|it| it.master == Some(owner) && !it.is_failing);
        let mut range = vec![Reply::Int(i64::from(first)), Reply::Int(i64::from(last))];
        range.push(node(&nodes[owner]));
        range.extend(replicas.map(node));
        Reply::Array(range)
    });
    Reply::Array(ranges.collect())
}

fn info(cluster: &Cluster) -> String {
    let view = &cluster.view;
    let (assigned, alive) = view.counts();
    let mut owners: Vec<_> = view.ranges().into_iter().map(|(_, _, owner)| owner).collect();
    owners.sort_unstable();
    owners.dedup();
    let (epoch, known, size) = (view.epoch, view.nodes.len(), owners.len());
    let state = if cluster.is_up() { "ok" } else { "fail" };
    format!(
        "cluster_state:{state}\r\ncluster_slots_assigned:{assigned}\r\ncluster_slots_ok:{alive}\r\n\
         cluster_slots_pfail:0\r\ncluster_slots_fail:{}\r\ncluster_known_nodes:{known}\r\n\
         cluster_size:{size}\r\ncluster_current_epoch:{epoch}\r\ncluster_my_epoch:{epoch}\r\n",
        assigned - alive
    )
}

fn nodes(cluster: &Cluster) -> String {
    let Cluster { own, view, migrating, importing, .. } = cluster;
    let ranges = view.ranges();
    let line = |(nth, node): (NodeNumber, &Node)| {
        let Node { id, host, port, master, is_failing } = node;
        let own_flag = if nth == *own { "myself," } else { "" };
        let role = if master.is_some() { "slave" } else { "master" };
        let fail = if *is_failing { ",fail" } else { "" };
        let of = master.map_or("-", |master| &*view.nodes[master].id);
        let (bus, epoch) = (port.wrapping_add(10_000), view.epoch);
        let state = if *is_failing { "disconnected" } else { "connected" };
        let mut line =
            format!("{id} {host}:{port}@{bus} {own_flag}{role}{fail} {of} 0 0 {epoch} {state}");
        let range = |(first, last, _): &(u16, u16, NodeNumber)| {
            if first == last { format!(" {first}") } else { format!(" {first}-{last}") }
        };
        line.extend(ranges.iter().filter(|(_, _, owner)| *owner == nth).map(range));
        if nth == *own {
            let open =
                migrating.iter().map(|(slot, to)| format!(" [{slot}->-{}]", view.nodes[*to].id));
            line.extend(open);
            let open =
                importing.iter().map(|(slot, of)| format!(" [{slot}-<-{}]", view.nodes[*of].id));
            line.extend(open);
        }
        line + "\n"
    };
    view.nodes.iter().enumerate().map(line).collect()
}
