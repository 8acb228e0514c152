//! The simulation itself: that it is like real servers, that it judges, and that a seed repeats a world.

mod asking;
mod compare;
mod compare_deployments;
mod deployments;
mod oracle;
mod shipped_client;
mod shipped_deployments;
mod worlds;
