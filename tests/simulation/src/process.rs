//! A process: a runtime with a clock of its own, which moves only when the world drives it. So it can
//! be paused, suspended and killed at any time.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use leasehold::system::simulation::{Connecting, World, enter};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, advance, sleep_until};

use crate::clocks::Rate;
use crate::network::{Micros, Network, ProcessId};
use crate::telemetry::Telemetry;

thread_local! {
    /// The process that is driven.
    static CURRENT: RefCell<Option<Rc<View>>> = const { RefCell::new(None) };
}

/// What a process sees of the world.
struct View {
    id: ProcessId,
    network: Rc<RefCell<Network>>,
    /// A time of its own clock, the true time then, and how fast it is since.
    began: Cell<(Instant, Micros)>,
    rate: Cell<Rate>,
    suspended: Cell<Duration>,
    rng: RefCell<Rng>,
    telemetry: Arc<Telemetry>,
}

impl View {
    /// True time, by its own clock.
    fn now(&self) -> Micros {
        let (began, at) = self.began.get();
        let own = u64::try_from(began.elapsed().as_micros()).expect("a world ends before");
        at + self.rate.get().passed(own)
    }

    /// When its own clock shows this true time.
    fn own(&self, at: Micros) -> Instant {
        let (began, then) = self.began.get();
        began + Duration::from_micros(self.rate.get().own(at.saturating_sub(then)))
    }
}

impl World for View {
    fn connect(&self, address: SocketAddr) -> Connecting {
        let connection = self.network.borrow_mut().dial(self.id, address, self.now());
        Box::pin(async move { connection.opened().await.map(|it| Box::new(it) as _) })
    }

    fn wall_clock(&self) -> Duration {
        let since_1970 = crate::network::BEGINNING_US.unsigned_abs() + self.now();
        Duration::from_micros(since_1970)
    }

    fn suspended(&self) -> Duration {
        self.suspended.get()
    }

    fn random_bits(&self) -> u128 {
        self.rng.borrow_mut().u128(..)
    }

    fn host(&self) -> String {
        format!("machine-{}", self.id)
    }

    fn process_id(&self) -> u32 {
        1
    }
}

/// Calls the network for the process that is driven, with its time; does nothing outside of all.
pub(crate) fn in_network(call: impl FnOnce(&mut Network, Micros)) {
    let current = CURRENT.try_with(|current| current.borrow().clone()).ok().flatten();
    if let Some(view) = current {
        let now = view.now();
        call(&mut view.network.borrow_mut(), now);
    }
}

/// The process that is driven.
///
/// # Panics
///
/// Outside of all processes.
pub(crate) fn id() -> ProcessId {
    CURRENT.with_borrow(|current| current.as_ref().expect("a process is driven").id)
}

/// What is told of the process that is driven, if one is.
pub(crate) fn telemetry() -> Option<Arc<Telemetry>> {
    let current = |view: &Option<Rc<View>>| view.as_ref().map(|it| it.telemetry.clone());
    CURRENT.try_with(|view| current(&view.borrow())).ok().flatten()
}

/// True time, for the process that is driven.
///
/// # Panics
///
/// Outside of all processes.
pub fn now() -> Micros {
    CURRENT.with_borrow(|current| current.as_ref().expect("a process is driven").now())
}

/// How long so much time of the clock of the process that is driven lasts.
///
/// # Panics
///
/// Outside of all processes.
pub fn lasts(own: Duration) -> Duration {
    let rate = CURRENT.with_borrow(|it| it.as_ref().expect("a process is driven").rate.get());
    let micros = u64::try_from(own.as_micros()).expect("nothing lasts that long");
    Duration::from_micros(rate.passed(micros))
}

/// Whether a process goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// Nothing of it runs until then. Its connections stay.
    Stopped {
        since: Micros,
        until: Micros,
        /// Its clock stands still meanwhile, as in a suspension.
        clock_stops: bool,
    },
    /// Killed: nothing of it runs again.
    Dead,
}

/// A process.
pub struct Process {
    view: Rc<View>,
    runtime: Option<Runtime>,
    state: State,
    pub name: String,
}

impl Process {
    /// Starts a process whose clock is faster by so many millionths.
    ///
    /// # Panics
    ///
    /// If there is no runtime.
    pub fn start(
        id: ProcessId,
        name: String,
        network: &Rc<RefCell<Network>>,
        drift: i64,
        rng: Rng,
    ) -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            // A turn ends when nothing is left to do.
            .event_interval(1 << 20)
            .build()
            .expect("a runtime");
        let began = runtime.block_on(async { Instant::now() });
        let view = Rc::new(View {
            id,
            network: network.clone(),
            began: Cell::new((began, network.borrow().now())),
            rate: Cell::new(Rate::faster_by(drift)),
            suspended: Cell::default(),
            rng: RefCell::new(rng),
            telemetry: Arc::default(),
        });
        Self { view, runtime: Some(runtime), state: State::Running, name }
    }

    pub fn id(&self) -> ProcessId {
        self.view.id
    }

    /// What is told of it.
    pub(crate) fn telemetry(&self) -> &Telemetry {
        &self.view.telemetry
    }

    pub fn is_dead(&self) -> bool {
        self.state == State::Dead
    }

    /// Runs a task in it from its next turn on.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
    }

    /// Lets it do all that it does until then.
    pub fn drive(&mut self, until: Micros) {
        let Some(runtime) = &self.runtime else { return };
        let view = self.view.clone();
        let is_late = match self.state {
            State::Stopped { until: end, .. } if until < end => return,
            State::Stopped { since, clock_stops: true, .. } => {
                let (began, at) = view.began.get();
                let gap = until - since;
                view.began.set((began, at + gap));
                let own = Duration::from_micros(view.rate.get().own(gap));
                view.suspended.set(view.suspended.get() + own);
                false
            }
            State::Stopped { .. } => true,
            State::Running | State::Dead => false,
        };
        self.state = State::Running;
        let to = view.own(until);
        enter(Some(view.clone()));
        CURRENT.set(Some(view.clone()));
        let turn = async {
            // All timers of the meantime are late.
            if is_late {
                advance(to.saturating_duration_since(Instant::now())).await;
            }
            sleep_until(to).await;
        };
        metrics::with_local_recorder(&*view.telemetry, || runtime.block_on(turn));
        CURRENT.set(None);
        enter(None);
    }

    /// From now on, its clock is faster by so many millionths.
    pub fn set_drift(&mut self, now: Micros, drift: i64) {
        // What was stopped goes on by the clock that it had.
        if self.state == State::Running {
            self.view.began.set((self.view.own(now), now));
            self.view.rate.set(Rate::faster_by(drift));
        }
    }

    /// Stops it for so long. Returns when it goes on.
    pub fn stop(&mut self, now: Micros, time: Micros, clock_stops: bool) -> Micros {
        if self.state == State::Running {
            self.state = State::Stopped { since: now, until: now + time, clock_stops };
        }
        now + time
    }

    pub fn is_stopped(&self) -> bool {
        matches!(self.state, State::Stopped { .. })
    }

    /// Kills it: nothing of it runs any more, not even what runs at an exit. What it has sent
    /// arrives.
    pub fn kill(&mut self) {
        self.state = State::Dead;
        std::mem::forget(self.runtime.take());
        self.view.network.borrow_mut().close_all(self.view.id);
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.name, self.state)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its tasks belong to a world that is over.
        std::mem::forget(self.runtime.take());
    }
}
