#include "troupe/runtime/pass_means.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "troupe/error.hpp"
#include "troupe/runtime/rank_reduction.hpp"
#include "troupe/runtime/replica.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe::runtime {

std::uint32_t pass_means::ranks() const { return trainer_.trainers(); }

/// As in a job, a trainer that joins without data counts as zeros.
void pass_means::mean(std::span<float> numbers) {
  const std::string text = fmt::format("the {} pass of {}", way_, replica_.description());
  if (!replica_.synchronizes())
    throw error(error_kind::input,
                fmt::format("{}: a module in it synchronizes; its own synchronizes() must say so", text));
  const auto& tasks = trainer_.calls().executor();
  if (!tasks->can_wait())
    throw error(error_kind::input,
                fmt::format("{} waits for other trainers; call it in a task of the trainer, not in a callback, and not "
                            "between the making of a replica after the first optimizer step and the next co_await",
                            text));
  const auto all = tasks->wait(trainer_.reductions().gather(text, tensor::of<float>({numbers.size()}, numbers)));
  const std::vector<float> none(numbers.size());
  std::vector<const std::byte*> parts;
  parts.reserve(all.size());
  for (const tensor& one : all)
    parts.push_back(one.count() > 0 ? one.owner().get() : reinterpret_cast<const std::byte*>(none.data()));
  reduce_in_rank_order(reduce_op::mean, dtype::f32, parts, numbers.size(),
                       reinterpret_cast<std::byte*>(numbers.data()));
}

}  // namespace troupe::runtime
