// Runs that are interrupted in every way and resumed: --save, --checkpoint-every and --resume of the real program.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "model/checkpoint/manifest.hpp"
#include "model/checkpoint/names.hpp"
#include "model/random.hpp"
#include "tests/end_to_end/program.hpp"
#include "tests/model/made_checkpoint.hpp"
#include "tests/read_file.hpp"

namespace troupe::end_to_end::resume_test {
namespace {

/// A short Adult run; `more`: options at the end.
args adult(const std::string& steps, const args& more = {}) {
  return with({"train", "--json", "--batch-size", "64", "--steps", steps, "--eval-every", "0"}, more);
}

/// Waits without yielding the processor, so that a kill hits any moment of a step or a save.
void pass(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

void flip_a_bit(const std::filesystem::path& file, std::streamoff at) {
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekg(at);
  const char byte = static_cast<char>(bytes.get() ^ 4);
  bytes.seekp(at);
  bytes.put(byte);
  ASSERT_TRUE(bytes.good()) << file;
}

/// The files of the checkpoint after `step`.
std::filesystem::path files_of(const std::string& folder, const std::string& step) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (entry.is_directory() && name.rfind("step-" + std::string(12 - step.size(), '0') + step + "-", 0) == 0)
      return entry.path();
  }
  ADD_FAILURE() << "no checkpoint of step " << step << " in " << folder;
  return {};
}

TEST(Resume, EndsWithTheDigestOfAnUnbrokenRunAlsoWithMoreServers) {
  const model::checkpoint_folder folder;
  const std::string whole = digest_of(run(adult("300")));
  run(adult("130", {"--save", folder.path(), "--servers", "2"}));
  EXPECT_EQ(digest_of(run(adult("300", {"--resume", folder.path(), "--servers", "3"}))), whole);
  EXPECT_EQ(digest_of(run({"train", "--json", "--resume", folder.path(), "--steps", "300"})), whole)
      << "the job comes from the checkpoint";
  const auto again = run(adult("130", {"--resume", folder.path()}));
  EXPECT_EQ(last_event(again, "done").at("steps").to_number<int>(), 130) << "nothing is left to do";
}

TEST(Resume, WithOtherKernelsIsToldWithWhatItMeans) {
#ifndef __x86_64__
  GTEST_SKIP() << "skipped: the kernels that BLAS is asked for here are those of x86-64";
#endif
  const model::checkpoint_folder folder;
  const auto by = [](const char* kernels) {
    launch how;
    how.environment = {{"OPENBLAS_CORETYPE", kernels}};
    return how;
  };
  ASSERT_EQ(run(adult("20", {"--save", folder.path()}), by("Nehalem")).exit_code, 0);
  const outcome alike = run(adult("40", {"--resume", folder.path()}), by("Nehalem"));
  EXPECT_EQ(alike.exit_code, 0);
  EXPECT_EQ(alike.err.find("computes in another way"), std::string::npos) << alike.err;
  const outcome other = run(adult("40", {"--resume", folder.path()}), by("Prescott"));
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_NE(
      other.err.find("troupe: warning: --resume: the processor computes in another way than that of the "
                     "checkpoint's run (BLAS kernels Prescott here and Nehalem there): the weights will differ in "
                     "their last bits from those of an unbroken run"),
      std::string::npos)
      << other.err;
}

TEST(Resume, GoesOnFromACheckpointWithOlderSpellingsOfNumberTypes) {
  const model::checkpoint_folder folder;
  const args f16 = {"--wire-dtype", "f16"};
  const std::string whole = digest_of(run(adult("60", f16)));
  run(adult("40", {"--wire-dtype", "fp16", "--save", folder.path()}));
  const std::string file = folder / model::manifest_name(40);
  auto manifest = model::parse_manifest(read_file(file));
  ASSERT_TRUE(manifest.has_value()) << manifest.error().message;
  for (auto& [name, value] : manifest->settings) {
    if (name == "wire-dtype") value = "fp16";
    if (name == "row-dtype" || name == "matmul-precision") value = "fp32";
  }
  std::ofstream(file) << model::to_text(*manifest);
  EXPECT_EQ(digest_of(run(adult("60", {"--resume", folder.path()}))), whole);
  EXPECT_EQ(digest_of(run(adult("60", {"--resume", folder.path(), "--wire-dtype", "f16"}))), whole);
  EXPECT_EQ(digest_of(run(adult("60", {"--resume", folder.path(), "--wire-dtype", "fp16"}))), whole);
  const std::string other = expect_error(run({"train", "--resume", folder.path(), "--wire-dtype", "bf16"}), 2);
  EXPECT_FINDS(other, "the run of the checkpoint has --wire-dtype f16");
}

/// The rows have a digest; their path is not part of the run.
TEST(Resume, GoesOnWithDataThatHaveMoved) {
  const model::checkpoint_folder folder;
  const auto write_rows = [&](const char* name, int period) {
    std::ofstream rows(folder / name);
    rows << "y,x\n";
    for (int row = 0; row < 64; ++row) rows << row % 2 << "," << row % period << "\n";
    return "csv:" + folder / name;
  };
  const std::string before = write_rows("rows.csv", 5);
  const auto job = [](const std::string& data, const char* steps, const args& more) {
    return with(with(description_of("train --json --batch-size 8 --test-fraction 0 --rows 10"),
                     {"--data", data, "--steps", steps, "--columns",
                      R"([{"name": "y", "kind": "label"}, {"name": "x", "kind": "categorical"}])"}),
                more);
  };
  const std::string whole = digest_of(run(job(before, "40", {})));
  const std::string saved = folder / "saved";
  digest_of(run(job(before, "20", {"--save", saved})));
  const std::string moved = write_rows("moved.csv", 5);
  std::filesystem::remove(folder / "rows.csv");
  EXPECT_EQ(digest_of(run({"train", "--json", "--resume", saved, "--steps", "40", "--data", moved})), whole);
  EXPECT_EQ(digest_of(run(job(moved, "40", {"--resume", saved}))), whole);
  const std::string others = write_rows("others.csv", 3);
  const std::string line = expect_error(run({"train", "--resume", saved, "--steps", "40", "--data", others}), 2);
  EXPECT_FINDS(line, "--data " + others + ": is not what it was: the rows differ");
  const std::string kind = expect_error(run({"train", "--resume", saved, "--data", "criteo" + moved.substr(3)}), 2);
  EXPECT_FINDS(kind, "the run of the checkpoint has --data " + before);
}

// Ten runs, each killed five times and resumed, each time with another number of servers.
TEST(Resume, WorksAfterFiftyKills) {
  const std::string whole = digest_of(run(adult("400")));
  model::random_sequence random(model::random_key(1, model::random_stream::tutorial));
  int kills = 0;
  while (kills < 50) {
    const model::checkpoint_folder folder;
    std::uint64_t done = 0;
    for (bool begun = false; kills < 50 && done < 340; ++kills) {
      args more = {"--save", folder.path(), "--checkpoint-every",
                   "20",     "--servers",   std::to_string(1 + random.below(3))};
      if (begun) more.insert(more.end(), {"--resume", folder.path()});
      program running(adult("400", more));
      // Kills up to three checkpoints later, or while the resumed run still sets itself up.
      const std::uint64_t further = begun ? random.below(4) : 1 + random.below(3);
      if (further > 0) {
        done += 20 * further;
        ASSERT_TRUE(running.wait_for_output("\"event\":\"checkpoint\",\"step\":" + std::to_string(done) + ","))
            << "kill " << kills << ": " << running.finish().err;
      }
      pass(std::chrono::microseconds(random.below(further > 0 ? 12'000 : 60'000)));
      running.send(SIGKILL);
      running.finish();
      begun = true;
      // The run had saved more than it had reported.
      const auto list = run({"checkpoint", "list", folder.path(), "--json"});
      ASSERT_EQ(list.exit_code, 0) << list.err;
      done = std::max(done, json_lines(list.out).front().at("step").to_number<std::uint64_t>());
    }
    EXPECT_EQ(digest_of(run(adult("400", {"--resume", folder.path()}))), whole) << "after kill " << kills;
  }
}

// In one process, and with the servers in other processes.
TEST(Resume, GoesOnFromACheckpointThatTimeHasBrought) {
  const std::string whole = digest_of(run(adult("320")));
  for (const bool apart : {false, true})
    for (const char* memory : {"0", "1000000"}) {
      const model::checkpoint_folder folder;
      args saving = {"--save", folder.path(), "--checkpoint-seconds", "0.0001", "--checkpoint-memory", memory};
      if (apart) saving.emplace_back("--processes");
      const outcome half = run(adult("300", saving));
      ASSERT_EQ(half.exit_code, 0) << half.err;
      std::vector<std::uint64_t> steps;
      for (const auto& event : json_lines(half.out)) {
        if (event.at("event") != "checkpoint") continue;
        steps.push_back(event.at("step").to_number<std::uint64_t>());
        EXPECT_GE(event.at("stood_still").to_number<double>(), 0);
      }
      ASSERT_FALSE(steps.empty());
      EXPECT_EQ(steps.back(), 300u);
      // So the newest is the one before: the initial one, if no time limit caused a later one.
      std::filesystem::remove(folder / "step-000000000300.json");
      EXPECT_EQ(digest_of(run(adult("320", {"--resume", folder.path()}))), whole);
    }
}

TEST(Resume, FallsBackFromATornCheckpointAndSaysSo) {
  const std::string whole = digest_of(run(adult("120")));
  const model::checkpoint_folder folder;
  run(adult("100", {"--save", folder.path(), "--checkpoint-every", "40"}));
  flip_a_bit(files_of(folder.path(), "100") / "dense.safetensors", 2000);
  const outcome resumed = run(adult("120", {"--resume", folder.path()}));
  EXPECT_EQ(digest_of(resumed), whole);
  EXPECT_FINDS(resumed.err, "troupe: warning: checkpoint step 100 in ");
  EXPECT_FINDS(resumed.err, "falling back to step 80");
  std::filesystem::remove(files_of(folder.path(), "80") / "dense.safetensors");
  const std::string line = expect_error(run({"train", "--resume", folder.path()}), 2);
  EXPECT_FINDS(line, "no checkpoint is whole");
}

// In mid-epoch, from two servers to three, in a file that is read in windows.
TEST(Resume, GoesOnInADataFileThatIsStillTheSame) {
  const model::checkpoint_folder folder;
  const auto write = [&](std::size_t rows) {
    std::ofstream file(folder / "clicks.csv");
    file << "clicked,price,shop\n";
    for (std::size_t i = 0; i < rows; ++i) file << i % 3 / 2 << ',' << i % 11 << ",s" << i % 17 << '\n';
  };
  const auto job = [&](const std::string& steps, const args& more) {
    return with(
        with(description_of("train --json --rows 20 --batch-size 32 --row-dtype bf16 --clip-norm 1 --sparse-optimizer "
                            "lazy-adam"),
             {"--data", "csv:" + folder / "clicks.csv", "--steps", steps, "--columns",
              R"([{"name":"clicked","kind":"label"},{"name":"price","kind":"numeric"},)"
              R"({"name":"shop","kind":"categorical"}])"}),
        more);
  };
  write(1000);
  const std::string whole = digest_of(run(job("50", {})));
  digest_of(run(job("23", {"--save", folder / "saved", "--servers", "2"})));
  EXPECT_EQ(digest_of(run(job("50", {"--resume", folder / "saved", "--servers", "3"}))), whole);
  write(1001);
  const outcome refused = run(job("50", {"--resume", folder / "saved"}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_FINDS(refused.out, "is not what it was") << refused.err;
}

TEST(Resume, RefusesWhatItCannotGoOnFrom) {
  const model::checkpoint_folder folder;
  run(adult("40", {"--save", folder.path()}));
  const auto refusal = [&](const args& more) {
    return expect_error(run(with({"train", "--resume", folder.path()}, more)), 2);
  };
  EXPECT_FINDS(refusal({"--seed", "2"}), "--seed 2: the run of the checkpoint has --seed 1");
  EXPECT_FINDS(refusal({"--trainers", "3"}), "--trainers 3");
  EXPECT_FINDS(refusal({"--data", "tutorial"}), "--data tutorial: the run of the checkpoint has --data adult");
  EXPECT_FINDS(refusal({"--steps", "39"}), "of step 40, and the job ends after 39");
  const std::string nowhere = folder.path() + "/nowhere";
  const std::string missing = expect_error(run({"train", "--resume", nowhere}), 2);
  EXPECT_FINDS(missing, "--resume " + nowhere + ": ");
  EXPECT_EQ(missing.find("nowhere"), missing.rfind("nowhere")) << missing;
  const std::string again = expect_error(run({"train", "--save", folder.path()}), 2);
  EXPECT_FINDS(again, "--save " + folder.path() + ": holds checkpoints of a run already");
  std::filesystem::remove_all(folder.path());
  std::filesystem::create_directory(folder.path());
  EXPECT_FINDS(refusal({}), "checkpoint") << "an empty folder";
}

TEST(Resume, GoesOnAfterAStop) {
  const std::string whole = digest_of(run(adult("3000")));
  const model::checkpoint_folder folder;
  program running(adult("3000", {"--save", folder.path(), "--checkpoint-every", "50"}));
  ASSERT_TRUE(running.wait_for_output("\"step\":50,"));
  running.send(SIGINT);
  const outcome stopped = running.finish();
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
  EXPECT_TRUE(last_event(stopped, "done").contains("stopped"));
  EXPECT_EQ(digest_of(run(adult("3000", {"--resume", folder.path()}))), whole);
}

// Imitates a full disk: no file may grow beyond a few blocks.
TEST(Resume, AFullDiskDoesNotEndTheRunButShowsInTheExitCode) {
  const std::string whole = digest_of(run(adult("60")));
  const model::checkpoint_folder folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 4096;
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const outcome full = run(adult("60", {"--save", folder.path(), "--checkpoint-every", "30"}));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_FINDS(full.err, "troupe: error: no checkpoint of step 30: ");
  EXPECT_FINDS(full.err, "training continues");
  EXPECT_EQ(std::string(last_event(full, "done").at("weights_digest").as_string()), whole);
}

}  // namespace
}  // namespace troupe::end_to_end::resume_test
