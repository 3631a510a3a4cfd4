// A server writes the state of one step while it applies the next ones. The files have the bytes of a server that
// pauses, wherever its writer is blocked.

#include <array>
#include <filesystem>
#include <latch>
#include <semaphore>
#include <thread>

#include "actors/common/faults.hpp"
#include "actors/server/parameter_server.hpp"
#include "tests/actors/server_stage.hpp"
#include "tests/model/made_checkpoint.hpp"
#include "tests/read_file.hpp"

namespace troupe::actors::parameter_server_saving_test {
namespace {

constexpr std::int64_t table_rows = 100'000;
constexpr std::size_t table_dim = 16;  // a piece of a file has 16,384 f32 rows

struct kind_of_table {
  const char* optimizer;
  const char* dtype;
};

/// Blocks the writer at one piece of the file until it is released.
class held_writer : public fault_injector {
 public:
  explicit held_writer(int piece) : left_(piece) { install_faults(this); }
  ~held_writer() override { install_faults(nullptr); }

  void writing(std::size_t, std::uint32_t) override {
    if (left_-- != 0) return;
    reached.release();
    proceed.acquire();
  }

  std::binary_semaphore reached{0};
  std::binary_semaphore proceed{0};

 private:
  int left_;
};

/// A server with one table for two trainers, in an actor system with threads.
class threaded_server {
 public:
  explicit threaded_server(const kind_of_table& of, std::uint64_t memory = msg::any_memory) {
    server_ = system_.spawn(parameter_server, std::uint64_t{1}, 0U);
    msg::instantiate order{head(0),
                           {"EmbeddingBag",
                            {{"num_embeddings", std::to_string(table_rows)},
                             {"embedding_dim", std::to_string(table_dim)},
                             {"mode", "sum"},
                             {"seed", "1"},
                             {"table", "0"},
                             {"optimizer", of.optimizer},
                             {"lr", "0.125"},
                             {"reduce", "sum"},
                             {"dtype", of.dtype}}},
                           0,
                           1,
                           2};
    order.checkpoint_memory = memory;
    module_ = ask<msg::module_ref>(order).module;
  }
  ~threaded_server() { caf::anon_send_exit(server_, caf::exit_reason::kill); }

  static msg::header head(std::uint64_t step) {
    static std::uint64_t sequence = 0;
    return {1, step, 9, 0, ++sequence, 0};
  }

  template <class Answer, class Message>
  Answer ask(Message message) {
    Answer made{};
    self_->request(server_, caf::infinite, std::move(message))
        .receive([&](Answer& answer) { made = std::move(answer); },
                 [&](const caf::error& error) { ADD_FAILURE() << protocol::describe(error); });
    return made;
  }

  /// Sends both trainers' gradients of a step: a few rows often, many rows rarely.
  void take_step(std::uint64_t step, bool keeps = false) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      model::random_sequence random(model::mix(100 * step + rank));
      std::vector<std::int64_t> indices(3000);
      for (auto& one : indices)
        one = static_cast<std::int64_t>(random.below(2) == 0 ? random.below(50) * 2000 : random.below(table_rows));
      std::vector<float> numbers(table_dim);
      for (auto& one : numbers) one = static_cast<float>(random.below(1000)) / 512 - 1;
      msg::gradient grads{head(step), rank, true, true, {}};
      grads.keeps = keeps;
      grads.tables.push_back({module_,
                              msg::blob::own(std::move(indices)),
                              msg::blob::own(std::vector<std::int64_t>{0}),
                              {},
                              msg::tensor::own(1, table_dim, std::move(numbers))});
      self_->send(server_, std::move(grads));
    }
  }

  /// Returns once all steps before `step` have been applied.
  void wait_for(std::uint64_t step) {
    msg::lookup wanted{head(step), {{module_, msg::blob::own(std::vector<std::int64_t>{3}), {}, {}}}};
    EXPECT_EQ(ask<msg::rows>(std::move(wanted)).tables.size(), 1u);
  }

  /// Requests a file of the state after `step`; the answer comes when it is written.
  auto save(std::uint64_t step, const std::string& folder) {
    return self_->request(server_, caf::infinite, msg::save_module{head(step), module_, folder});
  }

  bool waits_for_checkpoint() {
    const auto now = ask<msg::actor_status>(msg::actor_query{head(0)});
    return std::ranges::any_of(now.waits, [](const auto& one) { return one.what == "the checkpoint"; });
  }

  /// Returns once the server has ended.
  void end() {
    caf::anon_send_exit(server_, caf::exit_reason::kill);
    self_->wait_for(server_);
  }

 private:
  struct config : traced_config {
    config() {
      set("caf.scheduler.max-threads", 2);
      config_file_path.clear();
    }
  };
  config config_;
  caf::actor_system system_{config_};
  caf::scoped_actor self_{system_};
  msg::parameter_server_actor server_;
  std::uint64_t module_ = 0;
};

/// Returns the result of a save: the file's name, or the error.
template <class Response>
std::string outcome_of(Response saving) {
  std::string text;
  saving.receive([&](const msg::saved_module& file) { text = file.name; },
                 [&](const caf::error& error) { text = protocol::describe(error); });
  return text;
}

constexpr const char* file_name = "table-0.shard-0-of-1.safetensors";

/// Returns the file of the state after step 2, from a server that pauses.
std::string still_bytes(const kind_of_table& of) {
  const model::checkpoint_folder folder;
  threaded_server server(of);
  server.take_step(1);
  server.take_step(2);
  EXPECT_EQ(outcome_of(server.save(2, folder.path())), file_name);
  return read_file(folder / file_name);
}

class ServerSaving : public testing::TestWithParam<kind_of_table> {};

TEST_P(ServerSaving, StepsThatGoOnDoNotShowInTheFile) {
  const std::string expected = still_bytes(GetParam());
  for (const int piece : {0, 1, 2}) {
    const model::checkpoint_folder folder;
    held_writer held(piece);
    threaded_server server(GetParam());
    server.take_step(1);
    server.take_step(2);
    auto saving = server.save(2, folder.path());
    held.reached.acquire();
    for (std::uint64_t step = 3; step <= 6; ++step) server.take_step(step, step == 3);
    server.wait_for(7);
    held.proceed.release();
    EXPECT_EQ(outcome_of(std::move(saving)), file_name);
    EXPECT_TRUE(read_file(folder / file_name) == expected) << "held up at piece " << piece;
  }
}

// The gradient of the next step arrives before the request to write.
TEST_P(ServerSaving, TheStateIsKeptUntilTheOrderToWriteComes) {
  const std::string expected = still_bytes(GetParam());
  const model::checkpoint_folder folder;
  threaded_server server(GetParam());
  server.take_step(1);
  server.take_step(2);
  server.take_step(3, true);
  server.take_step(4);
  server.wait_for(5);
  EXPECT_EQ(outcome_of(server.save(2, folder.path())), file_name);
  EXPECT_TRUE(read_file(folder / file_name) == expected);
  EXPECT_NE(outcome_of(server.save(2, folder.path())).find("the state after optimizer step 2 has gone: 4 are applied"),
            std::string::npos);
}

TEST_P(ServerSaving, StepsWaitWhereThereIsNoMemoryAndGoOnWhenAllIsWritten) {
  const std::string expected = still_bytes(GetParam());
  for (const std::uint64_t memory : {std::uint64_t{0}, std::uint64_t{100'000}}) {
    const model::checkpoint_folder folder;
    held_writer held(1);
    threaded_server server(GetParam(), memory);
    server.take_step(1);
    server.take_step(2);
    auto saving = server.save(2, folder.path());
    held.reached.acquire();
    server.take_step(3, true);
    EXPECT_TRUE(server.waits_for_checkpoint()) << memory;
    held.proceed.release();
    server.wait_for(4);
    EXPECT_FALSE(server.waits_for_checkpoint());
    EXPECT_EQ(outcome_of(std::move(saving)), file_name);
    EXPECT_TRUE(read_file(folder / file_name) == expected) << memory;
    // No update is lost.
    const model::checkpoint_folder later;
    EXPECT_EQ(outcome_of(server.save(3, later.path())), file_name);
    threaded_server still(GetParam());
    const model::checkpoint_folder third;
    for (std::uint64_t step = 1; step <= 3; ++step) still.take_step(step);
    EXPECT_EQ(outcome_of(still.save(3, third.path())), file_name);
    EXPECT_TRUE(read_file(later / file_name) == read_file(third / file_name));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ServerSaving,
                         testing::Values(kind_of_table{"sgd", "f32"}, kind_of_table{"sgd", "bf16"},
                                         kind_of_table{"sgd:momentum=0.9", "f32"}, kind_of_table{"adagrad", "f16"},
                                         kind_of_table{"rowwise-adagrad", "f32"}, kind_of_table{"adam", "f32"},
                                         kind_of_table{"adam", "bf16"}));

TEST(ServerSavingFaults, AWriteThatFailsIsToldAndTheNextOneIsWhole) {
  struct failing : fault_injector {
    void writing(std::size_t, std::uint32_t) override {
      if (++pieces == 2) throw std::runtime_error("the disk has gone");
    }
    int pieces = 0;
  } faulty;
  install_faults(&faulty);
  const model::checkpoint_folder folder;
  threaded_server server({"adam", "f32"}, 0);
  server.take_step(1);
  server.take_step(2);
  EXPECT_NE(outcome_of(server.save(2, folder.path())).find("table 0, shard 0: the disk has gone"), std::string::npos);
  server.take_step(3);
  server.wait_for(4);
  EXPECT_FALSE(server.waits_for_checkpoint()) << "what was kept is not needed";
  const model::checkpoint_folder later;
  EXPECT_EQ(outcome_of(server.save(3, later.path())), file_name);
  install_faults(nullptr);
}

TEST(ServerSavingFaults, AServerThatEndsLeavesNoWholeFile) {
  const model::checkpoint_folder folder;
  held_writer held(1);
  {
    threaded_server server({"sgd", "f32"});
    server.take_step(1);
    auto saving = server.save(1, folder.path());
    held.reached.acquire();
    server.end();
    held.proceed.release();
    EXPECT_NE(outcome_of(std::move(saving)), file_name) << "it is answered with an error";
  }
  std::error_code none;
  if (const auto size = std::filesystem::file_size(folder / file_name, none); !none) {
    EXPECT_LT(size, table_rows * table_dim * sizeof(float));
  }
}

class KeptState : public server_stage {};

TEST_F(KeptState, ThatIsNotToBeWrittenHoldsNobodyUp) {
  server_ = spawn(parameter_server, run_number, 0U);
  msg::instantiate order{head(0), spec("sum", "sum"), 0, 1, 1};
  order.checkpoint_memory = 0;
  const auto made = ask<msg::module_ref>(server_, order);
  run();
  ASSERT_TRUE(made->value);
  module_ = made->value->module;
  const float before = value_at(1, 6);
  send(grad(1, 0, 6, 1.5F));
  auto next = grad(2, 0, 6, 1.5F);
  next.keeps = true;
  send(std::move(next));
  const auto rows = ask<msg::rows>(server_, look_up(3, {6}));
  run();
  EXPECT_TRUE(rows->pending());
  const auto forgotten = ask<msg::saved_module>(server_, msg::save_module{head(1), module_, ""});
  run();
  EXPECT_TRUE(forgotten->value);
  ASSERT_TRUE(rows->value);
  EXPECT_EQ(rows->value->tables[0].as<float>()[0], before - 3);
}

}  // namespace
}  // namespace troupe::actors::parameter_server_saving_test
