//! The process's allocator, libtorch's `malloc` included: libtorch makes and drops large tensors all the time, and the C
//! library either gives each one's memory back to the system or leaves holes that no other tensor fits into.
#![expect(unsafe_code, reason = "the allocator's options are C")]

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc 3's `mi_option_t`, which the binding does not name.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// From now on freed memory waits for the next tensor instead of going back to the system: page faults for memory that has
/// just been given back cost a quarter of a forward pass. The process holds its peak memory until it ends.
pub fn keep_freed_memory() {
    // SAFETY: sets a number.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, -1) };
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    #[test]
    fn the_option_is_the_delay() {
        // A second, in milliseconds: no other option of mimalloc 3 has this default.
        assert_eq!(unsafe { libmimalloc_sys::mi_option_get(super::PURGE_DELAY) }, 1000);
    }

    #[test]
    fn tensors_are_its_own() {
        let tensor = Tensor::zeros([1000, 1000], (Kind::Float, Device::Cpu));
        assert!(unsafe { libmimalloc_sys::mi_is_in_heap_region(tensor.data_ptr()) });
    }
}
