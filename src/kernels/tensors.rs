//! Tensors as slices: the only way the kernels see libtorch's memory.

use tch::{Device, Kind, Tensor};

/// The values of a contiguous f32 CPU tensor.
///
/// # Panics
/// When the tensor is anything else.
pub fn slice(tensor: &Tensor) -> &[f32] {
    check(tensor);
    assert!(tensor.is_contiguous(), "a kernel was given a strided tensor of shape {:?}", tensor.size());
    if tensor.numel() == 0 {
        return &[];
    }
    // SAFETY: contiguous f32 memory of `numel` values that lives as long as the tensor.
    unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast::<f32>(), tensor.numel()) }
}

/// The values of a contiguous f32 CPU tensor, to write.
///
/// # Panics
/// When the tensor is anything else.
pub fn slice_mut(tensor: &mut Tensor) -> &mut [f32] {
    check(tensor);
    assert!(tensor.is_contiguous(), "a kernel was given a strided tensor of shape {:?}", tensor.size());
    if tensor.numel() == 0 {
        return &mut [];
    }
    // SAFETY: as in `slice`; the exclusive borrow stands for the caller's claim that no other tensor shares the memory.
    unsafe { std::slice::from_raw_parts_mut(tensor.data_ptr().cast::<f32>(), tensor.numel()) }
}

/// Rows of equal width at equal distances: `row(i)` is `data[i * stride..][..width]`.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// From the first value of the first row to the last of the last.
    pub data: &'a [f32],
    /// Number of rows.
    pub len: usize,
    /// Values in a row.
    pub width: usize,
    /// Values from the start of a row to the start of the next.
    pub stride: usize,
}

impl<'a> Rows<'a> {
    /// Views `tensor` (`[N, …]`) as `N` rows, when it is f32 on CPU and each row is contiguous.
    pub fn of(tensor: &'a Tensor) -> Option<Self> {
        if !is_for_kernels(tensor) {
            return None;
        }
        let (size, strides) = (tensor.size(), tensor.stride());
        let mut width = 1;
        for dim in (1..size.len()).rev() {
            if size[dim] != 1 && strides[dim] != width {
                return None;
            }
            width *= size[dim];
        }
        let (len, width) = (size[0] as usize, width as usize);
        let stride = if len > 1 { strides[0] as usize } else { width };
        let values = if len == 0 || width == 0 { 0 } else { (len - 1) * stride + width };
        let data = if values == 0 {
            &[]
        } else {
            // SAFETY: the strides say that every value of the view lies within this many of the first.
            unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast::<f32>(), values) }
        };
        Some(Self { data, len, width, stride })
    }

    /// The rows' values from `start`, `width` of each.
    pub fn columns(&self, start: usize, width: usize) -> Self {
        Self { data: if self.len == 0 { &[] } else { &self.data[start..] }, width, ..*self }
    }

    /// Row `index`.
    pub fn row(&self, index: usize) -> &'a [f32] {
        &self.data[index * self.stride..][..self.width]
    }
}

fn is_for_kernels(tensor: &Tensor) -> bool {
    tensor.kind() == Kind::Float && tensor.device() == Device::Cpu
}

fn check(tensor: &Tensor) {
    assert!(
        is_for_kernels(tensor),
        "the kernels take f32 tensors on CPU, not {:?} on {:?}",
        tensor.kind(),
        tensor.device()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_slice_is_rows_and_a_transpose_is_not() {
        let wide = Tensor::arange(24, (Kind::Float, Device::Cpu)).view([4, 6]);
        let middle = wide.narrow(1, 2, 3);
        let rows = Rows::of(&middle).unwrap();
        assert_eq!((rows.len, rows.width, rows.stride), (4, 3, 6));
        assert_eq!(rows.row(3), [20.0, 21.0, 22.0]);
        assert!(Rows::of(&wide.transpose(0, 1)).is_none());
        assert!(Rows::of(&wide.to_kind(Kind::BFloat16)).is_none());
    }
}
