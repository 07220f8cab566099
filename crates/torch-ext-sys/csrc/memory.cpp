// The C library's allocator, which libtorch's CPU tensors come from.

#include <malloc.h>

extern "C" {

// glibc maps every large block anew and unmaps it when freed; then each tensor's first touch faults page by page.
void torch_ext_keep_freed_memory() noexcept {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}
}
