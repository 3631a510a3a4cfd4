#include "troupe/runtime/module_plans.hpp"

#include <fmt/format.h>

#include <sstream>

#include "troupe/error.hpp"
#include "troupe/runtime/registry.hpp"
#include "troupe/runtime/server_desk.hpp"

namespace troupe::runtime {

module_plan plan_table(const nn::embedding_bag::options& options, std::uint64_t seed, std::uint64_t table) {
  if (options.num_embeddings < 1 || options.embedding_dim < 1)
    throw error(error_kind::input, fmt::format("embedding_bag: num_embeddings {} and embedding_dim {}; both must be at "
                                               "least 1",
                                               options.num_embeddings, options.embedding_dim));
  constexpr const char* modes[] = {"sum", "mean", "max"};
  return {
      .spec = {"EmbeddingBag",
               {{"num_embeddings", std::to_string(options.num_embeddings)},
                {"embedding_dim", std::to_string(options.embedding_dim)},
                {"mode", modes[static_cast<std::size_t>(options.mode)]},
                {"seed", std::to_string(seed)},
                {"table", std::to_string(table)},
                {"optimizer", "sgd"},
                {"lr", "0"},
                {"reduce", options.reduce == nn::reduction::sum ? "sum" : "mean"},
                {"name", fmt::format("embedding_bag [{}, {}]", options.num_embeddings, options.embedding_dim)}}},
      .name = "embedding_bag",
      .details = fmt::format("{} {} {}", options.num_embeddings, options.embedding_dim, static_cast<int>(options.mode)),
      .is_trained = true,
      .rows = static_cast<std::uint64_t>(options.num_embeddings),
      .dim = options.embedding_dim};
}

nn::embedding_bag::options table_of(const std::string& details) {
  nn::embedding_bag::options options;
  int mode = 0;
  std::istringstream from(details);
  if (!(from >> options.num_embeddings >> options.embedding_dim >> mode) || mode < 0 || mode > 2)
    throw error(error_kind::input, "a handle of another module than an embedding_bag");
  options.mode = static_cast<nn::pooling>(mode);
  return options;
}

module_plan plan_module(const std::string& type, const std::vector<arg>& named, std::uint64_t key,
                        std::uint64_t place) {
  const bool is_module = try_module(type, named) != nullptr;
  msg::arguments all = {{"type:", type}, {"key:", std::to_string(key)}, {"table:", std::to_string(place)}};
  for (auto& one : to_text(named)) all.push_back(std::move(one));
  return {.spec = {own_module_type, std::move(all)},
          .name = type,
          .details = {},
          .is_trained = is_module,
          .rows = 1,
          .dim = 1};
}

}  // namespace troupe::runtime
