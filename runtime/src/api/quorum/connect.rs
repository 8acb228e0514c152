//! Connecting to a quorum: which servers it accepts, and how many must be there.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::runtime::Handle;

use crate::core::error::{LockError, Step};
use crate::core::no_majority::NoMajority;
use crate::core::option_rules::TTL;
use crate::store::quorum::Quorum;
use crate::store::redis::{LazyStore, QuorumServer, RedisStore, Settings};
use crate::store::{ClientId, Store};

/// Refuses a number of servers that makes no quorum, and a TTL out of its range.
fn check(count: usize, longest_ttl: Duration) -> Result<(), LockError> {
    if count < 3 || count.is_multiple_of(2) {
        let problem = format!(
            "{count} servers are no quorum; give 3, 5 or another odd number, because an even \
             number survives no more failures"
        );
        return Err(LockError::InvalidOption { option: "servers", problem });
    }
    if let Some(range) = TTL.out_of_range(longest_ttl) {
        let problem = format!("{longest_ttl:?} is out of range: it must be {range}");
        return Err(LockError::InvalidOption { option: "longest_ttl", problem });
    }
    Ok(())
}

fn named_twice(server: &str, other: &str) -> LockError {
    let problem = format!("{server} and {other} are the same server; name each once");
    LockError::InvalidOption { option: "servers", problem }
}

/// Connects to each server in the background, until a majority of them is there.
pub(crate) fn connect_quorum_lazy(
    urls: Vec<String>,
    settings: Settings,
    longest_ttl: Duration,
    id: ClientId,
    runtime: Handle,
) -> Result<LazyStore, LockError> {
    check(urls.len(), longest_ttl)?;
    let name = |url: &String| RedisStore::name_of_quorum_server(url, &settings);
    let names = urls.iter().map(name).collect::<Result<Vec<_>, _>>()?;
    for (nth, name) in names.iter().enumerate() {
        if names[..nth].contains(name) {
            return Err(named_twice(name, name));
        }
    }
    let (command_timeout, own) = (settings.command_timeout, runtime.clone());
    let connect = move || {
        let (urls, settings, runtime) = (urls.clone(), settings.clone(), own.clone());
        async move {
            let quorum = connect_quorum(&urls, &settings, longest_ttl, id, runtime).await?;
            Ok(Arc::new(quorum) as Arc<dyn Store>)
        }
    };
    Ok(LazyStore::start(names.join(", "), command_timeout, Some(longest_ttl), runtime, connect))
}

/// Connects to each server, and fails unless a majority of them is there.
pub(crate) async fn connect_quorum<U: AsRef<str>>(
    urls: &[U],
    settings: &Settings,
    longest_ttl: Duration,
    id: ClientId,
    runtime: Handle,
) -> Result<Quorum, LockError> {
    check(urls.len(), longest_ttl)?;
    let connect = |url: &U| {
        let (url, runtime) = (url.as_ref().to_owned(), runtime.clone());
        async move { RedisStore::connect_quorum_server(&url, settings, id, runtime).await }
    };
    let members = try_join_all(urls.iter().map(connect)).await?;
    for (nth, member) in members.iter().enumerate() {
        let is_same = |other: &&QuorumServer| {
            other.server == member.server || other.run_id.is_some() && other.run_id == member.run_id
        };
        if let Some(other) = members[..nth].iter().find(is_same) {
            return Err(named_twice(&other.server, &member.server));
        }
    }
    let failed = members.iter().filter(|member| member.error.is_some()).count();
    if failed > members.len() / 2 {
        let answer = |member: &QuorumServer| {
            let answer = match &member.error {
                None => "connected".to_owned(),
                Some(LockError::Store { cause, .. }) => cause.to_string(),
                Some(error) => error.to_string(),
            };
            (member.server.clone(), answer)
        };
        let cause = Box::new(NoMajority::of(members.iter().map(answer)));
        let what = "a majority of the servers".to_owned();
        return Err(LockError::Quorum {
            step: Step::Connect,
            what,
            is_passing: true,
            cause,
            label: None,
        });
    }
    for member in &members {
        if let Some(why) = &member.refusal_to_grant {
            let server = &member.server;
            tracing::warn!(%server, "a server of the quorum does not count yet: {why}");
        }
        if let Some(error) = &member.error {
            tracing::warn!(%error, "a server of the quorum is unreachable; the others go on without it");
        }
    }
    let nodes =
        members.into_iter().map(|member| (member.server, Arc::new(member.store) as Arc<dyn Store>));
    Ok(Quorum::new(nodes, longest_ttl, runtime))
}
