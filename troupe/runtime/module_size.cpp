#include "troupe/runtime/module_size.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "troupe/error.hpp"

namespace troupe::runtime {

namespace {

/// Sizes below this are not checked: the memory is there, or the module is not what lacks it.
constexpr std::uint64_t little_bytes = std::uint64_t{1} << 20;

/// The size of tensors in bytes, saturated at the largest number, and the largest tensor.
struct tensors_size {
  std::uint64_t bytes = 0;
  std::uint64_t most = 0;
  std::string largest;

  void add(const std::vector<nn::parameter>& tensors) {
    for (const nn::parameter& one : tensors) {
      std::uint64_t own = sizeof(float);
      for (std::size_t i = 0; i < one.shape.dimensions(); ++i) own = model::bounded_product(own, one.shape[i]);
      bytes = model::bounded_sum(bytes, own);
      if (own <= most) continue;
      most = own;
      largest = fmt::format("{} {}", one.name, to_string(one.shape));
    }
  }
};

model::memory_claim claim(const std::string& what, std::uint64_t bytes, const kernels::device& where) {
  if (bytes < little_bytes) return {};
  std::uint64_t available = 0;
  std::string place;
  if (where.is_host()) {
    auto made = model::claim_memory(bytes);
    if (made) return std::move(*made);
    available = made.error();
  } else {
    available = where.memory().free;
    if (bytes <= available) return {};  // the module's memory is allocated at once
    place = fmt::format(" on CUDA device {}", where.number());
  }
  throw error(error_kind::input, model::memory_fault(what + place, bytes, available));
}

tensors_size learned_by(const nn::module& of) {
  tensors_size learned;
  learned.add(of.parameters());
  return learned;
}

}  // namespace

model::memory_claim claim_numbers(const nn::module& of, const kernels::device& where) {
  tensors_size all = learned_by(of);
  const std::uint64_t gradient = all.bytes;
  all.add(of.buffers());
  return claim(fmt::format("{} with {} and its gradient", of.type(), all.largest),
               model::bounded_sum(all.bytes, gradient), where);
}

void keep_gradient(model::memory_claim& of_numbers, const nn::module& of) { of_numbers.shrink(learned_by(of).bytes); }

model::memory_claim claim_state(const nn::module& of, const model::optimizer_spec& optimizer,
                                const kernels::device& where) {
  const tensors_size learned = learned_by(of);
  const auto buffers = static_cast<std::uint64_t>(model::state_buffers(optimizer));
  return claim(fmt::format("the optimizer's state of {} with {}", of.type(), learned.largest),
               model::bounded_product(learned.bytes, buffers), where);
}

model::memory_claim claim_mean(const nn::module& of, const kernels::device& where) {
  const tensors_size learned = learned_by(of);
  if (!where.is_host()) return {};
  return claim(fmt::format("the mean of the gradients of {} with {}", of.type(), learned.largest), learned.bytes,
               where);
}

std::shared_ptr<const model::memory_claim> claim_shared_mean(const nn::module& of, std::uint64_t number,
                                                             const kernels::device& where) {
  static std::mutex mutex;
  static std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<const model::memory_claim>> made;
  const std::lock_guard lock(mutex);
  auto& known = made[{number, learned_by(of).bytes}];
  auto here = known.lock();
  if (!here) {
    here = std::make_shared<const model::memory_claim>(claim_mean(of, where));
    known = here;
  }
  return here;
}

}  // namespace troupe::runtime
