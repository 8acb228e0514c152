//! The metrics: their names, units, and what they count.

use metrics::Unit;

enum Metric {
    Counter,
    Gauge,
    Histogram,
}

use Metric::{Counter, Gauge, Histogram};

const METRICS: &[(Metric, &str, Unit, &str)] = &[
    (Counter, "leasehold_acquisitions_total", Unit::Count, "acquisitions that have ended"),
    (Histogram, "leasehold_wait_seconds", Unit::Seconds, "from asking to having the lease"),
    (Gauge, "leasehold_waiting", Unit::Count, "acquisitions under way"),
    (
        Gauge,
        "leasehold_longest_wait_since_seconds",
        Unit::Seconds,
        "when the longest present wait of this process began; 0 without one",
    ),
    (Gauge, "leasehold_held", Unit::Count, "leases that are held"),
    (
        Gauge,
        "leasehold_oldest_hold_since_seconds",
        Unit::Seconds,
        "when the oldest present hold of this process began; 0 without one",
    ),
    (Gauge, "leasehold_limit", Unit::Count, "the limit of a semaphore that holds now"),
    (Gauge, "leasehold_permits_held", Unit::Count, "permits that are held, by their weights"),
    (
        Histogram,
        "leasehold_hold_seconds",
        Unit::Seconds,
        "from having the lease to its release or loss",
    ),
    (Counter, "leasehold_lost_total", Unit::Count, "leases lost"),
    (Counter, "leasehold_renewals_total", Unit::Count, "renewals sent"),
    (
        Histogram,
        "leasehold_renewal_seconds",
        Unit::Seconds,
        "from sending a renewal to its answer, or to its failure",
    ),
    (
        Counter,
        "leasehold_late_renewals_total",
        Unit::Count,
        "renewals that were answered when less than a third of the TTL was left",
    ),
    (
        Counter,
        "leasehold_reconnects_total",
        Unit::Count,
        "connections to the lock store that failed and were replaced",
    ),
    (
        Counter,
        "leasehold_fail_open_total",
        Unit::Count,
        "requests that passed without their lock, because the lock store failed",
    ),
    (
        Counter,
        "leasehold_local_grants_total",
        Unit::Count,
        "leases that another task of this process had before: no command was sent",
    ),
    (
        Counter,
        "leasehold_recalls_total",
        Unit::Count,
        "locks that lingered here until another client wanted them",
    ),
    (
        Counter,
        "leasehold_refills_total",
        Unit::Count,
        "commands for locks that linger: they reserve fencing tokens and extend the lease",
    ),
    (Counter, "leasehold_job_runs_total", Unit::Count, "runs of jobs that have ended"),
    (
        Gauge,
        "leasehold_job_last_success_seconds",
        Unit::Seconds,
        "when a job last succeeded, since the Unix epoch",
    ),
    (
        Gauge,
        "leasehold_job_running_since_seconds",
        Unit::Seconds,
        "when the run began that is under way in this process; 0 without one",
    ),
    (Gauge, "leasehold_job_tick_seconds", Unit::Seconds, "how long a tick of a job lasts"),
];

pub(super) fn describe() {
    for (metric, name, unit, what) in METRICS {
        match metric {
            Counter => metrics::describe_counter!(*name, *unit, *what),
            Gauge => metrics::describe_gauge!(*name, *unit, *what),
            Histogram => metrics::describe_histogram!(*name, *unit, *what),
        }
    }
}
