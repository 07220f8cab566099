//! Outside world.
