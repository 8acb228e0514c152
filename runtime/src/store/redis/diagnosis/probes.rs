//! Sends each command that locks need, in a form without an effect.

use futures_util::future::join_all;
use redis::Cmd;

use super::asker::Asker;
use super::commands::{Need, RIGHTS, Right};
use super::material::{Client, Deployment, Reply};

/// Sends them all at once: a user without rights is refused before anything else is looked at,
/// such as the command's arguments or the slot of its key.
pub(super) async fn run(asker: &Asker, client: &Client) -> Vec<(&'static Right, Reply<()>)> {
    let needed = RIGHTS.iter().filter(|right| is_needed(right.need, client));
    join_all(needed.map(async |right| {
        let reply = match right.words {
            [] if client.can_subscribe => asker.subscribe().await,
            [] => Reply::Missing,
            words => asker.ask(&command(words, client)).await.and_then(|_| Some(())),
        };
        (right, reply)
    }))
    .await
}

fn is_needed(need: Need, client: &Client) -> bool {
    match need {
        Need::Locks | Need::Batches | Need::Connections => true,
        Need::Limits => client.deployment != Deployment::Quorum,
        Need::Cluster | Need::ClusterMessages => client.deployment == Deployment::Cluster,
        Need::Messages => matches!(client.deployment, Deployment::One | Deployment::Sentinel),
        Need::Role => matches!(client.deployment, Deployment::Sentinel | Deployment::Quorum),
        Need::Uptime => client.counts_after.is_some(),
        Need::Sync => client.sync_replicas.is_some(),
    }
}

/// On a cluster, `CHANNEL` and `OTHER` are in different slots, so nobody can subscribe to both.
fn command(words: &[&str], client: &Client) -> Cmd {
    let Client { id, prefix, .. } = client;
    let is_cluster = client.deployment == Deployment::Cluster;
    let mut command = Cmd::new();
    for word in words {
        match *word {
            "KEY" => command.arg(format!("{prefix}:probe:{{{id}}}")),
            "CHANNEL" if is_cluster => command.arg(format!("{prefix}:wake:{{a}}:{id}")),
            "OTHER" => command.arg(format!("{prefix}:wake:{{b}}:{id}")),
            "CHANNEL" => command.arg(format!("{prefix}:wake:{id}")),
            word => command.arg(word),
        };
    }
    command
}
