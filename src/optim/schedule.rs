//! Learning rates as a pure function of the step, so that a resumed run needs no schedule state.

pub use skein_core::config::Schedule;

/// A linear warm-up, then a constant or a cosine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LrSchedule {
    /// Rate at the end of the warm-up.
    pub peak: f64,
    /// Steps of the warm-up: the first takes `peak / warmup_steps`, the last `peak`.
    pub warmup_steps: usize,
    /// Steps of the whole run; where the cosine reaches its floor.
    pub total_steps: usize,
    /// What follows the warm-up.
    pub shape: Schedule,
    /// The cosine's floor, as a share of `peak`.
    pub min_ratio: f64,
}

impl LrSchedule {
    /// Rate of optimizer step `step`, counted from 0; steps past the end keep the last rate.
    pub fn at(&self, step: usize) -> f64 {
        if step < self.warmup_steps {
            return self.peak * (step + 1) as f64 / self.warmup_steps as f64;
        }
        match self.shape {
            Schedule::Constant => self.peak,
            Schedule::Cosine => {
                let decay_steps = self.total_steps.saturating_sub(self.warmup_steps).max(1);
                let progress = ((step - self.warmup_steps) as f64 / decay_steps as f64).min(1.0);
                let cosine = (1.0 + (std::f64::consts::PI * progress).cos()) / 2.0;
                self.peak * (self.min_ratio + (1.0 - self.min_ratio) * cosine)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(shape: Schedule) -> LrSchedule {
        LrSchedule { peak: 2.0, warmup_steps: 4, total_steps: 12, shape, min_ratio: 0.1 }
    }

    fn rates(schedule: &LrSchedule, steps: impl IntoIterator<Item = usize>) -> Vec<f64> {
        steps.into_iter().map(|step| schedule.at(step)).collect()
    }

    #[test]
    fn warm_up_climbs_to_the_peak_and_the_first_step_is_not_lost() {
        assert_eq!(rates(&schedule(Schedule::Constant), [0, 1, 2, 3, 4, 99]), [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]);
        let cold = LrSchedule { warmup_steps: 0, ..schedule(Schedule::Constant) };
        assert_eq!(cold.at(0), 2.0);
    }

    #[test]
    fn the_cosine_is_half_way_down_in_the_middle_and_stays_at_its_floor() {
        let expected = [2.0, 0.2 + 1.8 * (1.0 + 0.5f64.sqrt()) / 2.0, 1.1, 0.2, 0.2];
        for (rate, expected) in rates(&schedule(Schedule::Cosine), [4, 6, 8, 12, 50]).into_iter().zip(expected) {
            assert!((rate - expected).abs() < 1e-12, "{rate} {expected}");
        }
    }

    #[test]
    fn a_run_of_warm_up_only_stays_finite() {
        let all_warm = LrSchedule { warmup_steps: 12, ..schedule(Schedule::Cosine) };
        assert_eq!(rates(&all_warm, [11, 12]), [2.0, 2.0]);
    }
}
