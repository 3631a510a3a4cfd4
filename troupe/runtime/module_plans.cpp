#include "troupe/runtime/module_plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "base/text.hpp"
#include "kernels/embedding_bag.hpp"
#include "kernels/normal.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/module_service.hpp"
#include "troupe/runtime/registry.hpp"

namespace troupe::runtime {

namespace {

constexpr std::size_t name_max = 100;

void check_name(const std::string& name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const bool fits =
      std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-'; });
  if (!fits || !is_letter(name.front()) || name.size() > name_max)
    throw error(error_kind::input,
                fmt::format("embedding_bag: the name '{}' must be letters, digits, '_' and '-', a letter first, at "
                            "most {}",
                            printable(name), name_max));
}

/// Throws `error` unless an option is a valid value of its enum, whose last one is `last`.
template <class Kind>
void check_one_of(const char* option, Kind given, Kind last) {
  if (given > last)
    throw error(error_kind::input, fmt::format("embedding_bag: there is no {} {}; they are numbered from 0 to {}",
                                               option, static_cast<int>(given), static_cast<int>(last)));
}

/// Returns the type's name for servers. Throws `error` if rows cannot have the type.
std::string row_dtype_text(const char* option, dtype given) {
  constexpr const char* names[] = {"f32", "f16", "bf16"};  // as in kernels::row_dtypes
  const auto* const found = std::ranges::find(kernels::row_dtypes, given);
  if (found == std::end(kernels::row_dtypes))
    throw error(error_kind::input, fmt::format("embedding_bag: {} {}: must be float32, float16 or bfloat16", option,
                                               given <= dtype::boolean ? name_of(given) : "of no type"));
  return names[found - std::begin(kernels::row_dtypes)];
}

/// Returns the initializer's text for servers.
std::string text_of(const nn::row_init& init) {
  check_one_of("row_init::kind", init.is, nn::row_init::kind::uniform);
  const auto fits = [](double x) { return std::abs(x) <= std::numeric_limits<float>::max(); };  // false for NaN
  if (init.is == nn::row_init::kind::normal) {
    if (!(init.first >= 0 && init.first <= kernels::deviation_max))
      throw error(error_kind::input,
                  fmt::format("embedding_bag: init normal({}): the deviation must be a number between 0 and {:.1e}, so "
                              "that float32 has all rows",
                              init.first, kernels::deviation_max));
    return fmt::format("normal:{}", init.first);
  }
  if (!fits(init.first) || !fits(init.second) || init.first > init.second)
    throw error(error_kind::input,
                fmt::format("embedding_bag: init uniform({}, {}): both must be numbers that float32 has, and the first "
                            "not above the second",
                            init.first, init.second));
  return fmt::format("uniform:{},{}", init.first, init.second);
}

}  // namespace

module_plan plan_table(const nn::embedding_bag::options& options, std::uint64_t seed, std::uint64_t table,
                       const std::string& otherwise) {
  if (options.num_embeddings < 1 || options.embedding_dim < 1)
    throw error(error_kind::input, fmt::format("embedding_bag: num_embeddings {} and embedding_dim {}; both must be at "
                                               "least 1",
                                               options.num_embeddings, options.embedding_dim));
  check_one_of("pooling", options.mode, nn::pooling::max);
  check_one_of("reduction", options.reduce, nn::reduction::mean);
  check_one_of("table_split", options.split, nn::table_split::columns);
  const std::string row_dtype = row_dtype_text("row_dtype", options.row_dtype);
  row_dtype_text("wire_dtype", options.wire_dtype);
  constexpr const char* modes[] = {"sum", "mean", "max"};
  const std::string name = options.name == nullptr ? "" : options.name;
  if (!name.empty()) check_name(name);
  const std::string label = name.empty() ? otherwise : name;
  const std::string shape = fmt::format("embedding_bag [{}, {}]", options.num_embeddings, options.embedding_dim);
  module_plan plan{.spec = {"EmbeddingBag",
                            {{"num_embeddings", std::to_string(options.num_embeddings)},
                             {"embedding_dim", std::to_string(options.embedding_dim)},
                             {"mode", modes[static_cast<std::size_t>(options.mode)]},
                             {"seed", std::to_string(seed)},
                             {"table", std::to_string(table)},
                             {"optimizer", "sgd"},
                             {"lr", "0"},
                             {"reduce", options.reduce == nn::reduction::sum ? "sum" : "mean"},
                             {"init", text_of(options.init)},
                             {"name", label.empty() ? shape : fmt::format("{} ({})", label, shape)}}},
                   .name = "embedding_bag",
                   .label = label,
                   .details = fmt::format("{} {} {} {} {}", options.num_embeddings, options.embedding_dim,
                                          static_cast<int>(options.mode), static_cast<int>(options.wire_dtype),
                                          static_cast<int>(options.split)),
                   .is_trained = true,
                   .rows = static_cast<std::uint64_t>(options.num_embeddings),
                   .dim = options.embedding_dim};
  if (row_dtype != "f32") plan.spec.args.emplace_back("dtype", row_dtype);
  if (options.split == nn::table_split::columns) plan.spec.args.emplace_back("split", "columns");
  return plan;
}

nn::embedding_bag::options table_of(const std::string& details) {
  nn::embedding_bag::options options;
  int mode = 0;
  int wire = 0;
  int split = 0;
  std::istringstream from(details);
  if (!(from >> options.num_embeddings >> options.embedding_dim >> mode >> wire >> split) || mode < 0 || mode > 2 ||
      !kernels::is_row_dtype(static_cast<dtype>(wire)) || split < 0 || split > 1)
    throw error(error_kind::input, "a handle of another module than an embedding_bag");
  options.mode = static_cast<nn::pooling>(mode);
  options.wire_dtype = static_cast<dtype>(wire);
  options.split = static_cast<nn::table_split>(split);
  return options;
}

module_plan plan_module(const detail::remote_options& options, std::uint64_t key, std::uint64_t place) {
  const std::string& type = detail::type_name(options.type());
  msg::arguments all = {{"type:", type}, {"key:", std::to_string(key)}, {"table:", std::to_string(place)}};
  for (auto& one : to_text(type, options)) all.push_back(std::move(one));
  const bool is_module = options.make().index() == 0;
  return {.spec = {own_module_type, std::move(all)},
          .name = type,
          .label = {},
          .details = {},
          .is_trained = is_module,
          .rows = 1,
          .dim = 1};
}

}  // namespace troupe::runtime
