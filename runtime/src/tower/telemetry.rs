//! What the layer counts. The rest is counted where leases are acquired and held.

/// Counts a request that passes without its lock.
#[cfg_attr(not(feature = "metrics"), expect(unused_variables, reason = "it does nothing then"))]
pub(super) fn passed_open(kind: &'static str, lock: &'static str) {
    #[cfg(feature = "metrics")]
    {
        metrics::counter!("leasehold_fail_open_total", "kind" => kind, "lock" => lock).increment(1);
    }
}
