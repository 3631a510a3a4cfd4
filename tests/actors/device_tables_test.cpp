// A server with tables on a CUDA device: it answers like a server on the processor, and neither its launches nor the
// host's waits grow with the number of tables.

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "actors/common/device_tensor.hpp"
#include "actors/server/parameter_server.hpp"
#include "kernels/backend.hpp"
#include "kernels/device_array.hpp"
#include "kernels/devices.hpp"
#include "tests/actors/stage.hpp"
#include "tests/emulated_cuda/counts.hpp"
#include "tests/kernels/needs_device.hpp"

namespace troupe::actors::device_tables_test {
namespace {

void on_cuda(caf::actor_system_config& config) {
  compute_devices& devices = dynamic_cast<traced_config&>(config).devices;
  devices.numbers = {0};
  devices.servers = true;
}

/// How a table differs from the default one.
struct table_kind {
  std::size_t dim = 8;
  std::string mode = "sum";
  std::string optimizer = "adagrad";
  std::string reduce = "mean";
};

constexpr std::int64_t rows_each = 40;

/// A server with tables, for one or two trainers.
class server_of_tables : public staged_system {
 public:
  server_of_tables(std::vector<table_kind> kinds, bool on_device, std::uint32_t trainers = 1)
      : staged_system(on_device ? on_cuda : nullptr), kinds_(std::move(kinds)), trainers_(trainers) {
    server_ = spawn(parameter_server, 1U, 0U);
    for (std::size_t t = 0; t < kinds_.size(); ++t) modules_.push_back(make(t));
  }

  std::uint64_t make(std::size_t t) {
    const table_kind& kind = kinds_[t];
    const msg::module_spec spec = {"EmbeddingBag",
                                   {{"num_embeddings", std::to_string(rows_each)},
                                    {"embedding_dim", std::to_string(kind.dim)},
                                    {"mode", kind.mode},
                                    {"seed", "1"},
                                    {"table", std::to_string(t)},
                                    {"optimizer", kind.optimizer},
                                    {"lr", "0.5"},
                                    {"reduce", kind.reduce}}};
    const auto made = ask<msg::module_ref>(server_, msg::instantiate{head(0), spec, 0, 1, trainers_, 1, 0, 0});
    run();
    if (!made->value) throw std::runtime_error(protocol::describe(made->error));
    return made->value->module;
  }

  void release(std::size_t t) {
    caf::anon_send(server_, msg::release{head(0), modules_[t]});
    run();
    modules_.erase(modules_.begin() + static_cast<std::ptrdiff_t>(t));
    kinds_.erase(kinds_.begin() + static_cast<std::ptrdiff_t>(t));
  }

  void add(const table_kind& kind) {
    kinds_.push_back(kind);
    modules_.push_back(make(kinds_.size() - 1));
  }

  /// Draws a step's bags, which are the same on every server, and keeps them for the gradient. `staging`: the device in
  /// whose staging memory they are stored.
  void draw_bags(std::uint64_t step, kernels::device* staging = nullptr) {
    const auto as_blob = [staging](std::vector<std::int64_t> numbers) {
      if (staging == nullptr) return msg::blob::own(std::move(numbers));
      const std::size_t bytes = numbers.size() * sizeof(std::int64_t);
      auto memory = staging->allocate_staging(bytes);
      std::memcpy(memory.get(), numbers.data(), bytes);
      return msg::blob::in_pinned_memory(std::move(memory), bytes);
    };
    model::random_sequence random(model::mix(step));
    bags_.clear();
    for (std::size_t t = 0; t < kinds_.size(); ++t) {
      std::vector<std::int64_t> indices(7);
      for (auto& one : indices) one = static_cast<std::int64_t>(random.below(rows_each));
      bags_.push_back({as_blob(std::move(indices)), as_blob({0, 2, 2, 5})});
    }
  }

  void spoil_bags(std::size_t t) { bags_[t].indices = msg::blob::own(std::vector<std::int64_t>(7, rows_each)); }

  /// Looks up every table `times` times.
  caf::expected<msg::rows> look_up(std::uint64_t step, bool pooled = true,
                                   const std::vector<std::shared_ptr<const device_destination>>& rooms = {},
                                   std::size_t times = 1) {
    msg::lookup wanted{head(step), {}, 0};
    for (std::size_t i = 0; i < times * kinds_.size(); ++i) {
      const std::size_t t = i % kinds_.size();
      // Uses other bags each time: they must not change the results of the first.
      auto indices = bags_[t].indices;
      if (i >= kinds_.size()) {
        const auto all = indices.as<std::int64_t>();
        std::vector<std::int64_t> turned(all.begin(), all.end());
        for (auto& one : turned) one = (one + static_cast<std::int64_t>(i)) % rows_each;
        indices = msg::blob::own(std::move(turned));
      }
      wanted.tables.push_back({modules_[t], indices, pooled ? bags_[t].offsets : msg::blob(), {}});
      if (!rooms.empty()) wanted.tables.back().destination = rooms[t];
    }
    const auto found = ask<msg::rows>(server_, std::move(wanted));
    run();
    if (!found->value) return found->error;
    return std::move(*found->value);
  }

  /// `bad`: the table whose gradient has an Inf.
  void send_gradient(std::uint64_t step, std::uint32_t rank, bool ends_step, std::size_t bad = SIZE_MAX) {
    msg::gradient grads{head(step), rank, true, ends_step, {}};
    for (std::size_t t = 0; t < kinds_.size(); ++t) {
      std::vector<float> numbers(4 * kinds_[t].dim);
      for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<float>((i * 7 + t * 3 + step + rank) % 11) / 8 - 0.5F;
      if (t == bad) numbers[kinds_[t].dim * 2] = HUGE_VALF;
      grads.tables.push_back({modules_[t],
                              bags_[t].indices,
                              bags_[t].offsets,
                              {},
                              msg::tensor::own(4, kinds_[t].dim, std::move(numbers))});
    }
    caf::anon_send(server_, std::move(grads));
    run();
  }

  std::shared_ptr<outcome<msg::squared_norm>> ask_norm(std::uint64_t step, std::uint32_t rank) {
    return ask<msg::squared_norm>(server_, msg::gradient_norm{head(step), rank});
  }

  std::shared_ptr<outcome<msg::committed>> order_step(std::uint64_t step, std::uint32_t rank, float factor,
                                                      bool apply = true) {
    auto answer = ask<msg::committed>(server_, msg::optimizer_step{head(step), rank, apply, factor});
    run();
    return answer;
  }

  /// Returns all weights and states, table after table.
  std::vector<float> all_numbers() {
    std::vector<float> all;
    for (const std::uint64_t module : modules_) {
      const auto state = ask<msg::module_state>(server_, msg::state_dict{head(0), module});
      run();
      if (!state->value) throw std::runtime_error(protocol::describe(state->error));
      for (const auto& [name, numbers] : state->value->entries)
        all.insert(all.end(), numbers.as<float>().begin(), numbers.as<float>().end());
    }
    return all;
  }

  const msg::parameter_server_actor& server() const { return server_; }
  using staged_system::watch;

 private:
  struct bags {
    msg::blob indices, offsets;
  };

  msg::header head(std::uint64_t step) { return {1, step, 9, 0, ++sequence_, 0}; }

  std::vector<table_kind> kinds_;
  std::uint32_t trainers_;
  msg::parameter_server_actor server_;
  std::vector<std::uint64_t> modules_;
  std::vector<bags> bags_;
  std::uint64_t sequence_ = 0;
};

std::vector<float> floats_of(const msg::rows& rows) {
  std::vector<float> all;
  for (const msg::tensor& one : rows.tables) all.insert(all.end(), one.as<float>().begin(), one.as<float>().end());
  return all;
}

class DeviceTablesGpu : public needs_device {};

/// Different widths, modes and optimizers; two of them visit every row.
std::vector<table_kind> many_kinds() {
  return {{8, "sum", "adagrad", "mean"}, {8, "mean", "adam", "sum"},           {4, "sum", "sgd", "mean"},
          {8, "sum", "sgd", "sum"},      {8, "sum", "rowwise-adagrad", "sum"}, {4, "mean", "adagrad", "mean"},
          {3, "sum", "adam", "mean"},    {8, "mean", "lazy-adam", "mean"}};
}

TEST_F(DeviceTablesGpu, HaveTheProcessorsBits) {
  server_of_tables there(many_kinds(), true, 2);
  server_of_tables here(many_kinds(), false, 2);
  kernels::device& device = kernels::cuda_backend().open(0);
  for (std::uint64_t step = 1; step <= 6; ++step) {
    // From step 4 on in staging memory, which is reused if the server has released the previous step's bags.
    there.draw_bags(step, step > 3 ? &device : nullptr);
    here.draw_bags(step);
    for (const bool pooled : {true, false}) {
      const auto got = there.look_up(step, pooled);
      const auto expected = here.look_up(step, pooled);
      ASSERT_TRUE(got && expected);
      ASSERT_EQ(floats_of(*got), floats_of(*expected)) << "step " << step;
    }
    for (server_of_tables* one : {&there, &here}) {
      one->send_gradient(step, 1, true);
      one->send_gradient(step, 0, true);
    }
    ASSERT_EQ(there.all_numbers(), here.all_numbers()) << "step " << step;
  }
}

TEST_F(DeviceTablesGpu, MayBeMoreThanALaunchTakes) {
  const std::vector<table_kind> kinds(kernels::gradient_tables_max + 3);
  server_of_tables there(kinds, true);
  server_of_tables here(kinds, false);
  for (std::uint64_t step = 1; step <= 2; ++step) {
    for (server_of_tables* one : {&there, &here}) {
      one->draw_bags(step);
      one->send_gradient(step, 0, true);
      one->draw_bags(step + 1);
    }
    const auto got = there.look_up(step + 1);
    const auto expected = here.look_up(step + 1);
    ASSERT_TRUE(got && expected);
    ASSERT_EQ(floats_of(*got), floats_of(*expected)) << "step " << step;
  }
  EXPECT_EQ(there.all_numbers(), here.all_numbers());
}

TEST_F(DeviceTablesGpu, MayBeLookedUpOftenInOneMessage) {
  // More lookups than the server keeps bags for.
  server_of_tables there({{}, {}}, true);
  server_of_tables here({{}, {}}, false);
  for (server_of_tables* one : {&there, &here}) one->draw_bags(1);
  const auto got = there.look_up(1, true, {}, 9);
  const auto expected = here.look_up(1, true, {}, 9);
  ASSERT_TRUE(got && expected);
  ASSERT_EQ(got->tables.size(), 18u);
  EXPECT_EQ(floats_of(*got), floats_of(*expected));
}

TEST_F(DeviceTablesGpu, GoOnAfterALookupThatWasRefused) {
  server_of_tables there({{}, {}, {}}, true);
  server_of_tables here({{}, {}, {}}, false);
  for (server_of_tables* one : {&there, &here}) {
    one->draw_bags(1);
    one->spoil_bags(2);
    const auto refused = one->look_up(1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), protocol::errc::bad_index);
    one->draw_bags(1);
  }
  const auto got = there.look_up(1);
  const auto expected = here.look_up(1);
  ASSERT_TRUE(got && expected);
  EXPECT_EQ(floats_of(*got), floats_of(*expected));
}

TEST_F(DeviceTablesGpu, ComeAndGoBetweenSteps) {
  server_of_tables there(many_kinds(), true);
  server_of_tables here(many_kinds(), false);
  for (server_of_tables* one : {&there, &here}) {
    one->draw_bags(1);
    one->send_gradient(1, 0, true);
    one->draw_bags(2);
    one->send_gradient(2, 0, false);
    EXPECT_TRUE(one->order_step(2, 0, 1, false)->value) << "collected, but not applied";
    one->release(0);
    one->add({8, "sum", "sgd", "mean"});
    one->draw_bags(3);
    one->send_gradient(3, 0, false);
    const auto norm = one->ask_norm(3, 0);
    one->run();
    EXPECT_TRUE(norm->value);
    one->release(2);  // grouped, but not applied
    one->add({4, "sum", "sgd", "mean"});
    EXPECT_TRUE(one->order_step(3, 0, 0.5F)->value);
    one->draw_bags(4);
    one->send_gradient(4, 0, true);
  }
  EXPECT_EQ(there.all_numbers(), here.all_numbers());
}

TEST_F(DeviceTablesGpu, TellTheSameNorm) {
  server_of_tables there(many_kinds(), true);
  server_of_tables here(many_kinds(), false);
  for (std::uint64_t step = 1; step <= 2; ++step) {
    std::vector<double> norms;
    for (server_of_tables* one : {&there, &here}) {
      one->draw_bags(step);
      one->send_gradient(step, 0, false);
      const auto answer = one->ask_norm(step, 0);
      one->run();
      ASSERT_TRUE(answer->value);
      norms.push_back(model::exact_sum::from(answer->value->limbs.as<std::int64_t>())->value());
      ASSERT_TRUE(one->order_step(step, 0, 0.25F)->value);
    }
    EXPECT_GT(norms[1], 0);
    EXPECT_NEAR(norms[0], norms[1], 1e-12 * norms[1]);
  }
  EXPECT_EQ(there.all_numbers(), here.all_numbers());
}

TEST_F(DeviceTablesGpu, NameTheFirstTableThatIsNotFinite) {
  std::vector<std::string> reasons;
  for (const bool on_device : {true, false}) {
    server_of_tables tables(std::vector<table_kind>(4), on_device);
    const auto end = tables.watch(tables.server());
    tables.run();
    tables.draw_bags(1);
    tables.send_gradient(1, 0, true, 2);
    if (on_device) {  // the host learns of a device's step with the next one
      tables.draw_bags(2);
      tables.send_gradient(2, 0, true);
    }
    ASSERT_TRUE(end->has_value());
    reasons.push_back(protocol::describe(**end));
  }
  EXPECT_NE(reasons[0].find("table 2: the gradient of row"), std::string::npos) << reasons[0];
  EXPECT_EQ(reasons[0], reasons[1]);
}

TEST_F(DeviceTablesGpu, TakeAsManyLaunchesAsOneAndNoWait) {
  if (!emulated_cuda::counts_now()) GTEST_SKIP() << "skipped: only the emulation counts launches";
  kernels::device& device = kernels::cuda_backend().open(0);
  for (const int which : {0, 1, 2, 3}) {
    const bool pooled_there = which % 2 == 0;
    kernels::device* const staging = which < 2 ? nullptr : &device;
    for (const std::size_t count : {1, 2, 10}) {
      SCOPED_TRACE(std::to_string(count) + (pooled_there ? " on the device" : " to the host") +
                   (staging != nullptr ? " from staging memory" : ""));
      server_of_tables tables(std::vector<table_kind>(count), true);
      const auto on = device.make_stream();
      kernels::device_array<float> columns;
      columns.resize(*on, 4 * 8 * count);
      std::vector<std::shared_ptr<const device_destination>> rooms;
      for (std::size_t t = 0; t < count && pooled_there; ++t)
        rooms.push_back(std::make_shared<const device_destination>(
            device_matrix{&device, 4, 8, {columns.data() + 8 * t, 8 * count}, columns.owner()}));
      for (std::uint64_t step = 1; step <= 3; ++step) {
        tables.draw_bags(step, staging);
        const auto before = *emulated_cuda::counts_now();
        const auto found = tables.look_up(step, true, rooms);
        const auto looked_up = *emulated_cuda::counts_now();
        ASSERT_TRUE(found);
        // Waits like a trainer, which waits for its loss.
        if (const auto* there = block_of(found->tables[0].bytes)) there->written().wait();
        const auto between = *emulated_cuda::counts_now();
        tables.send_gradient(step, 0, true);
        const auto after = *emulated_cuda::counts_now();
        EXPECT_EQ(looked_up.launches - before.launches, 1u);
        EXPECT_LE(looked_up.waits - before.waits, pooled_there ? 0u : 1u);
        // Launches: list, sort, mark, sum and rows; update and search for the first bad row.
        EXPECT_EQ(after.launches - between.launches, 7u);
        if (step == 1) continue;  // the first step allocates memory
        EXPECT_EQ(after.waits - between.waits, 0u) << "the step before is over, as the lookup came after it";
      }
    }
  }
}

}  // namespace
}  // namespace troupe::actors::device_tables_test
