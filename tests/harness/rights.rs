//! The user that docs/keys.md describes. The rights are read from that page.

use redis::{RedisResult, Value};

use crate::server::Server;

const PAGE: &str = include_str!("../../docs/keys.md");

/// Name and password of the user with the rights for servers, as URLs have them.
pub const LOGIN: &str = "leasehold:p@";

/// A user and its rights: the arguments of `ACL`.
#[derive(Clone, Debug)]
pub struct Rights(String);

impl Rights {
    /// The rights that the page lists for one server.
    ///
    /// # Panics
    ///
    /// If there is no such line.
    #[must_use]
    pub fn of_the_docs() -> Self {
        let line = PAGE.lines().find_map(|line| line.strip_prefix("ACL ")).expect("the rights");
        Self(line.replace("PASSWORD", "p"))
    }

    /// The same for locks of another prefix, which is also the user's name.
    #[must_use]
    pub fn with_prefix(self, prefix: &str) -> Self {
        Self(self.0.replace("leasehold", prefix))
    }

    /// The rights on sentinels, for a user of another name and password.
    #[must_use]
    pub fn on_sentinels() -> Self {
        let nothing = Self("SETUSER asker on >q -@all".to_owned());
        nothing.also("On the sentinels themselves a user needs `…`,")
    }

    /// Adds the rights that stand in the place of the `…` in a sentence of the page.
    ///
    /// # Panics
    ///
    /// If there is no such sentence.
    #[must_use]
    pub fn also(self, sentence: &str) -> Self {
        let (before, behind) = sentence.split_once("`…`").expect("a gap");
        let gap = |(at, _): (usize, &str)| {
            let (rights, rest) = PAGE[at + before.len()..].strip_prefix('`')?.split_once('`')?;
            rest.starts_with(behind).then_some(rights)
        };
        let rights = PAGE.match_indices(before).find_map(gap).expect(sentence);
        self.and(rights)
    }

    /// Adds these words, which may also take rights away.
    #[must_use]
    pub fn and(self, more: &str) -> Self {
        Self(format!("{} {more}", self.0))
    }

    /// Makes the user on servers. Newer servers get the rights that the page names for them.
    ///
    /// # Panics
    ///
    /// If one refuses.
    pub async fn give(&self, servers: impl IntoIterator<Item = &Server>) {
        let on_new_ones = self.clone().also("From Redis or Valkey 7.2 on, add `…` (older");
        for server in servers {
            if on_new_ones.try_give(server).await.is_err() {
                self.try_give(server).await.expect(&self.0);
            }
        }
    }

    async fn try_give(&self, server: &Server) -> RedisResult<()> {
        let mut acl = redis::cmd("ACL");
        acl.arg(self.0.split_whitespace().collect::<Vec<_>>());
        acl.exec_async(&mut server.redis().await).await
    }
}

/// Checks that the servers have refused no command.
///
/// # Panics
///
/// If they have.
pub async fn assert_nothing_was_refused(servers: impl IntoIterator<Item = &Server>) {
    for server in servers {
        let refused: Vec<Value> =
            redis::cmd("ACL").arg("LOG").query_async(&mut server.redis().await).await.expect("ACL");
        assert!(refused.is_empty(), "{refused:?}");
    }
}
