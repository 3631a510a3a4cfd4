#include "nn/own_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "nn/added_names.hpp"

namespace troupe::nn {

namespace {

added_names<named_data>& all_data() {
  static added_names<named_data> all("add_data", "a data set");
  return all;
}

constexpr std::array<std::string_view, 8> built_in = {"adult", "tutorial", "synthetic", "criteo",
                                                      "csv",   "mnist",    "idx",       "replay"};

}  // namespace

void add_data(const std::string& name, open_data open) {
  check_added_name("add_data", "name", name, '-');
  if (!open) throw error(error_kind::input, fmt::format("add_data: {} has no function that opens it", name));
  all_data().add(name, std::ranges::find(built_in, name) != built_in.end(), {name, std::move(open)});
}

std::vector<named_data> added_data() { return all_data().all(); }

}  // namespace troupe::nn
