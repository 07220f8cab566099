// Backward passes with given gradients, and the fused AdamW step, as C functions. No exception leaves this file.

#include <cstring>
#include <exception>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/autograd.h>

namespace {

template <typename F> char *caught(F body) {
  try {
    body();
    return nullptr;
  } catch (const std::exception &error) {
    return strdup(error.what());
  } catch (...) {
    return strdup("unknown C++ exception");
  }
}

std::vector<at::Tensor> list(at::Tensor *const *tensors, size_t len) {
  std::vector<at::Tensor> copies;
  copies.reserve(len);
  for (size_t i = 0; i < len; ++i) copies.push_back(*tensors[i]);
  return copies;
}

} // namespace

extern "C" {

struct TorchExtAdamW {
  double lr, beta1, beta2, weight_decay, eps;
  int64_t step;
};

// Accumulates into every leaf's gradient; outputs and gradients pair up.
char *torch_ext_backward(at::Tensor *const *outputs, at::Tensor *const *gradients, size_t len) {
  return caught([&] { torch::autograd::backward(list(outputs, len), list(gradients, len)); });
}

// A null gradient clears.
char *torch_ext_set_grad(at::Tensor *tensor, at::Tensor *gradient) {
  return caught([&] { tensor->mutable_grad() = gradient == nullptr ? at::Tensor() : *gradient; });
}

// In place on parameters and moments; gradients are divided by `grad_scale` (in place too) unless it is null.
char *torch_ext_fused_adamw_(at::Tensor *const *parameters, at::Tensor *const *gradients, at::Tensor *const *exp_avgs,
                             at::Tensor *const *exp_avg_sqs, size_t len, const TorchExtAdamW *options,
                             at::Tensor *grad_scale) {
  return caught([&] {
    if (len == 0) return;
    auto step = at::full({}, static_cast<double>(options->step), parameters[0]->options().dtype(at::kFloat));
    auto scale = grad_scale == nullptr ? std::nullopt : std::make_optional(*grad_scale);
    at::_fused_adamw_(list(parameters, len), list(gradients, len), list(exp_avgs, len), list(exp_avg_sqs, len), {},
                      std::vector<at::Tensor>(len, step), options->lr, options->beta1, options->beta2,
                      options->weight_decay, options->eps, /*amsgrad=*/false, /*maximize=*/false, scale, std::nullopt);
  });
}
}
