// Files that an earlier version recorded and saved are read as they were then. The folder older_version has a run of 3
// steps of the tutorial's job (seed 1, two trainers, one server, --trace payload), its analyses at the time, and its
// final checkpoint.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "model/checkpoint/manifest.hpp"
#include "model/checkpoint/names.hpp"
#include "protocol/content_reader.hpp"
#include "protocol/message_content.hpp"
#include "protocol/message_types.hpp"
#include "tests/end_to_end/program.hpp"
#include "tests/end_to_end/traced.hpp"
#include "tests/read_file.hpp"
#include "tests/value_of.hpp"
#include "trace/record/recording.hpp"

namespace troupe::end_to_end::older_version_test {
namespace {

const std::string folder = TROUPE_OLDER_VERSION;
const std::string recorded = folder + "/recorded.log";

// Results of the earlier version with the instruction set AVX2.
constexpr const char* digest_of_3_steps = "a87ddc2b9138fb08";
constexpr const char* digest_of_6_steps = "94b7c96405e61653";
constexpr double loss_of_6_steps = 2.5439298670256547;

/// Whether this machine computes the same bits as the one that recorded the run.
bool has_the_same_bits() {
  return digest_of(run({"train", "--json", "--data", "tutorial", "--seed", "1", "--steps", "3"})) == digest_of_3_steps;
}

class OlderVersion : public testing::TestWithParam<const char*> {};

TEST_P(OlderVersion, AnAnalysisOfItsRecordingSaysTheSame) {
  const outcome now = run({"trace", GetParam(), recorded, "--json"});
  EXPECT_EQ(now.exit_code, 0) << now.err;
  EXPECT_EQ(boost::json::parse(now.out), boost::json::parse(read_file(folder + "/" + GetParam() + ".json")));
}

INSTANTIATE_TEST_SUITE_P(, OlderVersion, testing::Values("summary", "critical-path", "check"));

/// Counts the recorded messages of one type; expects that each is made again with the same content.
template <class Message>
std::size_t made_again(const trace::recording& from) {
  std::size_t count = 0;
  for (const trace::content& before : from.contents) {
    if (from.type_name(before.type) != protocol::message_name_v<Message>) continue;
    ++count;
    EXPECT_TRUE(protocol::is_kept(before));
    Message message;
    EXPECT_TRUE(protocol::read_content_into(before, message));
    const trace::content after = protocol::content_of(message, true);
    if constexpr (protocol::traits_v<Message>.added == 0) {
      EXPECT_EQ(after.fields, before.fields);
      EXPECT_EQ(after.fields_digest, before.fields_digest);
    } else {  // fields added since are appended, with a new message's values
      const std::string fresh = protocol::content_of(Message(), true).fields;
      const std::size_t size = before.fields.size();
      EXPECT_LT(size, after.fields.size());
      if (size >= after.fields.size()) continue;
      EXPECT_EQ(after.fields, before.fields + fresh.substr(fresh.size() - (after.fields.size() - size)));
    }
    EXPECT_EQ(after.parts.size(), before.parts.size());
    for (std::size_t i = 0; i < std::min(after.parts.size(), before.parts.size()); ++i) {
      EXPECT_EQ(after.parts[i].name, before.parts[i].name);
      EXPECT_EQ(after.parts[i].type, before.parts[i].type);
      EXPECT_EQ(after.parts[i].bytes, before.parts[i].bytes);
    }
  }
  return count;
}

TEST(OlderVersionsRecording, HoldsTheMessagesThatItHeld) {
  const auto from = value_of(trace::read_recording({{recorded}, 0}));
  std::size_t read = 0;
  [&]<class... T>(boost::mp11::mp_list<T...>) {
    const auto count = [&]<class One>(std::type_identity<One>) {
      if constexpr (requires(One x) { x.head; }) read += made_again<One>(from);
    };
    (count(std::type_identity<T>()), ...);
  }(protocol::message_types());
  EXPECT_EQ(read, 44u);
  EXPECT_EQ(from.contents.size(), 44u);
  EXPECT_EQ(made_again<msg::gradient>(from), 6u);  // of 2 trainers
}

TEST(OlderVersionsRecording, IsReplayed) {
  if (!has_the_same_bits()) GTEST_SKIP() << "recorded where the instruction set is another";
  for (const args& which : {args{}, args{"--actor", "server 0"}, args{"--actor", "trainer 1"}}) {
    const outcome again = run(with({"trace", "replay", recorded, "--json"}, which));
    EXPECT_EQ(again.exit_code, 0) << again.out << again.err;
    EXPECT_EQ(last_event(again, "done").at("same"), true);
  }
}

TEST(OlderVersionsCheckpoint, IsGoneOnFrom) {
  const temporary_trace copy;
  std::filesystem::copy(folder + "/checkpoint", copy.path(), std::filesystem::copy_options::recursive);
  EXPECT_EQ(run({"checkpoint", "verify", copy.path()}).exit_code, 0);
  const outcome resumed = run({"train", "--json", "--resume", copy.path(), "--steps", "6"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  const auto done = last_event(resumed, "done");
  EXPECT_EQ(done.at("steps"), 6);
  EXPECT_EQ(done.at("samples"), 79);
  EXPECT_NEAR(done.at("loss").to_number<double>(), loss_of_6_steps, 1e-6);
  if (has_the_same_bits()) {
    EXPECT_EQ(digest_of(resumed), digest_of_6_steps);
  }
}

// The checkpoint of a version without the setting.
TEST(OlderVersionsCheckpoint, IsGoneOnFromWithoutALaterSetting) {
  const temporary_trace copy;
  std::filesystem::copy(folder + "/checkpoint", copy.path(), std::filesystem::copy_options::recursive);
  const std::string path = copy.path() + "/" + model::manifest_name(3);
  auto manifest = model::parse_manifest(read_file(path));
  ASSERT_TRUE(manifest) << manifest.error().message;
  ASSERT_EQ(std::erase_if(manifest->settings, [](const auto& one) { return one.first == "clip-norm"; }), 1u);
  std::ofstream(path) << model::to_text(*manifest);
  const outcome resumed = run({"train", "--json", "--resume", copy.path(), "--steps", "6"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NEAR(last_event(resumed, "done").at("loss").to_number<double>(), loss_of_6_steps, 1e-6);
  const outcome other = run({"train", "--json", "--resume", copy.path(), "--steps", "7", "--clip-norm", "2"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_FINDS(other.err, "--clip-norm 2: the run of the checkpoint has --clip-norm 0");
}

}  // namespace
}  // namespace troupe::end_to_end::older_version_test
