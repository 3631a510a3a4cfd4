#include "troupe/runtime/running_function.hpp"

#include <fmt/format.h>

namespace troupe::runtime {

void running_function::run(trainer me, const std::string& who, std::shared_ptr<const actor_executor> executor,
                           std::function<void(std::exception_ptr)> on_end) {
  under_way_.emplace([this, who, executor = std::move(executor)]() -> std::optional<open_code> {
    const std::uint64_t place = place_.load(std::memory_order_relaxed);
    const std::uint64_t turn = executor->turns();
    return open_code{.who = who,
                     .what = place == 0
                                 ? "its function, before its first step"
                                 : fmt::format("its function, {} step {}", place % 2 != 0 ? "in" : "after", place / 2),
                     .turn = turn,
                     .runs = turn % 2 != 0};
  });
  task_ = running_task(function_(me), std::move(on_end));
}

}  // namespace troupe::runtime
