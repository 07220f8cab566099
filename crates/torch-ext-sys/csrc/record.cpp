// A node of autograd's graph whose backward pass is the caller's function. No exception leaves the C functions; the node
// throws into autograd's engine, which is called from one of them.

#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

namespace {

// Takes `len` gradients (its own from then on) and writes as many as there are inputs, each new and ours to free, or
// null where there is none. Returns null, or an error's text that `FreeText` takes back. Called at most once.
using Backward = char *(*)(void *context, at::Tensor *const *gradients, size_t len, at::Tensor **results);
using Drop = void (*)(void *context);
using FreeText = void (*)(char *text);

class Recorded : public torch::autograd::Node {
public:
  Recorded(void *context, Backward backward, Drop drop, FreeText free_text)
      : context_(context), backward_(backward), drop_(drop), free_text_(free_text) {}
  ~Recorded() override { release_variables(); }

  void release_variables() override {
    if (context_ != nullptr) drop_(context_);
    context_ = nullptr;
  }

  std::string name() const override { return "Recorded"; }

  torch::autograd::variable_list apply(torch::autograd::variable_list &&gradients) override {
    if (context_ == nullptr) throw std::runtime_error("the graph was already gone back through, and is freed");
    std::vector<std::unique_ptr<at::Tensor>> owned;
    for (size_t i = 0; i < gradients.size(); ++i) {
      auto gradient = gradients[i].defined() ? gradients[i] : input_metadata(i).zeros_like();
      owned.push_back(std::make_unique<at::Tensor>(gradient.contiguous()));
    }
    std::vector<at::Tensor *> given, results(num_outputs(), nullptr);
    given.reserve(owned.size());
    for (auto &gradient : owned) given.push_back(gradient.release());
    void *context = context_;
    context_ = nullptr; // the call consumes it
    char *error = backward_(context, given.data(), given.size(), results.data());
    torch::autograd::variable_list list;
    for (auto *result : results) {
      list.push_back(result == nullptr ? at::Tensor() : *result);
      delete result;
    }
    if (error != nullptr) {
      std::string text(error);
      free_text_(error);
      throw std::runtime_error(text);
    }
    return list;
  }

private:
  void *context_;
  Backward backward_;
  Drop drop_;
  FreeText free_text_;
};

} // namespace

extern "C" {

// Whether a function of `inputs` has a gradient to record.
bool torch_ext_needs_record(at::Tensor *const *inputs, size_t len) {
  if (!at::GradMode::is_enabled()) return false;
  for (size_t i = 0; i < len; ++i)
    if (inputs[i]->requires_grad()) return true;
  return false;
}

// Makes `outputs` a function of `inputs`; the node owns `context` from now on, whatever is returned.
char *torch_ext_record(at::Tensor *const *outputs, size_t num_outputs, at::Tensor *const *inputs, size_t num_inputs,
                       void *context, Backward backward, Drop drop, FreeText free_text) {
  try {
    std::shared_ptr<Recorded> node(new Recorded(context, backward, drop, free_text), torch::autograd::deleteNode);
    for (size_t i = 0; i < num_outputs; ++i)
      if (outputs[i]->requires_grad()) throw std::invalid_argument("an output has a history already");
    torch::autograd::variable_list list;
    for (size_t i = 0; i < num_inputs; ++i) list.push_back(*inputs[i]);
    node->set_next_edges(torch::autograd::collect_next_edges(list));
    for (size_t i = 0; i < num_outputs; ++i) torch::autograd::set_history(*outputs[i], node);
    return nullptr;
  } catch (const std::exception &error) {
    return strdup(error.what());
  } catch (...) {
    return strdup("unknown C++ exception");
  }
}
}
