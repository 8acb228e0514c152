//! Several simulated servers that belong together: replicas, sentinels and the nodes of a cluster.
//! Nothing here has a network: the tests carry what goes from one to the other.

mod cluster;
mod replicas;
mod sentinels;
