//! The store on a Redis or Valkey server or cluster: each command is one Lua script.
//!
//! A command goes down once, `store` → `encode` → a `transport` → `batcher` → `batch` → `link`,
//! and its answer comes back as one future, which `store` decodes with `decode`. The other
//! modules make connections, and keep them.

mod address;
mod answer;
mod args;
mod backoff;
mod batch;
mod batcher;
mod calls;
#[cfg(feature = "cluster")]
mod cluster;
mod connect;
mod connect_errors;
mod connection;
mod connector;
mod decode;
mod encoded;

#[cfg(feature = "doctor")]
mod diagnosis;
mod driver;
mod encode;
mod endpoint;
mod errors;
mod external_pool;
mod former_holders;
mod handshake;
mod hints;
mod holder;
#[cfg(test)]
mod hostile;
mod inspect;
mod lazy;
mod limit_overrides;
mod limits;
mod link;
mod link_state;
mod listing;
mod manager;
#[cfg(feature = "quorum")]
mod quorum_server;
mod replicated;
mod script;
mod script_errors;
mod secret;
mod sentinel;
mod server_info;
mod server_state;
mod settings;
mod single_server;
mod store;
mod subscriber;
mod tcp;
mod transport;
mod usable;
mod wire;
mod work_queue;

pub use self::lazy::LazyStore;
#[cfg(feature = "quorum")]
pub use self::quorum_server::QuorumServer;
#[cfg(feature = "internals")]
pub use self::script::{About, scripts};
pub use self::settings::Settings;
pub use self::store::RedisStore;
