// Goal: every error in a command line is reported in one line that names it, with exit code 2, before anything runs.
// Method: a list of wrong command lines.

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/text.hpp"
#include "tests/end_to_end/program.hpp"

namespace troupe::end_to_end::command_line_test {
namespace {

struct wrong_line {
  std::vector<std::string> arguments;
  /// Parts that the error line must contain.
  std::vector<std::string> mentions;
};

void PrintTo(const wrong_line& line, std::ostream* out) {
  for (const std::string& argument : line.arguments) *out << printable_path(argument) << ' ';
}

class WrongCommandLine : public testing::TestWithParam<wrong_line> {};

TEST_P(WrongCommandLine, IsRefusedInOneLine) {
  const std::string line = expect_error(run(GetParam().arguments), 2);
  for (const std::string& text : GetParam().mentions) EXPECT_FINDS(line, text);
}

TEST_P(WrongCommandLine, IsAnEventToo) {
  std::vector<std::string> arguments = GetParam().arguments;
  arguments.insert(arguments.begin() + 1, "--json");
  const outcome result = run(arguments);
  EXPECT_EQ(result.exit_code, 2);
  const auto events = json_lines(result.out);
  ASSERT_EQ(events.size(), 1u) << result.out;
  EXPECT_EQ(events[0].at("event"), "error");
  EXPECT_EQ(events[0].at("code"), "input");
  const std::string message(events[0].at("message").as_string());
  EXPECT_EQ(result.err, "troupe: error: " + message + "\n");
}

std::vector<wrong_line> syntax() {
  return {
      {{"trian"}, {"trian", "train"}},
      {{"trian", "--help"}, {"no subcommand 'trian'", "train"}},
      {{"trian", "--version"}, {"no subcommand 'trian'", "train"}},
      {{"--quiet", "train"}, {"--quiet", "behind the subcommand"}},
      {{"train", "--epoch", "3"}, {"--epoch", "--epochs"}},
      {{"train", "--epoch=3"}, {"--epoch", "--epochs"}},
      {{"train", "--optimizer", "adam"}, {"--optimizer", "--dense-optimizer"}},
      {{"train", "-x"}, {"-x"}},
      {{"train", "--seed"}, {"--seed", "value"}},
      {{"train", "--seed", "--quiet"}, {"--seed", "value", "--quiet"}},
      {{"train", "--seed", "1", "--seed", "1"}, {"--seed", "2 times"}},
      {{"train", "--quiet", "--quiet"}, {"--quiet", "2 times"}},
      {{"train", "--quiet=yes"}, {"--quiet", "no value"}},
      {{"train", "--quiet="}, {"--quiet", "no value"}},
      {{"devices", "--json="}, {"--json", "no value"}},
      {{"master", "--listen", "127.0.0.1:0", "--processes"}, {"--processes", "troupe join"}},
      {{"train", "job.toml"}, {"job.toml: No such file", "job file"}},
      {{"train", "tutorial"}, {"tutorial: No such file", "job file"}},
      {{"train", "a.toml", "b.toml"}, {"'b.toml'", "one FILE"}},
      {{"train", "--print-job=yes"}, {"--print-job", "no value"}},
      {{"parity"}, {"FILE"}},
      {{"parity", "a", "b"}, {"'b'"}},
      {{"devices", "--seed", "1"}, {"--seed"}},
      {{"checkpoint"}, {"list", "verify", "export"}},
      {{"checkpoint", "lsit", "x"}, {"lsit", "list"}},
      {{"checkpoint", "list"}, {"DIR"}},
      {{"checkpoint", "list", "a", "b"}, {"'b'"}},
      {{"checkpoint", "verify", "a", "--step", "5"}, {"--step", "export"}},
      {{"checkpoint", "list", "a", "-o", "b"}, {"--output", "export"}},
      {{"checkpoint", "export", "a"}, {"-o FILE"}},
      {{"checkpoint", "export", "a", "-o"}, {"-o", "value"}},
      {{"checkpoint", "export", "a", "-o", "b", "--output", "c"}, {"--output", "2 times"}},
      {{"checkpoint", "export", "a", "-o", "b", "--step", "last"}, {"--step", "last"}},
      {{"checkpoint", "export", "a", "-o", "b", "--forced"}, {"--forced", "--force"}},
      {{"checkpoint", "list", "/nowhere/at\x1b[2J\nall"}, {"/nowhere/at"}},
  };
}

std::vector<wrong_line> tracing() {
  return {
      {{"train", "--trace", "off", "--trace-dir", "x"}, {"--trace-dir", "--trace off"}},
      {{"train", "--trace", "off", "--trace-ring-mib", "4"}, {"--trace-ring-mib", "--trace off"}},
      {{"trace"}, {"summary", "critical-path", "why"}},
      {{"train", "--trace", "some"}, {"--trace some", "off, ring, full or payload"}},
      {{"train", "--trace-filter", "actor"}, {"--trace-filter", "'actor'", "pattern"}},
      {{"train", "--trace-filter", "steps=9-3"}, {"--trace-filter", "steps=FIRST-LAST"}},
      {{"train", "--trace-filter", "steeps=9"}, {"'steeps=9'", "actor=PATTERN"}},
      {{"train", "--trace-payload", "server 0"}, {"--trace-payload server 0", "--trace payload"}},
      {{"train", "--trace-ring-mib", "0"}, {"--trace-ring-mib 0", "between 1 and 4096"}},
      {{"train", "--step-timeout", "0"}, {"--step-timeout 0", "between 0.1 and 86400"}},
      {{"train", "--trace", "off", "--step-timeout", "5"}, {"--step-timeout", "--trace off"}},
      {{"train", "--trace-dir", "/proc/nowhere"}, {"--trace-dir /proc/nowhere"}},
      {{"trace", "sumary", "x"}, {"sumary", "nearest is summary"}},
      {{"trace", "summary"}, {"FILE|DIR"}},
      {{"trace", "timeline", "x"}, {"-o FILE"}},
      {{"trace", "timeline", "x", "-o"}, {"-o", "value"}},
      {{"trace", "timeline", "x", "-o", "a", "--output", "b"}, {"--output", "2 times"}},
      {{"trace", "summary", "x", "-o", "a"}, {"--output", "troupe trace summary"}},
      {{"trace", "why", "t0:1"}, {"ID FILE|DIR"}},
      {{"trace", "summary", "x", "--step", "5"}, {"--step", "troupe trace summary"}},
      {{"trace", "critical-path", "x", "--step", "last"}, {"--step last"}},
      {{"trace", "critical-path", "x", "--step", "1", "--step", "2"}, {"--step", "2 times"}},
      {{"trace", "cone", "t0:1", "x", "--limit", "0"}, {"--limit 0"}},
      {{"trace", "summary", "/nowhere/at"}, {"/nowhere/at"}},
  };
}

std::vector<wrong_line> values() {
  return {
      {{"train", "--data", "adlut"}, {"adlut", "adult"}},
      {{"train", "--data", "criteo"}, {"criteo:FILE"}},
      {{"train", "--batch-size", "32562"}, {"--batch-size 32562", "at most 32561"}},
      {{"train", "--data", "criteo:/nowhere/at all"}, {"/nowhere/at all: No such file or directory"}},
      {{"train", "--data", "csv:file"}, {"--columns"}},
      {{"train", "--data", "idx:file"}, {"idx:IMAGES,LABELS"}},
      {{"train", "--data", "mnist:/nowhere"}, {"/nowhere/train-images-idx3-ubyte", "tools/setup.sh mnist"}},
      {{"train", "--shuffle-rows", "5"}, {"--shuffle-rows", "criteo or csv"}},
      {{"train", "--dense-optimizer", "adma"}, {"--dense-optimizer", "adma", "adam"}},
      {{"train", "--sparse-optimizer", "sgd:momentun=0.9"}, {"--sparse-optimizer", "momentun", "momentum"}},
      {{"train", "--trainers", "0"}, {"--trainers", "0"}},
      {{"train", "--trainers", "-1"}, {"--trainers", "-1"}},
      {{"train", "--data", "synthetic", "--dim", "0"}, {"--dim", "0"}},
      {{"train", "--data", "tutorial", "--dim", "16"}, {"--dim", "tutorial"}},
      {{"train", "--hidden", "64,,32"}, {"--hidden", "64,,32"}},
      {{"train", "--hidden="}, {"--hidden"}},
      {{"train", "--bottom-hidden", "64"}, {"--bottom-hidden 64", "--interaction dot"}},
      {{"train", "--data", "tutorial", "--interaction", "dot"}, {"--interaction dot", "two vectors", "cat"}},
      {{"train", "--seed", "abc"}, {"--seed", "abc"}},
      {{"train", "--seed", ""}, {"--seed"}},
      {{"train", "--seed", "1\u009b\u202e2\x1b"}, {"--seed 1\\u009b\\u202e2\\x1b"}},
      {{"train", "--seed", "\x9b"}, {"--seed \\x9b"}},
      {{"train", "--seed", "18446744073709551616"}, {"--seed", "18446744073709551616"}},
      {{"train", "--dense-lr", "nan"}, {"--dense-lr", "nan"}},
      {{"train", "--epochs", "1e3"}, {"--epochs", "1e3"}},
      {{"train", "--threads", "0"}, {"--threads", "1024"}},
      {{"train", "--threads", "1025"}, {"--threads", "1024"}},
      {{"train", "--threads", "two"}, {"--threads", "two"}},
      {{"train", "--prepare", "-1"}, {"--prepare -1", "between 0 and 1024"}},
      {{"train", "--prepare", "1025"}, {"--prepare 1025", "between 0 and 1024"}},
      {{"master", "--prepare", "1"}, {"--prepare 1", "troupe join"}},
      {{"train", "--data", "replay:/nowhere/at\x1b[2J\nall"}, {"/nowhere/at"}},
      {{"train", "--data", "synthetic", "--rows", "1000000000000", "--dim", "64"}, {"1000000000000"}},
      {{"train", "--metrics-csv", "/nowhere/m.csv"}, {"--metrics-csv /nowhere/m.csv", "No such file"}},
      {{"train", "--metrics-csv="}, {"--metrics-csv"}},
      {{"train", "--metrics-csv", "/"}, {"--metrics-csv /", "directory"}},
      {{"train", "--tensorboard", "/dev/null"}, {"--tensorboard /dev/null", "Not a directory"}},
      {{"train", "--tensorboard", "/dev/null/below"}, {"--tensorboard /dev/null/below", "Not a directory"}},
      {{"train", "--tensorboard", ""}, {"--tensorboard"}},
      {{"train", "--print-job", "--trainers", "0"}, {"--trainers 0"}},
      {{"train", "--print-job", "--threads", "0"}, {"--threads 0"}},
      {{"train", "--print-job", "--data", "replay:caf\xe9"}, {"--data replay:caf", "UTF-8"}},
      // 4 TiB: a size that jobs may have, and more than this machine's memory.
      {{"train", "--data", "synthetic", "--rows", "17000000000", "--dim", "64"}, {"memory"}},
  };
}

std::vector<wrong_line> devices() {
  return {
      {{"train", "--step-graph", "yes"}, {"--step-graph yes", "on or off"}},
      {{"train", "--device", "cpu", "--step-graph", "on"}, {"--step-graph on", "--device cuda"}},
      {{"train", "--device", "gpu"}, {"--device", "gpu", "auto, cpu or cuda"}},
      {{"train", "--server-device", "disk"}, {"--server-device disk", "auto, cpu or cuda"}},
      {{"train", "--devices"}, {"--devices"}},
      {{"train", "--devices", "x"}, {"--devices x", "0,2"}},
      {{"train", "--devices", "1,1"}, {"--devices 1,1", "twice"}},
      {{"train", "--devices", "-1"}, {"--devices -1"}},
      {{"train", "--devices", "0,"}, {"--devices 0,"}},
      {{"train", "--devices", "0", "--device", "cpu"}, {"--devices", "--device cuda"}},
      {{"train", "--device", "cpu", "--matmul-precision", "bf16"}, {"--matmul-precision", "f32"}},
      {{"train", "--matmul-precision", "fp8"}, {"--matmul-precision fp8", "tf32"}},
      {{"master", "--listen", "127.0.0.1:0", "--devices", "0"}, {"--devices 0", "troupe join"}},
  };
}

INSTANTIATE_TEST_SUITE_P(Syntax, WrongCommandLine, testing::ValuesIn(syntax()));
INSTANTIATE_TEST_SUITE_P(Tracing, WrongCommandLine, testing::ValuesIn(tracing()));
INSTANTIATE_TEST_SUITE_P(Values, WrongCommandLine, testing::ValuesIn(values()));
INSTANTIATE_TEST_SUITE_P(Devices, WrongCommandLine, testing::ValuesIn(devices()));

TEST(EmptyCommandLine, SaysWhatToTry) {
  const std::string line = expect_error(run({}), 2);
  EXPECT_FINDS(line, "troupe train");
}

TEST(Help, ListsTheSubcommands) {
  const outcome result = run({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  for (const char* name : {"train", "status", "stop", "parity", "checkpoint", "devices"}) {
    EXPECT_FINDS(result.out, std::string("\n  ") + name) << name;
  }
}

TEST(Help, OfTrainNamesEveryOptionAndTheDefaultsByData) {
  const outcome result = run({"train", "--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  for (const std::string& name : description_of(
           "data trainers servers epochs steps batch-size seed tables rows dim bag classes id-skew row-dtype "
           "table-split columns header separator test-file test-fraction shuffle-rows hidden interaction "
           "bottom-hidden loss metrics dense-optimizer sparse-optimizer dense-lr sparse-lr lr-schedule sparse-reduce "
           "consistency wire-dtype matmul-precision accumulate clip-norm bucket-mib nan threads device devices "
           "server-device prepare step-graph eval-every metrics-csv tensorboard print-job json quiet")) {
    EXPECT_FINDS(result.out, "  --" + name + " ") << name;
  }
  EXPECT_FINDS(result.out, "tutorial 100");
  for (const std::string& line : lines_of(result.out)) EXPECT_LE(line.size(), 120u) << line;
}

TEST(Help, OfTrainFitsATerminal) {
  launch how;
  how.environment = {{"COLUMNS", "80"}};
  const outcome result = run({"train", "--help"}, how);
  for (const std::string& line : lines_of(result.out)) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_EQ(result.out.find("\n\n\n"), std::string::npos);
}

TEST(Help, OfTheOthers) {
  for (const char* name : {"parity", "devices", "status", "stop"}) {
    const outcome result = run({name, "--help"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_FINDS(result.out, "--json");
  }
}

/// The subcommands in the program's help: one per line after `Subcommands:`.
std::vector<std::string> subcommands() {
  std::vector<std::string> names;
  bool listed = false;
  for (const std::string& line : lines_of(run({"--help"}).out)) {
    if (line.starts_with("Subcommands")) listed = true;
    if (listed && line.starts_with("  ") && line[2] != ' ') names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

TEST(Help, HasAShortNameForEveryOutputOption) {
  std::size_t outputs = 0;
  for (const std::string& name : subcommands()) {
    const outcome result = run({name, "--help"});
    EXPECT_EQ(result.exit_code, 0) << name;
    for (const std::string& line : lines_of(result.out)) {
      if (line.find(" --output") == std::string::npos && line.find(",--output") == std::string::npos) continue;
      EXPECT_FINDS(line, "-o,--output FILE ") << name << ": " << line;
      ++outputs;
    }
  }
  EXPECT_GE(outputs, 2U) << "checkpoint export and trace timeline have one";
}

TEST(Version, NamesTheLibrariesAsText) {
  const outcome result = run({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  const auto lines = lines_of(result.out);
  ASSERT_GE(lines.size(), 3U);
  EXPECT_EQ(lines[0], "troupe " TROUPE_VERSION);
  for (const char* line : {"CAF         0.18.7", "Boost       1.", "OpenBLAS    0.", "fmt         ", "CUDA        "})
    EXPECT_FINDS(result.out, std::string("\n") + line) << line << "\n" << result.out;
}

TEST(Version, IsAnObjectAsJson) {
  const outcome result = run({"--version", "--json"});
  EXPECT_EQ(result.exit_code, 0);
  const auto version = last_event(result, "version");
  EXPECT_EQ(version.at("version").as_string(), TROUPE_VERSION);
  const auto& libraries = version.at("libraries").as_object();
  EXPECT_EQ(libraries.at("caf").as_string(), "0.18.7");
  EXPECT_GE(libraries.size(), 10U);
  for (const auto& [name, text] : libraries) {
    const std::string known(text.as_string());
    EXPECT_EQ(known.find_first_not_of("0123456789."), std::string::npos) << std::string(name) << ": " << known;
  }
  const bool built = last_event(run({"devices", "--json"}), "devices").at("cuda").at("built").as_bool();
  if (!std::getenv("TROUPE_CUDA_MODULE")) {  // which replaces modules that are not built
    EXPECT_EQ(version.at("cuda").at("built").as_bool(), built);
  }
}

}  // namespace
}  // namespace troupe::end_to_end::command_line_test
