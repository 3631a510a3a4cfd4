#include "trace/record/names.hpp"

#include <array>

#include "trace/record/recorder.hpp"

namespace troupe::trace {

namespace {

template <class E, std::size_t Count>
std::string_view find(E what, const std::array<std::string_view, Count>& names) {
  const auto i = static_cast<std::size_t>(what);
  return i < Count ? names[i] : "unknown";
}

}  // namespace

std::string_view name_of(mode what) {
  return find(what, std::array<std::string_view, 4>{"off", "ring", "full", "payload"});
}

std::string_view name_of(kind what) {
  // clang-format off
  return find(what,
              std::array<std::string_view, 21>{"none", "handled", "sent", "arrived", "released", "range", "step",
                                               "collective", "spawn", "exit", "drop", "timer", "credit wait", "credit",
                                               "link up", "link down", "checkpoint", "metric", "collective launch",
                                               "stalled", "device range"});
  // clang-format on
}

std::string_view name_of(range_name what) {
  return find(what, std::array<std::string_view, 18>{"none", "forward/backward", "backward parameters", "prepare batch",
                                                     "evaluate", "apply", "pool", "sum", "save", "restore", "commit",
                                                     "group", "update", "copy", "device wait", "forward", "backward",
                                                     "wait for slices"});
}

std::string_view name_of(metric_name what) {
  return find(what, std::array<std::string_view, 8>{"none", "loss", "auc", "accuracy", "samples/s", "staleness",
                                                    "test loss", "rmse"});
}

std::string_view name_of(drop_reason what) {
  return find(what, std::array<std::string_view, 4>{"none", "unexpected", "link ended", "not carried"});
}

}  // namespace troupe::trace
