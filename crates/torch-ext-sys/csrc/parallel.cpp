// libtorch's intra-op pool and autograd mode, as C functions. No exception leaves this file.

#include <cstdlib>
#include <cstring>
#include <exception>

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

extern "C" {

// Runs body(context, begin, end) over parts of [0, len). Returns null, or what was thrown (the caller frees it).
char *torch_ext_parallel_for(int64_t len, int64_t grain, void (*body)(void *, int64_t, int64_t), void *context) {
  try {
    at::parallel_for(0, len, grain, [&](int64_t begin, int64_t end) { body(context, begin, end); });
    return nullptr;
  } catch (const std::exception &error) {
    return strdup(error.what());
  } catch (...) {
    return strdup("unknown C++ exception");
  }
}

void torch_ext_free(char *message) { std::free(message); }

bool torch_ext_grad_enabled() noexcept { return c10::GradMode::is_enabled(); }
}
