// Goal: no damaged byte reaches the weights: the connection or its digests detect it and end the connection, and a
// supervised run continues to the weights of an unbroken one; what arrives twice is handled once. Method: a relay
// before a server damages one frame of a data link while the run trains.

#include <gtest/gtest.h>

#include <memory>
#include <regex>
#include <string>

#include "tests/hosts/relay.hpp"
#include "tests/hosts/spread_run.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::hosts::spoiled_bytes_test {
namespace {

constexpr const char* processes_at = "127.0.0.1";
constexpr const char* relay_at = "127.0.0.2";

/// 3,000 steps of little work.
const args job = {"--data", "tutorial", "--epochs", "300", "--seed", "7", "--servers", "2", "--trainers", "2"};

const std::string& unbroken_digest() {
  static const std::string digest = digest_of_one_process(job);
  return digest;
}

/// A lost frame is detected only by a request's timeout.
const args impatient = {"--request-timeout", "2"};

constexpr std::size_t bits = 8;
constexpr std::size_t in_the_header = 2 * bits;
/// An offset beyond any frame: it counts modulo the frame's number of bytes or bits.
constexpr std::size_t somewhere = 1'000'003;

struct spoiling {
  const char* name;
  way which;
  damage how;
  /// What the line of a process that notices it contains.
  std::string told;
};

void PrintTo(const spoiling& one, std::ostream* out) { *out << one.name; }

// Either end may report it first: the one that detects it, or the one whose connection ends.
constexpr const char* cut_short = "server 0 .*its connection was (closed|reset)";
constexpr const char* no_frame =
    "server 0.*(it sent 0x[0-9a-f]+ where a frame must begin with|its connection was (closed|reset))";
/// The trainer whose request is unanswered waits, and the others wait for its share of the all-reduce.
constexpr const char* unanswered = "server 0 .* did not answer lookup of step|bucket \\d+ lacks the .*trainer";
const std::string damaged =
    std::string(
        "server 0.*(decryption failed|bad record mac|wrong version number|its connection was (closed|reset))|") +
    unanswered;

const std::vector<spoiling> all_spoilings = {
    {"ABitOfAHeaderIsFlipped", way::there, {damage::kind::flip, in_the_header}, no_frame},
    {"AFrameIsCutOff", way::there, {damage::kind::cut_off, somewhere}, cut_short},
    {"AnAnswerIsCutOffWithinItsHeader", way::back, {damage::kind::cut_off, 10}, cut_short},
    {"AnAnswerIsLost", way::back, {damage::kind::lose}, unanswered},
    {"AnEncryptedBitIsFlipped", way::there, {damage::kind::flip, somewhere, true}, damaged},
    {"EncryptedBytesAreDropped", way::there, {damage::kind::drop, somewhere, true}, damaged},
    {"EncryptedBytesAreLost", way::back, {damage::kind::lose, 0, true}, damaged},
    {"EncryptedBytesAreRepeated", way::there, {damage::kind::repeat, 0, true}, damaged},
};

/// A run in which the others reach the first server through a relay.
class SpoiledBytesTest : public testing::TestWithParam<spoiling> {
 protected:
  void start(const args& options, bool encrypted, const args& more) {
    args network = more;
    if (!encrypted) network.push_back("--insecure");
    run_ = std::make_unique<spread_run>(options, network);
    run_->join("server", {.options = {"--advertise", links::to_string(relay_.address())}});
    for (const char* role : {"server", "trainer", "trainer"}) run_->join(role);
  }

  std::string finish_after(const spoiling& what) {
    EXPECT_TRUE(run_->master().wait_for_output("\"event\":\"checkpoint\",\"step\":200,")) << run_->master().error();
    relay_.spoil(what.which, what.how);
    EXPECT_TRUE(run_->master().wait_for_output("\"event\":\"done\"")) << run_->master().error();
    EXPECT_TRUE(relay_.has_spoiled());
    out_ = run_->master().output();
    return run_->finish();
  }

  std::size_t attempts() const {
    std::size_t count = 1;
    for (std::size_t at = 0; (at = out_.find("\"event\":\"attempt\"", at)) != std::string::npos; ++at) ++count;
    return count;
  }

  args saving() const { return {"--save", folder_.path(), "--checkpoint-every", "100"}; }

  const model::checkpoint_folder folder_;
  relay relay_{relay_at, {processes_at, 0}};
  std::unique_ptr<spread_run> run_;
  std::string out_;
};

class SpoiledBytes : public SpoiledBytesTest {};

TEST_P(SpoiledBytes, ChangeNoBitOfASupervisedRun) {
  start(with(job, saving()), GetParam().how.encrypted, impatient);
  EXPECT_EQ(finish_after(GetParam()), unbroken_digest());
  EXPECT_GE(attempts(), 2U) << out_;
}

TEST_P(SpoiledBytes, EndARunThatIsNotSupervised) {
  start(endless, GetParam().how.encrypted, impatient);
  run_->wait_until_it_trains();
  relay_.spoil(GetParam().which, GetParam().how);
  const spread_run::failure told = run_->finish_failed();
  EXPECT_TRUE(relay_.has_spoiled());
  EXPECT_TRUE(std::regex_search(told.master, std::regex("step \\d+"))) << told.master;
  EXPECT_TRUE(std::regex_search(told.master, std::regex(GetParam().told))) << told.master;
}

INSTANTIATE_TEST_SUITE_P(Of, SpoiledBytes, testing::ValuesIn(all_spoilings),
                         [](const auto& one) { return std::string(one.param.name); });

/// The relay repeats the frame of a lookup, a gradient or an answer: the receiver handles it once, and no attempt is
/// lost.
class RepeatedFrames : public SpoiledBytesTest {};

TEST_P(RepeatedFrames, AreHandledOnce) {
  start(with(job, saving()), false, {"--trace", "off"});  // a trace's invariants require that nothing arrives twice
  EXPECT_EQ(finish_after(GetParam()), unbroken_digest());
  EXPECT_EQ(attempts(), 1U) << out_;
}

INSTANTIATE_TEST_SUITE_P(Of, RepeatedFrames,
                         testing::Values(spoiling{"ARequest", way::there, {damage::kind::repeat}, ""},
                                         spoiling{"AnAnswer", way::back, {damage::kind::repeat}, ""}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace troupe::hosts::spoiled_bytes_test
