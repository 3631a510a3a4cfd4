#include "cluster/launch/machine_options.hpp"

#include <algorithm>
#include <vector>

#include "base/number.hpp"
#include "base/text.hpp"

namespace troupe::launch {

namespace {

constexpr std::size_t threads_max = 1024;

result<actors::device_request::kind> read_kind(const char* name, const std::optional<std::string>& text) {
  if (!text || *text == "auto") return actors::device_request::kind::automatic;
  if (*text == "cpu") return actors::device_request::kind::cpu;
  if (*text == "cuda") return actors::device_request::kind::cuda;
  return bad_input("--{} {}: must be auto, cpu or cuda", name, printable(*text));
}

/// Parses distinct numbers separated by commas.
result<std::vector<int>> read_numbers(const std::string& text) {
  constexpr int numbers_max = 1024;
  std::vector<int> numbers;
  for (const auto part : split(text, ',')) {
    const auto number = parse_number<int>(part);
    if (!number || *number < 0 || *number >= numbers_max)
      return bad_input("--devices {}: must be numbers of devices with commas between them, as in 0,2", printable(text));
    if (std::ranges::find(numbers, *number) != numbers.end())
      return bad_input("--devices {}: has {} twice", printable(text), *number);
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace

result<machine_options> read_machine_options(const std::function<std::optional<std::string>(const char*)>& text_of) {
  machine_options options;
  actors::device_request request;
  TROUPE_SET(request.trainers, read_kind("device", text_of("device")));
  TROUPE_SET(request.servers, read_kind("server-device", text_of("server-device")));
  if (const auto text = text_of("devices")) TROUPE_SET(request.numbers, read_numbers(*text));
  if (const auto text = text_of("threads")) {
    const auto threads = parse_number<std::size_t>(*text);
    if (!threads || *threads == 0 || *threads > threads_max)
      return bad_input("--threads {}: must be a whole number between 1 and {}", printable(*text), threads_max);
    options.threads = *threads;
  }
  if (const auto text = text_of("prepare")) {
    options.batch_threads.count = parse_number<std::size_t>(*text);
    if (!options.batch_threads.count || *options.batch_threads.count > threads_max)
      return bad_input("--prepare {}: must be a whole number between 0 and {}", printable(*text), threads_max);
  }
  TROUPE_SET(options.devices, actors::choose_devices(request));
  if (const auto text = text_of("step-graph")) {
    if (*text != "on" && *text != "off") return bad_input("--step-graph {}: must be on or off", printable(*text));
    options.devices.step_graphs = *text == "on";
  }
  return options;
}

}  // namespace troupe::launch
