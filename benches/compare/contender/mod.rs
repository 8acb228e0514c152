//! The libraries that are measured, behind one interface: connect, name a lock, acquire,
//! release.

mod commands;
mod polling;
mod set_nx;
mod ttl;

use std::time::Duration;

use clap::ValueEnum;
use distkit::DistkitRedisKey;
use distkit::lock::LockOptions;
use leasehold::{Locks, Wait};

use self::commands::Commands;
use self::polling::PollingZset;
use self::set_nx::SetNx;
pub(crate) use self::ttl::TTL;
use crate::failure::Failure;
use crate::server;

/// The longest pause of a quick peer between two tries.
const QUICK: Duration = Duration::from_millis(5);

/// How long ours lingers if it does.
const LINGER: Duration = Duration::from_secs(2);

/// A library that is measured. A peer that is `quick` retries after a few milliseconds
/// instead of its default pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Contender {
    Ours,
    /// Ours, with `linger`.
    OursLingering,
    /// Ours, without a server.
    OursInMemory,
    Raw,
    /// The same, with the connection on a thread of its own, as in our client.
    RawThread,
    SetNx,
    Rslock,
    RslockQuick,
    /// With a connection that sends small packets at once, which is not the default of its driver.
    RslockNodelay,
    Distkit,
    DistkitQuick,
    AsyncRedisLock,
    AsyncRedisLockQuick,
    PollingZset,
    PollingZsetQuick,
}

impl Contender {
    /// The peers that wait for a mutex.
    pub(crate) const MUTEX_PEERS: [Self; 6] = [
        Self::Rslock,
        Self::RslockQuick,
        Self::Distkit,
        Self::DistkitQuick,
        Self::AsyncRedisLock,
        Self::AsyncRedisLockQuick,
    ];

    /// Its name in tables and on the command line.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value().expect("none is skipped");
        value.get_name().to_owned()
    }

    /// Connects: all tasks of a process share what this gives.
    pub(crate) async fn connect(self, url: &str) -> Result<Client, Failure> {
        Ok(match self {
            Self::Ours => Client::Ours(Locks::connect(url).await?, Duration::ZERO),
            Self::OursLingering => Client::Ours(Locks::connect(url).await?, LINGER),
            Self::OursInMemory => Client::Ours(Locks::in_memory(), Duration::ZERO),
            Self::Raw => Client::Commands(Commands::over(server::connect(url).await?).await?),
            Self::RawThread => {
                let redis = server::connect_on_a_thread(url).await?;
                Client::Commands(Commands::over(redis).await?)
            }
            Self::SetNx => Client::SetNx(SetNx::connect(url).await?),
            Self::Rslock => Client::Rslock(rslock::LockManager::new(vec![url])),
            Self::RslockQuick => {
                let mut manager = rslock::LockManager::new(vec![url]);
                manager.set_retry(3, QUICK);
                Client::Rslock(manager)
            }
            Self::RslockNodelay => {
                Client::Rslock(rslock::LockManager::new(vec![server::without_delay(url)?]))
            }
            Self::Distkit | Self::DistkitQuick => {
                let manager = redis::Client::open(url)?.get_connection_manager().await?;
                let pause = (self == Self::DistkitQuick).then_some(QUICK);
                Client::Distkit(manager, pause)
            }
            Self::AsyncRedisLock | Self::AsyncRedisLockQuick => {
                let options = async_redis_lock::Options::new().ttl(TTL).timeout(None);
                let options = options.extend(TTL / 3);
                let is_quick = self == Self::AsyncRedisLockQuick;
                let options = if is_quick { options.retry(QUICK) } else { options };
                let locker = async_redis_lock::Locker::from_redis_url(url).await?;
                Client::AsyncRedisLock(Box::new(locker), options)
            }
            Self::PollingZset => {
                let pause = Duration::from_millis(10)..Duration::from_millis(50);
                Client::PollingZset(server::connect(url).await?, pause)
            }
            Self::PollingZsetQuick => {
                let pause = Duration::from_millis(1)..QUICK;
                Client::PollingZset(server::connect(url).await?, pause)
            }
        })
    }
}

/// A contender's client.
#[derive(Clone)]
pub(crate) enum Client {
    /// A client, and how long its locks linger.
    Ours(Locks, Duration),
    Commands(Commands),
    SetNx(SetNx),
    Rslock(rslock::LockManager),
    Distkit(redis::aio::ConnectionManager, Option<Duration>),
    AsyncRedisLock(Box<async_redis_lock::Locker>, async_redis_lock::Options),
    PollingZset(redis::aio::MultiplexedConnection, std::ops::Range<Duration>),
}

impl Client {
    /// A mutex for one task, with all that can be prepared.
    pub(crate) fn mutex(&self, name: &str) -> Lock {
        match self {
            Self::Ours(locks, linger) => {
                Lock::Ours(locks.mutex(name).ttl(TTL).wait(Wait::Forever).linger(*linger))
            }
            Self::Commands(commands) => Lock::Commands(commands.mutex(name)),
            Self::SetNx(set_nx) => Lock::SetNx(set_nx.clone().of(name)),
            Self::Rslock(manager) => Lock::Rslock(manager.clone(), name.to_owned()),
            Self::Distkit(connection, pause) => {
                let key = DistkitRedisKey::new_or_panic(name.to_owned());
                let options = LockOptions::builder(key, connection.clone()).ttl(TTL);
                let options =
                    pause.iter().fold(options, |options, &pause| options.retry_interval(pause));
                Lock::Distkit(distkit::lock::Mutex::new(options.build()))
            }
            Self::AsyncRedisLock(locker, options) => {
                Lock::AsyncRedis(locker.as_ref().clone(), options.clone(), name.to_owned())
            }
            Self::PollingZset(..) => unreachable!("it is a semaphore alone"),
        }
    }

    /// A semaphore, for one task.
    pub(crate) fn semaphore(&self, name: &str, limit: u32) -> Lock {
        match self {
            Self::Ours(locks, linger) => {
                let semaphore = locks.semaphore(name, limit).ttl(TTL).linger(*linger);
                Lock::Semaphore(semaphore.wait(Wait::Forever))
            }
            Self::PollingZset(redis, pause) => {
                Lock::PollingZset(PollingZset::new(redis.clone(), name, limit, pause.clone()))
            }
            _ => unreachable!("it has no semaphore"),
        }
    }
}

/// A lock by name.
pub(crate) enum Lock {
    Ours(leasehold::Mutex),
    Semaphore(leasehold::Semaphore),
    Commands(commands::Mutex),
    SetNx(set_nx::Lock),
    Rslock(rslock::LockManager, String),
    Distkit(std::sync::Arc<distkit::lock::Mutex>),
    AsyncRedis(async_redis_lock::Locker, async_redis_lock::Options, String),
    PollingZset(PollingZset),
}

impl Lock {
    /// Takes a free lock, with the peer's call for free locks if it has one.
    pub(crate) async fn acquire_free(&mut self) -> Result<Held<'_>, Failure> {
        match self {
            // Its `lock` first waits for a timer.
            Self::Distkit(mutex) => Ok(Held::Distkit(mutex.try_lock().await?)),
            _ => self.acquire().await,
        }
    }

    /// Waits until it has the lock.
    pub(crate) async fn acquire(&mut self) -> Result<Held<'_>, Failure> {
        Ok(match self {
            Self::Ours(mutex) => Held::Ours(mutex.lock().await?),
            Self::Semaphore(semaphore) => Held::Ours(semaphore.acquire().await?),
            Self::Commands(mutex) => {
                mutex.acquire().await?;
                Held::Commands(mutex)
            }
            Self::SetNx(lock) => {
                lock.acquire().await?;
                Held::SetNx(lock)
            }
            Self::Rslock(manager, name) => Held::Rslock(manager.acquire(name.as_str(), TTL).await?),
            Self::Distkit(mutex) => Held::Distkit(mutex.lock().await?),
            Self::AsyncRedis(locker, options, name) => {
                let lock = locker.acquire_with_options(options, name.as_str()).await?;
                Held::AsyncRedisLock(Box::new(lock))
            }
            Self::PollingZset(semaphore) => {
                semaphore.acquire().await?;
                Held::PollingZset(semaphore)
            }
        })
    }
}

/// A lock that is held.
pub(crate) enum Held<'a> {
    Ours(leasehold::Lease),
    Commands(&'a mut commands::Mutex),
    SetNx(&'a mut set_nx::Lock),
    Rslock(rslock::LockGuard),
    Distkit(distkit::lock::MutexGuard),
    AsyncRedisLock(Box<async_redis_lock::Lock>),
    PollingZset(&'a mut PollingZset),
}

impl Held<'_> {
    /// Releases it, and waits for the server's answer.
    pub(crate) async fn release(self) -> Result<(), Failure> {
        match self {
            Self::Ours(lease) => drop(lease.release().await?),
            Self::Commands(mutex) => mutex.release().await?,
            Self::SetNx(lock) => lock.release().await?,
            Self::Rslock(guard) => guard.release().await,
            Self::Distkit(guard) => drop(guard.release().await?),
            Self::AsyncRedisLock(lock) => lock.release().await?,
            Self::PollingZset(semaphore) => semaphore.release().await?,
        }
        Ok(())
    }
}
