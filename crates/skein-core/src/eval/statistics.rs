//! Means with standard errors and 95 % intervals, for observations that come in clusters.
//!
//! Several samples of one task are not independent, so the task is the unit: standard errors are cluster-robust and the
//! bootstrap draws whole clusters. Arms evaluated on the same tasks are compared by the differences within tasks.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::random::Stream;

/// The 97.5 % point of the standard normal distribution.
const NORMAL_975: f64 = 1.959_963_984_540_054;

/// The arithmetic mean; none for no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The unbiased variance (n − 1); none for fewer than two values.
pub fn variance(values: &[f64]) -> Option<f64> {
    let center = mean(values).filter(|_| values.len() > 1)?;
    Some(values.iter().map(|value| (value - center).powi(2)).sum::<f64>() / (values.len() - 1) as f64)
}

/// The observations of one task: their sum and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cluster {
    /// Sum of the observations.
    pub sum: f64,
    /// Number of observations.
    pub count: usize,
}

impl Cluster {
    /// Adds one observation.
    pub fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }
}

/// How a 95 % interval is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalMethod {
    /// Mean ± 1.96 cluster-robust standard errors.
    Normal,
    /// The 2.5 % and 97.5 % points of the means of resampled clusters.
    Bootstrap {
        /// Number of resamples.
        resamples: usize,
        /// Equal seeds give equal intervals.
        seed: u64,
    },
}

impl Default for IntervalMethod {
    fn default() -> Self {
        Self::Bootstrap { resamples: 2000, seed: 0 }
    }
}

/// A mean and how well it is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeanEstimate {
    /// Mean over all observations.
    pub mean: f64,
    /// Cluster-robust standard error; none for fewer than two clusters.
    pub standard_error: Option<f64>,
    /// Ends of the 95 % interval; none for fewer than two clusters.
    pub interval: Option<(f64, f64)>,
    /// Clusters with at least one observation.
    pub num_clusters: usize,
    /// Observations.
    pub num_observations: usize,
}

impl fmt::Display for MeanEstimate {
    /// `0.612 [0.580, 0.644]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.mean)?;
        match self.interval {
            Some((low, high)) => write!(f, " [{low:.3}, {high:.3}]"),
            None => Ok(()),
        }
    }
}

/// The mean over all observations of all clusters; none when there is no observation.
///
/// Clusters weigh by their number of observations (a ratio estimator, linearised for its standard error).
pub fn estimate_mean(clusters: &[Cluster], method: IntervalMethod) -> Option<MeanEstimate> {
    let clusters: Vec<Cluster> = clusters.iter().copied().filter(|cluster| cluster.count > 0).collect();
    let ratio = |sum: f64, count: usize| sum / count as f64;
    let num_observations: usize = clusters.iter().map(|cluster| cluster.count).sum();
    if num_observations == 0 {
        return None;
    }
    let mean = ratio(clusters.iter().map(|cluster| cluster.sum).sum(), num_observations);
    let num_clusters = clusters.len();
    let standard_error = (num_clusters > 1).then(|| {
        let residuals = clusters.iter().map(|cluster| (cluster.sum - mean * cluster.count as f64).powi(2));
        let correction = num_clusters as f64 / (num_clusters - 1) as f64;
        (correction * residuals.sum::<f64>()).sqrt() / num_observations as f64
    });
    let interval = standard_error.map(|error| match method {
        IntervalMethod::Normal => (mean - NORMAL_975 * error, mean + NORMAL_975 * error),
        IntervalMethod::Bootstrap { resamples, seed } => {
            let mut stream = Stream::new(seed, "cluster bootstrap", 0);
            let mut means: Vec<f64> = (0..resamples.max(1))
                .map(|_| {
                    let mut resample = Cluster::default();
                    for _ in 0..num_clusters {
                        let drawn = stream.choose(&clusters);
                        resample.sum += drawn.sum;
                        resample.count += drawn.count;
                    }
                    ratio(resample.sum, resample.count)
                })
                .collect();
            means.sort_by(f64::total_cmp);
            (percentile(&means, 0.025), percentile(&means, 0.975))
        }
    });
    Some(MeanEstimate { mean, standard_error, interval, num_clusters, num_observations })
}

/// The mean difference `b − a` of values measured on the same tasks, in the same order; none for no tasks.
///
/// # Panics
/// When the two differ in length.
pub fn paired_difference(a: &[f64], b: &[f64], method: IntervalMethod) -> Option<MeanEstimate> {
    assert_eq!(a.len(), b.len(), "one value per task and arm");
    let clusters: Vec<Cluster> = a.iter().zip(b).map(|(a, b)| Cluster { sum: b - a, count: 1 }).collect();
    estimate_mean(&clusters, method)
}

/// Linear between neighbours; `sorted` is not empty.
fn percentile(sorted: &[f64], p: f64) -> f64 {
    let place = p * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums and quotients of a few doubles.
    const TOLERANCE: f64 = 1e-12;

    fn singles(values: &[f64]) -> Vec<Cluster> {
        values.iter().map(|&sum| Cluster { sum, count: 1 }).collect()
    }

    #[test]
    fn single_observations_give_the_textbook_standard_error() {
        // Variance of 1, 2, 3, 6 is 14/3, so the standard error is sqrt(14/12).
        let estimate = estimate_mean(&singles(&[1.0, 2.0, 3.0, 6.0]), IntervalMethod::Normal).unwrap();
        assert!((estimate.mean - 3.0).abs() < TOLERANCE);
        let error = (14.0f64 / 12.0).sqrt();
        assert!((estimate.standard_error.unwrap() - error).abs() < TOLERANCE);
        let (low, high) = estimate.interval.unwrap();
        assert!((low - (3.0 - 1.959964 * error)).abs() < 1e-6 && (high - (3.0 + 1.959964 * error)).abs() < 1e-6);
        assert_eq!(variance(&[1.0, 2.0, 3.0, 6.0]).map(|v| (v * 3.0).round()), Some(14.0));
    }

    #[test]
    fn repeating_every_observation_does_not_shrink_the_error() {
        let once = estimate_mean(&singles(&[0.0, 1.0, 1.0, 0.5]), IntervalMethod::Normal).unwrap();
        let fourfold: Vec<Cluster> =
            [0.0, 1.0, 1.0, 0.5].iter().map(|value| Cluster { sum: 4.0 * value, count: 4 }).collect();
        let repeated = estimate_mean(&fourfold, IntervalMethod::Normal).unwrap();
        assert!((once.standard_error.unwrap() - repeated.standard_error.unwrap()).abs() < TOLERANCE);
        assert_eq!(repeated.num_observations, 16);
    }

    #[test]
    fn bootstrap_is_seeded_and_near_the_normal_interval() {
        let clusters: Vec<Cluster> =
            (0..300).map(|task| Cluster { sum: f64::from(task % 5) / 4.0, count: 1 }).collect();
        let bootstrap = |seed| estimate_mean(&clusters, IntervalMethod::Bootstrap { resamples: 4000, seed }).unwrap();
        assert_eq!(bootstrap(1), bootstrap(1));
        assert_ne!(bootstrap(1).interval, bootstrap(2).interval);
        let normal = estimate_mean(&clusters, IntervalMethod::Normal).unwrap();
        let (low, high) = bootstrap(1).interval.unwrap();
        let (normal_low, normal_high) = normal.interval.unwrap();
        // 4,000 resamples know a percentile to about 5 % of the interval's width of 0.08.
        assert!((low - normal_low).abs() < 0.004 && (high - normal_high).abs() < 0.004);
    }

    #[test]
    fn pairing_removes_what_tasks_have_in_common() {
        let a: Vec<f64> = (0..50).map(|task| f64::from(task % 7)).collect();
        let b: Vec<f64> = a.iter().map(|value| value + 0.25).collect();
        let difference = paired_difference(&a, &b, IntervalMethod::default()).unwrap();
        assert!((difference.mean - 0.25).abs() < TOLERANCE && difference.standard_error.unwrap() < TOLERANCE);
    }

    #[test]
    fn too_little_data_has_no_interval() {
        assert_eq!(estimate_mean(&[Cluster::default()], IntervalMethod::Normal), None);
        let one = estimate_mean(&singles(&[0.5]), IntervalMethod::Normal).unwrap();
        assert_eq!((one.mean, one.interval, one.to_string()), (0.5, None, "0.500".to_owned()));
    }
}
