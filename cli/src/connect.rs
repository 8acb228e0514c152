//! The client of the tool.

use leasehold::{Locks, LocksBuilder};

use super::args::Server;
use super::failure::{Failure, code};

impl Server {
    /// Connects. A server that is away is an error within about a second.
    pub(super) async fn connect(&self, service: &str) -> Result<Locks, Failure> {
        Ok(self.builder().service(service).connect(self.url()?).await?)
    }

    /// A client that connects in the background.
    pub(super) fn connect_lazy(&self, service: &str) -> Result<Locks, Failure> {
        Ok(self.builder().service(service).connect_lazy(self.url()?)?)
    }

    fn url(&self) -> Result<&str, Failure> {
        let url = self.url.as_deref().filter(|url| !url.is_empty());
        url.ok_or_else(|| {
            let text = "which server? Set REDIS_URL, such as redis://127.0.0.1/, or give --url";
            Failure::new(code::FAILED, text)
        })
    }

    fn builder(&self) -> LocksBuilder {
        Locks::builder().prefix(&self.prefix)
    }
}
