#include "troupe/remote_object.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/error.hpp"

namespace troupe {

void remote_object::load_state_dict(const named_tensors& state) {
  if (!state.empty()) throw error(error_kind::input, "load_state_dict: this object keeps no state");
}

namespace detail {

void method_table::add(method one) {
  if (find(one.name) != nullptr)
    throw error(error_kind::input, fmt::format("{}: describe has two methods with the name {}; choose another for one",
                                               type_name(of_), one.name));
  if (const method* const same = find(one.key))
    throw error(error_kind::input, fmt::format("{}: describe has one method twice, as {} and as {}; leave one out",
                                               type_name(of_), same->name, one.name));
  all_.push_back(std::move(one));
}

const method* method_table::find(const std::string& name) const {
  const auto found = std::ranges::find(all_, name, &method::name);
  return found == all_.end() ? nullptr : &*found;
}

const method* method_table::find(const method_key& key) const {
  const auto found = std::ranges::find(all_, key, &method::key);
  return found == all_.end() ? nullptr : &*found;
}

std::string method_table::names() const {
  std::string text;
  for (const method& one : all_) text += (text.empty() ? "" : ", ") + one.name;
  return text;
}

}  // namespace detail
}  // namespace troupe
