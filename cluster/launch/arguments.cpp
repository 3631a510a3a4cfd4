#include "cluster/launch/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace troupe::launch {

namespace {

fault input_fault(std::string message) { return {fault_kind::input, std::move(message)}; }

}  // namespace

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string nearest_option(const std::string& name, const CLI::App& app) {
  const std::vector<std::string> all = option_names(app);
  const std::string bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  std::vector<std::string> longer;
  for (const std::string& one : all)
    if (bare.size() > 2 && one.find(bare) != one.npos) longer.push_back(one);
  return nearest(name, longer.empty() ? all : longer);
}

std::optional<fault> misused_option(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 1 && option->get_expected_max() <= 1)
      return input_fault(fmt::format("{} is given {} times; once is enough", name, option->count()));
    if (option->count() == 0 || option->get_expected_max() == 0) continue;
    const std::string& value = option->results().front();
    if (value.rfind("--", 0) == 0) return input_fault(fmt::format("{} needs a value, but {} follows", name, value));
  }
  return std::nullopt;
}

std::optional<fault> misplaced_value(const CLI::App& app, const std::vector<std::string>& arguments, bool gave_up) {
  for (const std::string& argument : arguments) {
    const std::string name = option_name(argument);
    const CLI::Option* option = is_option(name) ? app.get_option_no_throw(name) : nullptr;
    if (option == nullptr) continue;
    const bool is_switch = option->get_expected_max() == 0;
    if (is_switch && name != argument) return input_fault(name + " takes no value");
    if (gave_up && !is_switch && &argument == &arguments.back()) return input_fault(name + " needs a value");
  }
  return std::nullopt;
}

std::optional<std::string> first_extra(const CLI::App& app) {
  for (const std::string& extra : app.remaining())
    if (extra != "--") return extra;
  return std::nullopt;
}

std::vector<std::string> with_empty_values(const std::vector<std::string>& arguments) {
  std::vector<std::string> out;
  for (const std::string& argument : arguments) {
    if (argument.size() > 3 && argument.rfind("--", 0) == 0 && argument.find('=') == argument.size() - 1) {
      out.push_back(option_name(argument));
      out.emplace_back();
    } else {
      out.push_back(argument);
    }
  }
  return out;
}

}  // namespace troupe::launch
