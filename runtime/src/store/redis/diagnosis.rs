//! The diagnosis of servers: collects what each says of itself and what can be measured, then
//! judges that by checks, which are pure functions.

mod asker;
mod clients;
mod cluster_state;
mod collect;
mod commands;
#[cfg(test)]
mod hostile;
mod info;
mod latency;
mod material;
mod memory;
mod names;
mod not_checked;
mod persistence;
mod probes;
mod records;
mod replicas;
mod report;
mod rights;
mod sample;
mod scripts;
mod unreachable;
mod version;

use std::sync::Arc;

use futures_util::future::join_all;

use self::material::Material;
use self::report::Report;
pub(super) use self::unreachable::unreachable;
use super::connection::Connection;
use super::encode::Encoder;
use crate::store::{Diagnosis, StoreError, StoreFuture};

/// All checks.
const CHECKS: &[fn(&Material, &mut Report)] = &[
    version::check,
    scripts::check,
    rights::check,
    replicas::check,
    cluster_state::check,
    memory::check,
    persistence::check,
    latency::check,
    clients::check,
    records::check,
    not_checked::check,
];

/// Looks at all servers at the same time.
pub(super) async fn run(
    connections: StoreFuture<Vec<Arc<Connection>>>,
    encoder: Encoder,
) -> Result<Diagnosis, StoreError> {
    let connections = connections.await?;
    let looks = connections.iter().map(|it| look(it, &encoder));
    let mut all = Diagnosis::default();
    for one in join_all(looks).await {
        all.merge(one);
    }
    Ok(all)
}

async fn look(connection: &Arc<Connection>, encoder: &Encoder) -> Diagnosis {
    match collect::collect(connection, encoder).await {
        Ok(material) => judge(&material),
        Err((server, error)) => unreachable(&server, &error),
    }
}

fn judge(material: &Material) -> Diagnosis {
    let mut report = Report::new(&material.server);
    for check in CHECKS {
        check(material, &mut report);
    }
    report.diagnosis
}
