// A checkpoint is taken once all trainers have paused; they continue when it is complete or has failed.

#include "actors/master/checkpointing.hpp"

#include <filesystem>

#include "model/hybrid.hpp"
#include "tests/actors/master_parts.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::actors::checkpointing_test {
namespace {

using state = checkpointing::state;

class Checkpointing : public master_parts_stage {
 protected:
  /// Two tables on two servers and two trainers, whose four steps have changed nothing.
  void begin() {
    plan({{20, 2, kernels::pooling::sum, false, 50}, {4, 3}}, 2, 2);
    auto opened = model::checkpoint_store::open(folder_.path(), nullptr);
    ASSERT_TRUE(opened) << opened.error().message;
    plan_.checkpoints.store = std::make_shared<model::checkpoint_store>(std::move(*opened));
    as_master([this](master_parts& mine) {
      mine.tables.start(plan_, servers_, [] {});
      mine.checkpoints.start(plan_, mine.tables.tables(), mine.figures,
                             [this](const checkpoint_summary& one) { reports_.push_back(one); });
    });
    run();
    ASSERT_EQ(parts_->tables.now(), table_setup::state::ready);
    for (std::uint64_t step = 1; step <= 4; ++step)
      for (const std::uint32_t rank : {0U, 1U})
        for (const auto& server : servers_) caf::anon_send(server, msg::gradient{head(step), rank, false, true, {}});
    run();
  }

  state now() const { return parts_->checkpoints.now(); }

  /// Pauses a trainer after step 4; rank 0 sends weights 0, 0.5, 1, ...
  std::shared_ptr<outcome<msg::committed>> stand_still(std::uint32_t rank) {
    msg::save_dense share;
    share.head = head(4);
    share.rank = rank;
    share.samples = 10 + rank;
    share.loss_sum = 0.25 * (1 + rank);
    share.seconds = 3 - rank;
    share.skipped = 2;
    if (rank == 0) {
      const model::hybrid_model whole(data_->spec(), job_for(plan_.servers, plan_.trainers));
      std::vector<float> weights(nn::count_of(whole.parameters()));
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 0.5F * static_cast<float>(i);
      const std::uint64_t count = weights.size();
      share.dense.push_back(msg::tensor::own(count, 1, std::move(weights)));
    }
    return ask<msg::committed>(master_, std::move(share));
  }

  const model::checkpoint_folder folder_;
  std::vector<checkpoint_summary> reports_;
};

TEST_F(Checkpointing, ItIsOnDiskBeforeAnybodyGoesOn) {
  begin();
  EXPECT_EQ(now(), state::idle);
  const auto first = stand_still(1);
  run();
  EXPECT_EQ(now(), state::gathering);
  EXPECT_TRUE(parts_->checkpoints.has(1));
  EXPECT_FALSE(parts_->checkpoints.has(0));
  EXPECT_TRUE(first->pending());
  const auto last = stand_still(0);
  while (now() == state::gathering) ASSERT_TRUE(scheduler().try_run_once());
  EXPECT_EQ(now(), state::writing);
  EXPECT_EQ(parts_->checkpoints.servers(), (std::set<std::uint32_t>{0, 1}));
  EXPECT_TRUE(reports_.empty());
  run();
  EXPECT_EQ(now(), state::idle);
  EXPECT_TRUE(parts_->checkpoints.servers().empty());
  EXPECT_TRUE(first->value && last->value);
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reports_[0].step, 4u);
  EXPECT_FALSE(reports_[0].problem);

  const auto found = model::newest_whole_checkpoint(folder_.path());
  ASSERT_TRUE(found) << found.error().message;
  const model::checkpoint_manifest& saved = found->what.manifest;
  EXPECT_EQ(saved.step, 4u);
  EXPECT_EQ(saved.position.skipped_steps, 2u);
  EXPECT_EQ(saved.position.epoch_seconds, 3) << "the slowest trainer's";
  EXPECT_EQ(saved.position.ranks, (std::vector<model::rank_position>{{0.25, 10}, {0.5, 11}}));
  EXPECT_FALSE(saved.position.last_epoch) << "no epoch is over";
  ASSERT_EQ(saved.tables.size(), 2u);
  EXPECT_EQ(saved.tables[0].shards, 2u);
  const auto given = data_->start()->tables;
  for (std::size_t t = 0; t < 2; ++t) {
    std::vector<float> rows(given[t].size());
    ASSERT_TRUE(model::read_table(found->what, t, "weight", {}, std::as_writable_bytes(std::span(rows))));
    EXPECT_EQ(rows, given[t]) << "table " << t;
  }
  float next = 0;
  for (const model::tensor_declaration& one : saved.dense) {
    std::vector<float> part(*model::tensor_bytes(one.type, one.shape) / sizeof(float));
    ASSERT_TRUE(model::read_dense(found->what, one.name, std::as_writable_bytes(std::span(part))));
    for (const float element : part) EXPECT_EQ(element, std::exchange(next, next + 0.5F)) << one.name;
  }
}

TEST_F(Checkpointing, OneThatCannotBeWrittenIsToldAndTheNextOneIsTaken) {
  begin();
  const msg::module_ref lost = parts_->tables.tables()[0][1];
  caf::anon_send(lost.server, msg::release{head(4), lost.module});
  run();
  const auto first = stand_still(0);
  const auto last = stand_still(1);
  run();
  EXPECT_EQ(now(), state::idle);
  EXPECT_TRUE(first->value && last->value) << "training continues";
  ASSERT_EQ(reports_.size(), 1u);
  ASSERT_TRUE(reports_[0].problem);
  EXPECT_EQ(reports_[0].problem->kind, fault_kind::run);
  EXPECT_FALSE(model::newest_whole_checkpoint(folder_.path()));
  EXPECT_TRUE(std::ranges::none_of(model::entries_of(folder_.path()), [](const auto& name) {
    return name.starts_with("step");
  })) << "nothing of it stays";
  const auto again = stand_still(0);
  run();
  EXPECT_EQ(now(), state::gathering);
}

TEST_F(Checkpointing, WhoHasNoPartInItDoesNoHarm) {
  begin();
  EXPECT_EQ(stand_still(0)->error, caf::error{});
  run();
  const auto stranger = stand_still(2);
  const auto twice = stand_still(0);
  run();
  EXPECT_EQ(protocol::describe(stranger->error), "rank 2 wants a checkpoint, this run saves none");
  EXPECT_EQ(protocol::describe(twice->error), "rank 0 wants a checkpoint while one is taken");
  EXPECT_EQ(now(), state::gathering);
}

TEST_F(Checkpointing, ARunThatSavesNothingTakesNone) {
  plan({}, 0, 1);
  as_master([this](master_parts& mine) {
    mine.checkpoints.start(plan_, mine.tables.tables(), mine.figures, nullptr);
    mine.checkpoints.save_beginning();
    EXPECT_EQ(mine.checkpoints.folder_to_try(), "");
    mine.checkpoints.tried();
  });
  const auto answer = stand_still(0);
  run();
  EXPECT_EQ(answer->error, protocol::errc::wrong_context);
  EXPECT_EQ(now(), state::idle);
}

TEST_F(Checkpointing, ServersTryInAFolderThatIsGoneWhenTheyHave) {
  begin();
  as_master([this](master_parts& mine) {
    mine.checkpoints.save_beginning();
    const std::string tried = mine.checkpoints.folder_to_try();
    EXPECT_EQ(now(), state::trying);
    EXPECT_TRUE(std::filesystem::is_directory(tried)) << tried;
    mine.checkpoints.tried();
    EXPECT_EQ(now(), state::idle);
    EXPECT_FALSE(std::filesystem::exists(tried));
  });
  const auto found = model::newest_whole_checkpoint(folder_.path());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->what.manifest.step, 0u) << "the beginning is saved";
}

TEST(CheckpointingState, NobodyHasTriedWhereThereIsNoFolder) {
  const model::checkpoint_folder folder;
  master_parts parts(nullptr);
  run_plan plan;
  plan.checkpoints.store =
      std::make_shared<model::checkpoint_store>(model::checkpoint_store::open(folder.path(), nullptr).value());
  parts.checkpoints.start(plan, parts.tables.tables(), parts.figures, nullptr);
  EXPECT_DEATH(parts.checkpoints.tried(), "assertion failed: may_follow");
}

}  // namespace
}  // namespace troupe::actors::checkpointing_test
