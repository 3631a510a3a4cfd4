// A stage with one parameter server that has one table.

#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "actors/server/parameter_server.hpp"
#include "tests/actors/stage.hpp"

namespace troupe::actors {

class server_stage : public stage {
 protected:
  static constexpr std::uint64_t run_number = 1;
  static constexpr std::size_t dim = 4;

  /// Makes a server with one table of 10 zero rows for `trainers` trainers, with plain SGD and lr 1.
  void make(std::uint32_t trainers, const char* reduce = "sum", const char* mode = "sum", std::uint32_t accumulate = 1,
            std::uint32_t staleness = 0, std::uint64_t steps_done = 0) {
    server_ = spawn(parameter_server, run_number, 0U);
    auto made = ask<msg::module_ref>(
        server_, msg::instantiate{head(0), spec(reduce, mode), 0, 1, trainers, accumulate, staleness, steps_done});
    run();
    ASSERT_TRUE(made->value) << protocol::describe(made->error);
    module_ = made->value->module;
    auto loaded = ask<msg::committed>(
        server_,
        msg::load_state_dict{head(0), module_, {{"weight", msg::tensor::own(10, dim, std::vector<float>(10 * dim))}}});
    run();
    ASSERT_TRUE(loaded->value) << protocol::describe(loaded->error);
  }

  static msg::module_spec spec(const char* reduce, const char* mode) {
    return {"EmbeddingBag",
            {{"num_embeddings", "10"},
             {"embedding_dim", std::to_string(dim)},
             {"mode", mode},
             {"seed", "1"},
             {"table", "0"},
             {"optimizer", "sgd"},
             {"lr", "1"},
             {"reduce", reduce}}};
  }

  msg::header head(std::uint64_t step, std::uint32_t sender = 9) {
    return {run_number, step, sender, 0, ++sequence_, 0};
  }

  static msg::blob numbers(std::vector<std::int64_t> list) { return msg::blob::own(std::move(list)); }

  msg::lookup look_up(std::uint64_t step, std::vector<std::int64_t> indices, std::uint32_t staleness = 0) {
    return {head(step), {{module_, numbers(std::move(indices)), numbers({0}), {}}}, staleness};
  }

  /// The gradient of one bag with the single index `row`, with all elements `value`.
  msg::gradient grad(std::uint64_t step, std::uint32_t rank, std::int64_t row, float value, bool ends_step = true) {
    return {head(step),
            rank,
            true,
            ends_step,
            {{module_, numbers({row}), numbers({0}), {}, msg::tensor::own(1, dim, std::vector<float>(dim, value))}}};
  }

  void send(msg::gradient message) {
    caf::anon_send(server_, std::move(message));
    run();
  }

  /// Returns the first element of a row as a lookup for `step` sees it.
  float value_at(std::uint64_t step, std::int64_t row) {
    auto seen = ask<msg::rows>(server_, look_up(step, {row}));
    run();
    EXPECT_TRUE(seen->value) << protocol::describe(seen->error);
    return seen->value ? seen->value->tables[0].as<float>()[0] : std::nanf("");
  }

  msg::parameter_server_actor server_;
  std::uint64_t module_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace troupe::actors
