// Which actors run users' code: it runs on worker threads, never on a thread that others wait for.

#include <gtest/gtest.h>

#include "actors/common/inline_execution.hpp"
#include "protocol/message_types.hpp"
#include "tests/actors/server_stage.hpp"
#include "troupe/runtime/module_service.hpp"
#include "troupe/runtime/registry.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe::users_code_test {
namespace {

class UsersCode : public actors::server_stage {
 protected:
  static void SetUpTestSuite() { protocol::initialize_types(); }

  template <class Handle>
  static bool is_left_to_workers(const Handle& actor) {
    return caf::actor_cast<caf::strong_actor_ptr>(actor)->get()->getf(actors::runs_users_code_flag);
  }
};

TEST_F(UsersCode, RunsOnServersThatHostModulesOfProgramsNotOnThoseOfTables) {
  runtime::register_modules();
  make(1);
  EXPECT_FALSE(is_left_to_workers(server_));
  const msg::module_spec linear{runtime::own_module_type,
                                {{"type:", "linear"}, {"in_features", "i:4"}, {"out_features", "i:2"}}};
  const auto made = ask<msg::module_ref>(server_, msg::instantiate{head(0), linear, 0, 1, 1, 1, 0, 0});
  run();
  ASSERT_TRUE(made->value) << protocol::describe(made->error);
  EXPECT_TRUE(is_left_to_workers(server_));
}

task<> nothing(trainer /*me*/) { co_return; }

TEST_F(UsersCode, RunsOnTrainersOfPrograms) {
  const auto made = runtime::make_trainer(system(), run_number, 0, 1, nothing);
  run();
  EXPECT_TRUE(is_left_to_workers(made.actor));
  caf::anon_send_exit(made.actor, caf::exit_reason::kill);
  run();
}

}  // namespace
}  // namespace troupe::users_code_test
