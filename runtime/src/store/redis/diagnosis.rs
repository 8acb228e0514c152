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

use futures_util::FutureExt;
use futures_util::future::join_all;

use self::material::Material;
use self::report::Report;
use self::unreachable::unreachable;
use super::connection::Connection;
use super::encode::Encoder;
use super::errors;
use super::transport::Transport;
use crate::store::{Answer, Diagnosis, StoreError, StoreFuture};

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

/// Looks at the servers of a transport.
pub(super) fn of(transport: &dyn Transport, encoder: &Encoder) -> StoreFuture<Answer> {
    let looking = run(transport.connections(), encoder.clone());
    let looking = transport.runtime().spawn(looking.boxed());
    Box::pin(async move {
        looking.await.unwrap_or_else(|_| Err(errors::shutdown())).map(Answer::Diagnosis)
    })
}

/// The answer; or that the server could not be reached.
pub(super) fn or_unreachable(answer: StoreFuture<Answer>, server: String) -> StoreFuture<Answer> {
    Box::pin(async move {
        let unreachable = |error| Answer::Diagnosis(unreachable(&server, &error));
        Ok(answer.await.unwrap_or_else(unreachable))
    })
}

/// Looks at all servers at the same time.
async fn run(
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
