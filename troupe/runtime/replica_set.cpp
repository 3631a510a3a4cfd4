#include "troupe/runtime/replica_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <utility>

#include "base/digest.hpp"
#include "base/exception_text.hpp"

namespace troupe::runtime {

std::shared_ptr<replica> replica_set::make(std::shared_ptr<const nn::module> module,
                                           std::shared_ptr<tensor_slice> slice, const data_parallel_options& options,
                                           const program_assignment& run, kernels::device& where) {
  std::uint32_t buckets = 0;
  for (const auto& one : replicas_) buckets += one->buckets();
  if (options.has_name() && !names_.insert(options.name).second)
    throw error(error_kind::input,
                fmt::format("data_parallel: the name '{}' is another replica's; choose another", options.name));
  const auto text = [&] {
    return fmt::format("a replica of {} with {} parameters, their gradients and optimizer", module->type(),
                       nn::count_of(module->parameters()));
  };
  replicas_.push_back(with_memory_for(text, [&] {
    return std::make_shared<replica>(module, slice, options, run.seed, replicas_.size(), buckets, kept_, rank_,
                                     run.rules, where);
  }));
  return replicas_.back();
}

std::shared_ptr<pipeline_stage> replica_set::add(std::shared_ptr<pipeline_stage> made) {
  return pipelines_.emplace_back(std::move(made));
}

bool replica_set::is_in_step() const {
  return std::ranges::any_of(replicas_, [](const auto& one) { return one->is_in_step(); });
}

bool replica_set::is_reduced() const {
  return std::ranges::any_of(replicas_, [](const auto& one) { return one->is_in_step() && one->buckets() > 0; });
}

std::optional<error> replica_set::spoilt(std::uint64_t last_step) const {
  for (const auto& one : replicas_)
    if (const auto found = one->numbers().check_finite(last_step))
      return error(error_kind::run, fmt::format("{}: {}", one->label(), found->description(spoilt_advice)));
  return std::nullopt;
}

bool replica_set::synchronizes() const {
  return std::ranges::any_of(replicas_, [](const auto& one) { return one->synchronizes(); });
}

void replica_set::check_steps_awaited(const char* what) const {
  for (const auto& one : pipelines_) one->check_steps_awaited(what);
}

// -- pipelines and parts ------------------------------------------------------------------------------

task<> replica_set::drain_all() {
  for (const auto& one : pipelines_) co_await one->drain();
}

void replica_set::drain(std::function<void()> then, failed on_error) {
  if (std::ranges::none_of(pipelines_, [](const auto& one) { return one->overlaps(); })) return then();
  draining_ = running_task(drain_all(), [then = std::move(then), on_error = std::move(on_error)](
                                            const std::exception_ptr& why) { why ? on_error(why) : then(); });
}

task<> replica_set::collect_all(communicator& with) {
  std::uint32_t number = 0;
  for (const auto& one : replicas_) {
    network_part* const part = one->part();
    if (part == nullptr) continue;
    std::vector<std::uint32_t> members(part->parts());
    std::iota(members.begin(), members.end(), rank_ - part->part());
    const group last(with.of_ends(members), std::chrono::milliseconds::max());
    co_await part->collect(one->numbers(), last, number++);
  }
}

void replica_set::collect_parts(communicator& with, std::function<void()> then, failed on_error) {
  if (std::ranges::all_of(replicas_, [](const auto& one) { return one->part() == nullptr; })) return then();
  collecting_ = running_task(collect_all(with), [then = std::move(then), on_error = std::move(on_error)](
                                                    const std::exception_ptr& why) { why ? on_error(why) : then(); });
}

bool replica_set::waits_in_passes() const {
  return std::ranges::any_of(replicas_, [](const auto& one) { return one->waits_in_passes(); });
}

// -- end --------------------------------------------------------------------------------------

replica_set::final_state replica_set::finish() const {
  final_state end;
  std::vector<float> all_buffers;
  running_digest digest;
  const auto add = [&](std::uint64_t of_parameters, std::span<const float> parameters, std::span<const float> buffers) {
    digest.add(std::as_bytes(std::span(&of_parameters, 1)));
    if (rank_ != 0) return;
    end.numbers.insert(end.numbers.end(), parameters.begin(), parameters.end());
    all_buffers.insert(all_buffers.end(), buffers.begin(), buffers.end());
  };
  for (const auto& one : replicas_) {
    if (!one->is_synchronized()) continue;  // other trainers have other numbers
    if (const network_part* const part = one->part()) {
      const network_part::whole& network = part->collected();
      add(network.digest, network.parameters, network.buffers);
      continue;
    }
    const msg::tensor parameters = one->numbers().weights();
    add(digest_of(parameters.bytes.data(), parameters.bytes.size()), parameters.as<float>(),
        one->numbers().buffers().as<float>());
  }
  end.digest = digest.value();
  end.numbers.insert(end.numbers.end(), all_buffers.begin(), all_buffers.end());
  return end;
}

}  // namespace troupe::runtime
