#include "troupe/runtime/module_size.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "model/memory.hpp"
#include "troupe/error.hpp"

namespace troupe::runtime {

namespace {

/// Not looked at: so much is there, or its lack is another's fault.
constexpr std::uint64_t little_bytes = std::uint64_t{1} << 20;

/// Tensors' bytes, saturated at the largest number, and the largest tensor.
struct tensors_size {
  std::uint64_t bytes = 0;
  std::uint64_t most = 0;
  std::string largest;

  void add(const std::vector<nn::parameter>& tensors) {
    for (const nn::parameter& one : tensors) {
      std::uint64_t own = sizeof(float);
      for (std::size_t i = 0; i < one.shape.dimensions(); ++i) own = model::bounded_product(own, one.shape[i]);
      if (__builtin_add_overflow(bytes, own, &bytes)) bytes = std::numeric_limits<std::uint64_t>::max();
      if (own <= most) continue;
      most = own;
      largest = fmt::format("{} {}", one.name, to_string(one.shape));
    }
  }
};

void check(const std::string& what, std::uint64_t bytes, const kernels::device& where) {
  if (bytes < little_bytes) return;
  const std::uint64_t free_there = where.is_host() ? model::available_memory() : where.memory().free;
  if (bytes <= free_there) return;
  const std::string place = where.is_host() ? "" : fmt::format(" on CUDA device {}", where.number());
  throw error(error_kind::input, model::memory_fault(what + place, bytes, free_there));
}

}  // namespace

std::shared_ptr<const nn::module> sized(std::shared_ptr<const nn::module> module, const kernels::device& where) {
  tensors_size learned;
  learned.add(module->parameters());
  tensors_size all = learned;
  all.add(module->buffers());
  std::uint64_t bytes = 0;  // the gradient is as large as the parameters
  if (__builtin_add_overflow(all.bytes, learned.bytes, &bytes)) bytes = std::numeric_limits<std::uint64_t>::max();
  check(fmt::format("{} with {} and its gradient", module->type(), all.largest), bytes, where);
  return module;
}

void check_state_size(const nn::module& of, const model::optimizer_spec& optimizer, const kernels::device& where) {
  tensors_size learned;
  learned.add(of.parameters());
  const auto buffers = static_cast<std::uint64_t>(model::state_buffers(optimizer));
  check(fmt::format("the optimizer's state of {} with {}", of.type(), learned.largest),
        model::bounded_product(learned.bytes, buffers), where);
}

std::size_t saved_count(const nn::module& of, const tensor& input) {
  constexpr std::size_t count_max = std::size_t{PTRDIFF_MAX} / sizeof(float);
  const std::size_t count = of.saved(input);
  if (count > count_max)
    throw error(error_kind::input,
                fmt::format("{}: saved() is {} numbers for an input {}; it has more than {} bytes; save fewer",
                            of.type(), count, to_string(input.shape()), PTRDIFF_MAX));
  return count;
}

}  // namespace troupe::runtime
