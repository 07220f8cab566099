//! The parts decoders are built from, each as plain as its formula.
//!
//! Nothing here knows an architecture, a checkpoint or a batch layout. Parts hold shallow clones of tensors that
//! [`crate::models::Weights`] lists; they never copy or convert a weight.

pub mod attention;
mod gate;
pub mod linear;
pub mod norm;
mod packed_attention;
mod recomputed;
mod recorded;
pub mod rope;

pub use attention::{Attend, AttentionSpec, DenseAttention};
pub use gate::silu_and_mul;
pub use linear::Linear;
pub use norm::RmsNorm;
pub use packed_attention::{Run, packed_attention};
pub use recomputed::Recomputed;
pub use rope::{Rope, RopeConfig, RopeScaling, Rotary};
