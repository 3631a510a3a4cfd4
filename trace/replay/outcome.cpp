#include "trace/replay/outcome.hpp"

#include <fmt/format.h>

#include <chrono>

#include "base/units.hpp"

namespace troupe::replay {

stall_watch::stall_watch(replay& of)
    : thread_([&of, this](const std::stop_token& over) {
        constexpr std::chrono::seconds timeout{60};
        auto last_handled = of.handled();
        std::unique_lock lock(mutex_);
        while (!wake_.wait_for(lock, over, timeout, [&over] { return over.stop_requested(); })) {
          const auto handled = of.handled();
          if (of.has_begun() && handled == last_handled && !of.is_complete()) of.give_up();
          last_handled = handled;
        }
      }) {}

bool is_same(const replay& again, const replay_order& order, const std::string& digest) {
  return again.difference().empty() && again.is_complete() && (!order.is_whole || digest == order.weights_digest);
}

std::string messages(std::uint64_t count) {
  return fmt::format("{} message{}", count_text(count), count == 1 ? "" : "s");
}

std::string description_of(const replay& again, const replay_order& order, const std::string& digest) {
  if (const std::string difference = again.difference(); !difference.empty())
    return fmt::format("{}\n{} before it came as recorded\n", difference, messages(again.handled()));
  if (!again.is_complete())
    return fmt::format("stopped after {} of {} that are recorded\n", messages(again.handled()),
                       count_text(again.expected()));
  std::string text = fmt::format("{} of training came as recorded{}\n", messages(again.handled()),
                                 order.is_whole ? "" : ", and no more are");
  if (again.compared() == 0)
    text += "what they held was not recorded (that takes --trace full), so only their order is known to be the same\n";
  else if (again.compared() < again.handled())
    text += fmt::format("of {} it is not recorded what they held\n", messages(again.handled() - again.compared()));
  if (order.is_whole && digest == order.weights_digest)
    text += fmt::format("weights digest  {}, as recorded\n", digest);
  else if (order.is_whole)
    text += fmt::format("weights digest  {}, recorded is {}\n", digest, order.weights_digest);
  return text;
}

}  // namespace troupe::replay
