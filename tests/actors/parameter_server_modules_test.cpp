// Requests to a parameter server about its modules: described, saved, loaded, restored, released, and refused.

#include "base/digest.hpp"
#include "tests/actors/server_stage.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::actors::parameter_server_modules_test {
namespace {

using ParameterServerModules = server_stage;

TEST_F(ParameterServerModules, ModulesAreDescribedSavedLoadedAndReleased) {
  make(1);
  auto list = ask<msg::parameter_list>(server_, msg::parameters{head(0), module_});
  send(grad(1, 0, 6, 1.5F));
  auto saved = ask<msg::module_state>(server_, msg::state_dict{head(0), module_});
  run();
  ASSERT_TRUE(list->value && saved->value);
  ASSERT_EQ(list->value->items.size(), 1u);
  EXPECT_EQ(list->value->items[0].rows, 10u);
  EXPECT_EQ(list->value->items[0].cols, dim);
  EXPECT_EQ(saved->value->entries[0].second.as<float>()[6 * dim], -1.5F);

  auto wrong = ask<msg::committed>(
      server_, msg::load_state_dict{head(0), module_, {{"weights", saved->value->entries[0].second}}});
  run();
  EXPECT_EQ(wrong->error, protocol::errc::bad_input);
  caf::anon_send(server_, msg::release{head(0), module_});
  auto after = ask<msg::rows>(server_, look_up(2, {6}));
  run();
  EXPECT_EQ(after->error, protocol::errc::unknown_module);
}

TEST_F(ParameterServerModules, MessagesOfAnotherRunAreRefused) {
  make(1);
  msg::header other = head(0);
  other.run = run_number + 1;
  const auto refused = [this](auto answer) {
    run();
    EXPECT_EQ(answer->error, protocol::errc::wrong_context);
    EXPECT_EQ(protocol::describe(answer->error), "server 0, step 1: a message of run 2, this is run 1");
  };
  refused(ask<msg::module_ref>(server_, msg::instantiate{other, spec("sum", "sum"), 0, 1, 1}));
  refused(ask<msg::parameter_list>(server_, msg::parameters{other, module_}));
  refused(ask<msg::module_state>(server_, msg::state_dict{other, module_}));
  refused(ask<msg::committed>(server_, msg::load_state_dict{other, module_, {}}));
  refused(ask<msg::tensor>(server_, msg::row_digests{other, module_, 0, 10}));
  refused(ask<msg::saved_module>(server_, msg::save_module{other, module_, "/nowhere"}));
  refused(ask<msg::committed>(server_, msg::restore_module{other, module_, "/nowhere", 1}));
  other.step = 9;
  refused(ask<msg::tensor>(server_, msg::row_digests{other, module_, 0, 10}));
  caf::anon_send(server_, msg::release{other, module_});
  EXPECT_EQ(value_at(1, 0), 0.0F) << "the module is still there";
}

TEST_F(ParameterServerModules, RowDigestsComeInThePiecesAskedFor) {
  make(1);
  send(grad(1, 0, 6, 1.5F));
  const auto digests = [this](std::uint64_t first, std::uint64_t count) {
    auto answer = ask<msg::tensor>(server_, msg::row_digests{head(1), module_, first, count});
    run();
    EXPECT_TRUE(answer->value) << protocol::describe(answer->error);
    const auto numbers = answer->value->as<std::uint64_t>();
    return std::vector<std::uint64_t>(numbers.begin(), numbers.end());
  };
  const auto of_row = [](float value) {
    const std::vector<float> row(dim, value);
    return digest_of(reinterpret_cast<const std::byte*>(row.data()), dim * sizeof(float));
  };
  EXPECT_EQ(digests(5, 3), (std::vector<std::uint64_t>{of_row(0), of_row(-1.5F), of_row(0)}));
  EXPECT_EQ(digests(0, 10).size(), 10u);
  EXPECT_EQ(digests(10, 0).size(), 0u);

  const auto refusal = [this](std::uint64_t first, std::uint64_t count) {
    auto answer = ask<msg::tensor>(server_, msg::row_digests{head(1), module_, first, count});
    run();
    EXPECT_EQ(answer->error, protocol::errc::bad_input);
    return protocol::describe(answer->error);
  };
  EXPECT_EQ(refusal(5, 6),
            "server 0, step 1: table 0: digests of 6 rows from row 5 on; the shard has 10 rows, and a message asks for "
            "at most 65536");
  refusal(11, 0);
  refusal(0, msg::row_digests_max + 1);
  refusal(~std::uint64_t{0}, 2);
}

TEST_F(ParameterServerModules, ACheckpointThatCannotBeRestoredIsRefusedWithTheReason) {
  make(1);
  const model::checkpoint_folder folder;
  const auto refusal = [&] {
    auto answer = ask<msg::committed>(server_, msg::restore_module{head(0), module_, folder.path(), 40});
    run();
    EXPECT_EQ(answer->error, protocol::errc::bad_input);
    return protocol::describe(answer->error);
  };
  EXPECT_EQ(refusal(), "server 0, step 1: the checkpoint of step 40 in " + folder.path() + " has gone");
  model::set_content(folder / "step-000000000040.json", "");
  EXPECT_EQ(refusal(), "server 0, step 1: the checkpoint of step 40 in " + folder.path() +
                           " cannot be read: step-000000000040.json: its end is missing (0 bytes are there)");
}

TEST_F(ParameterServerModules, SpecificationsThatCannotBeMadeAreRefused) {
  auto server = spawn(parameter_server, run_number, 0U);
  const auto refused = [&](msg::module_spec wanted) {
    auto answer = ask<msg::module_ref>(server, msg::instantiate{head(0), std::move(wanted), 0, 1, 1});
    run();
    return answer->error;
  };
  msg::module_spec unknown = spec("sum", "sum");
  unknown.type = "EmbedingBag";
  EXPECT_EQ(refused(unknown), protocol::errc::unknown_module);
  EXPECT_NE(protocol::describe(refused(unknown)).find("'EmbeddingBag'"), std::string::npos);
  EXPECT_EQ(refused(spec("sum", "median")), protocol::errc::bad_input);
  msg::module_spec huge = spec("sum", "sum");
  huge.args[0].second = "9000000000000000";
  EXPECT_EQ(refused(huge), protocol::errc::out_of_memory);
  msg::module_spec empty = spec("sum", "sum");
  empty.args[0].second = "0";
  EXPECT_EQ(refused(empty), protocol::errc::bad_input);
  msg::module_spec partial = spec("sum", "sum");
  partial.args.pop_back();
  EXPECT_NE(protocol::describe(refused(partial)).find("'reduce' is missing"), std::string::npos);
}

}  // namespace
}  // namespace troupe::actors::parameter_server_modules_test
