// What a trainer function gets: who it is, and what it makes.

#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>

#include "troupe/context.hpp"
#include "troupe/data_parallel.hpp"
#include "troupe/module.hpp"

namespace troupe {

namespace runtime {
class trainer_runtime;
}

/// One of the run's trainers, as its own function sees it. Belongs to that function; copies are the same trainer.
class trainer {
 public:
  explicit trainer(runtime::trainer_runtime& of) : runtime_(&of) {}

  std::uint32_t rank() const;
  /// The number of trainers.
  std::uint32_t trainers() const;
  /// The run's seed (`--seed`).
  std::uint64_t seed() const;

  context new_context() const;

  /// Makes this trainer's replica of a module. All trainers make the same modules in the same order.
  template <std::derived_from<nn::module> Module>
  troupe::data_parallel data_parallel(Module module) const {
    return make_replica(std::make_shared<const Module>(std::move(module)));
  }

 private:
  troupe::data_parallel make_replica(std::shared_ptr<const nn::module> module) const;

  runtime::trainer_runtime* runtime_;
};

}  // namespace troupe
