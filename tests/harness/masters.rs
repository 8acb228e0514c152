//! Independent servers, for quorums.

use crate::server::{Frozen, Server};

/// Masters without replicas, none of which knows of another. They end when this is
/// dropped.
#[derive(Debug)]
pub struct Masters {
    nodes: Vec<Server>,
}

impl Masters {
    /// Starts this many.
    ///
    /// # Panics
    ///
    /// If one does not start.
    #[must_use]
    pub fn start(count: usize) -> Self {
        Self { nodes: (0..count).map(|_| Server::start()).collect() }
    }

    /// The servers.
    #[must_use]
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The URLs for clients.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.urls_as("")
    }

    /// The same with a login, such as `user:password@`.
    #[must_use]
    pub fn urls_as(&self, login: &str) -> Vec<String> {
        self.nodes.iter().map(|node| node.url_as(login)).collect()
    }

    /// Freezes one until the returned guard is dropped.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    pub async fn freeze(&self, at: usize) -> Frozen {
        self.nodes[at].freeze().await
    }

    /// Kills one, with SIGKILL.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    pub async fn kill(&self, at: usize) {
        self.nodes[at].kill().await;
    }

    /// Starts one anew on its port, empty.
    ///
    /// # Panics
    ///
    /// If there are not so many, or it does not start.
    pub async fn restart_empty(&mut self, at: usize) {
        self.nodes[at].kill().await;
        let port = self.nodes[at].port();
        self.nodes[at] = Server::start_on(port);
    }
}
