// A node that gets its peers from the master: its servers test the folder that the run saves in.

#include <filesystem>

#include "cluster/nodes/data_plane.hpp"
#include "cluster/nodes/node_actor.hpp"
#include "tests/actors/stage.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::nodes::node_test {
namespace {

/// Admits every node as number 3, with rank 1 of two servers.
msg::master_actor::behavior_type admitting_master(msg::master_actor::pointer, std::shared_ptr<msg::node_actor> comes) {
  return {[](const msg::join_server&) { return msg::joined{}; },
          [](const msg::join_trainer&) { return msg::joined{}; },
          [](const troupe::msg::run&) { return msg::run_result{}; },
          [](const msg::status&) { return msg::run_status{}; },
          [](const msg::stop&) {},
          [](const msg::progress&) {},
          [](const msg::epoch_report&) {},
          [](const msg::evaluation&) {},
          [](const msg::save_dense&) { return msg::committed{}; },
          [comes](const msg::join_node& offer) {
            *comes = offer.node;
            return msg::admitted{{}, 1, 3, 0, {1}, 2, ""};
          },
          [](const msg::node_lost&) {},
          [](const msg::link_lost&) {},
          [](const msg::give_up&) {},
          [](const msg::trouble&) {},
          [](const msg::collect_evidence&) { return msg::collected_evidence{}; },
          [](const msg::verdict_found&) {},
          [](const msg::scale&) {}};
}

class Node : public actors::stage {
 protected:
  /// Returns the answer of a node with trainers or servers when the run saves in this folder.
  std::shared_ptr<actors::outcome<msg::committed>> answer_about(const std::string& folder, bool trains) {
    const auto comes = std::make_shared<msg::node_actor>();
    const auto boss = spawn(admitting_master, comes);
    data_ = std::make_unique<data_plane>(boss.home_system(), data_plane::options{});
    node_options options;
    options.trains = trains;
    spawn(node, node_state::dependencies{boss, std::make_shared<master_watch>(), data_.get(), options, "a session",
                                         links::endpoint{"127.0.0.1", 7}, [](const node_end&) {}});
    run();
    auto answer = ask<msg::committed>(
        *comes, msg::expect_peers{{}, {{3, 0, "server 1 (host b, pid 12)", trains, {1}, "127.0.0.1:7"}}, folder});
    run();
    return answer;
  }

  std::unique_ptr<data_plane> data_;
};

TEST_F(Node, ServersThatCannotWriteWhereTheRunSavesRefuseIt) {
  const auto answer = answer_about("/nowhere/step-1", false);
  EXPECT_EQ(answer->error, protocol::errc::bad_input);
  const std::string text = protocol::describe(answer->error);
  EXPECT_EQ(text.find("server 1 (host b, pid 12) cannot write where the run saves: /nowhere/step-1/"), 0u) << text;
  EXPECT_NE(text.find("No such file or directory"), std::string::npos) << text;
  EXPECT_NE(text.find("--save"), std::string::npos) << text;
}

TEST_F(Node, ServersLeaveNothingWhereTheyHaveTriedToWrite) {
  const model::checkpoint_folder folder;
  EXPECT_TRUE(answer_about(folder.path(), false)->value);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(Node, TrainersNeedNoFolder) { EXPECT_TRUE(answer_about("/nowhere/step-1", true)->value); }

TEST_F(Node, ARunThatSavesNothingNeedsNoFolder) { EXPECT_TRUE(answer_about("", false)->value); }

}  // namespace
}  // namespace troupe::nodes::node_test
