// Tables on simulated servers: shards of them answer a client's lookups and apply its gradients.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "actors/server/bag_cache.hpp"
#include "actors/server/row_codec.hpp"
#include "actors/trainer/sparse_client.hpp"
#include "model/embedding_bag.hpp"

namespace troupe::actors {

/// All tables, spread over `shards` simulated servers.
class spread_tables {
 public:
  spread_tables(const model::data_spec& all, std::uint32_t shards, const model::optimizer_spec& optimizer,
                kernels::row_dtype wire = kernels::row_dtype::f32, bool remote = false,
                kernels::device* staging = nullptr, model::table_split split = model::table_split::rows)
      : wire_(wire) {
    std::vector<std::vector<msg::module_ref>> refs;
    for (std::size_t t = 0; t < all.tables.size(); ++t) {
      const model::table_spec& spec = all.tables[t];
      tables_.emplace_back();
      refs.emplace_back();
      const auto reach = split == model::table_split::columns ? static_cast<std::uint32_t>(spec.dim) : shards;
      const std::uint32_t count = std::min(shards, reach);
      for (std::uint32_t s = 0; s < count; ++s) {
        tables_[t].emplace_back(
            model::embedding_bag_options{spec.rows, spec.dim, spec.mode, 1, t, {s, count, split}, optimizer});
        refs[t].push_back({{}, {}, module_of(t, s), s, count, s});
      }
    }
    client_ = sparse_client(all, std::move(refs), {.wire = wire, .remote = remote, .staging = staging, .split = split});
  }

  const sparse_client& client() const { return client_; }
  sparse_client& client() { return client_; }
  model::embedding_bag& table(std::size_t t, std::size_t shard) const { return tables_[t][shard]; }

  /// Returns the answers, by server.
  std::vector<msg::rows> answer(const sparse_client::context& plan) const {
    EXPECT_EQ(plan.lookups.size(), client_.servers());
    std::vector<msg::rows> answers;
    for (std::size_t s = 0; s < plan.lookups.size(); ++s) {
      answers.emplace_back();
      std::size_t t = 0;
      for (const msg::bag_lookup& wanted : plan.lookups[s]) {
        t = next_on(s, t);
        EXPECT_EQ(wanted.module, module_of(t, s));
        model::embedding_bag& table = tables_[t][s];
        const auto view = view_of(wanted);
        for (const std::int64_t row : view.indices) EXPECT_TRUE(row >= 0 && row < table.rows()) << row;
        const std::size_t count = view.offsets.empty() ? view.indices.size() : view.size();
        std::vector<float> out(count * table.dim());
        table.forward(view, out.data());
        answers.back().tables.push_back(encode_rows(out.data(), count, table.dim(), wire_));
        ++t;
      }
      EXPECT_EQ(next_on(s, t), tables_.size()) << "all tables of server " << s;
    }
    return answers;
  }

  /// Applies one step with the gradients of all ranks, each by server.
  void apply(std::uint64_t step, const std::vector<std::vector<std::vector<msg::bag_gradient>>>& of_ranks) {
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      for (std::size_t s = 0; s < tables_[t].size(); ++s) {
        std::vector<model::embedding_bag::contribution> contributions;
        std::vector<std::vector<float>> decoded;
        for (const auto& by_server : of_ranks) {
          const auto found = std::ranges::find(by_server.at(s), module_of(t, s), &msg::bag_gradient::module);
          ASSERT_NE(found, by_server.at(s).end());
          const msg::bag_gradient& given = *found;
          EXPECT_TRUE(given.grad.consistent());
          const auto view = view_of(given);
          EXPECT_EQ(given.grad.rows, view.offsets.empty() ? view.indices.size() : view.size());
          EXPECT_EQ(given.grad.cols, tables_[t][s].dim());
          EXPECT_EQ(given.grad.type, wire_);
          decode_rows(given.grad, decoded.emplace_back(given.grad.rows * given.grad.cols).data());
          contributions.push_back({view, {decoded.back().data(), given.grad.cols}});
        }
        EXPECT_EQ(tables_[t][s].step(step, contributions, 1.0F / static_cast<float>(of_ranks.size())), std::nullopt);
      }
    }
  }

  /// Returns the weights of table `t`, in the order of the whole table's rows.
  std::vector<float> weights(std::size_t t) const {
    const std::size_t dim = tables_[t].front().options().dim;
    std::vector<float> whole(static_cast<std::size_t>(tables_[t].front().options().rows) * dim);
    std::size_t first = 0;  // the shard's first column
    for (const model::embedding_bag& shard : tables_[t]) {
      for (std::int64_t row = 0; row < shard.rows(); ++row)
        std::copy_n(shard.weights().data() + static_cast<std::size_t>(row) * shard.dim(), shard.dim(),
                    whole.data() + static_cast<std::size_t>(shard.whole_row(row)) * dim + first);
      if (shard.dim() < dim) first += shard.dim();
    }
    return whole;
  }

 private:
  /// Returns the first table from `t` on of which server `s` has a shard; the number of tables if no table follows.
  std::size_t next_on(std::size_t s, std::size_t t) const {
    while (t < tables_.size() && s >= tables_[t].size()) ++t;
    return t;
  }

  static std::uint64_t module_of(std::size_t table, std::size_t shard) { return 100 * table + shard; }

  kernels::row_dtype wire_;
  mutable std::vector<std::vector<model::embedding_bag>> tables_;  // a lookup may use their staging memory
  sparse_client client_;
};

}  // namespace troupe::actors
