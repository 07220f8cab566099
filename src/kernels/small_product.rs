//! Products of small matrices that lie in the caches, by one thread.
//!
//! What a product with a weight takes is libtorch's; this is for the many little ones inside attention, where packing and
//! calling would cost as much as multiplying.
#![allow(clippy::needless_range_loop, reason = "loops of constant length over register tiles read best by index")]

use super::simd::{Kernel, LANES, Simd};

/// `c = a b`, or `c += a b`. Every value of `c` is one sum in the order of `k`, whatever the sizes.
#[derive(Debug, Clone, Copy)]
pub(super) struct SmallProduct {
    /// Rows of `a` and `c`.
    pub m: usize,
    /// Columns of `b` and `c`.
    pub n: usize,
    /// Columns of `a`, rows of `b`.
    pub k: usize,
    /// `a[i, p]` is `a.0[i * a.1 + p * a.2]`.
    pub a: (*const f32, usize, usize),
    /// `b[p, j]` is `b.0[p * b.1 + j]`.
    pub b: (*const f32, usize),
    /// `c[i, j]` is `c.0[i * c.1 + j]`.
    pub c: (*mut f32, usize),
    /// Whether the product is added to what is there.
    pub add: bool,
}

/// Runs it where all it names is valid.
impl Kernel for SmallProduct {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let (tile_rows, tile_vectors) = S::TILE;
        for column in (0..self.n).step_by(tile_vectors * LANES) {
            let vectors = (self.n - column).div_ceil(LANES).min(tile_vectors);
            let last = (self.n - column - (vectors - 1) * LANES).min(LANES);
            for row in (0..self.m).step_by(tile_rows) {
                let rows = tile_rows.min(self.m - row);
                unsafe { for_tile!(rows, vectors, tile, (&self, row, column, last)) };
            }
        }
    }
}

/// `ROWS` rows and `COLUMNS` vectors of `c`; the last vector has `last` columns.
#[inline(always)]
unsafe fn tile<S: Simd, const ROWS: usize, const COLUMNS: usize>(
    product: &SmallProduct,
    row: usize,
    column: usize,
    last: usize,
) {
    let SmallProduct { k, a: (a, down, along), b: (b, b_stride), c: (c, c_stride), add, .. } = *product;
    unsafe {
        let (a, b, c) = (a.add(row * down), b.add(column), c.add(row * c_stride + column));
        let mut sums = [[S::splat(0.0); COLUMNS]; ROWS];
        if add {
            for i in 0..ROWS {
                for j in 0..COLUMNS - 1 {
                    sums[i][j] = S::load(c.add(i * c_stride + j * LANES));
                }
                sums[i][COLUMNS - 1] = S::load_partial(c.add(i * c_stride + (COLUMNS - 1) * LANES), last, 0.0);
            }
        }
        for p in 0..k {
            let mut values = [S::splat(0.0); COLUMNS];
            for j in 0..COLUMNS - 1 {
                values[j] = S::load(b.add(p * b_stride + j * LANES));
            }
            values[COLUMNS - 1] = S::load_partial(b.add(p * b_stride + (COLUMNS - 1) * LANES), last, 0.0);
            for i in 0..ROWS {
                let factor = S::splat(*a.add(i * down + p * along));
                for j in 0..COLUMNS {
                    sums[i][j] = S::fma(factor, values[j], sums[i][j]);
                }
            }
        }
        for i in 0..ROWS {
            for j in 0..COLUMNS - 1 {
                S::store(c.add(i * c_stride + j * LANES), sums[i][j]);
            }
            S::store_partial(c.add(i * c_stride + (COLUMNS - 1) * LANES), last, sums[i][COLUMNS - 1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simd::{Level, run_at};
    use super::*;

    #[test]
    fn any_shape_and_stride_at_every_level() {
        // Small integers: every sum is exact.
        let value = |index: usize| (index * 37 % 17) as f32 - 8.0;
        let data: Vec<f32> = (0..40_000).map(value).collect();
        for (m, n, k) in [(1, 1, 1), (6, 64, 3), (7, 65, 5), (13, 15, 64), (5, 130, 33), (3, 4, 0)] {
            for (down, along, b_stride, c_stride) in [(k + 2, 1, n, n), (1, m + 1, n + 5, n + 3)] {
                for add in [false, true] {
                    let expected = |i: usize, j: usize| {
                        let start = if add { 1.0 } else { 0.0 };
                        (0..k).fold(start, |sum, p| sum + data[i * down + p * along] * data[p * b_stride + j])
                    };
                    for level in Level::available() {
                        let mut c = vec![1.0; m * c_stride];
                        let product = SmallProduct {
                            m,
                            n,
                            k,
                            a: (data.as_ptr(), down, along),
                            b: (data.as_ptr(), b_stride),
                            c: (c.as_mut_ptr(), c_stride),
                            add,
                        };
                        unsafe { run_at(level, product) };
                        for (index, &found) in c.iter().enumerate() {
                            let (i, j) = (index / c_stride, index % c_stride);
                            let expected = if j < n { expected(i, j) } else { 1.0 };
                            assert_eq!(found, expected, "{level:?} {m} {n} {k}: {i} {j}");
                        }
                    }
                }
            }
        }
    }
}
