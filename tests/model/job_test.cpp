#include "model/job.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace troupe::job_test {
namespace {

job parsed(const std::vector<setting>& given) {
  const auto made = parse_job(given);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return made.value_or(job{});
}

std::string refusal(const std::vector<setting>& given) {
  const auto made = parse_job(given);
  EXPECT_FALSE(made.has_value()) << given.back().first << " " << given.back().second;
  if (made) return "";
  EXPECT_EQ(made.error().kind, fault_kind::input);
  EXPECT_EQ(made.error().message.find('\n'), std::string::npos);
  return made.error().message;
}

std::map<std::string, std::string> settings_of(const std::vector<setting>& given) {
  const auto settings = to_settings(parsed(given));
  return {settings.begin(), settings.end()};
}

// The defaults of the program's contract, data set by data set.
TEST(job, defaults_of_adult) {
  const std::map<std::string, std::string> expected{{"data", "adult"},
                                                    {"trainers", "2"},
                                                    {"servers", "1"},
                                                    {"epochs", "6"},
                                                    {"batch-size", "128"},
                                                    {"seed", "1"},
                                                    {"dim", "8"},
                                                    {"row-dtype", "f32"},
                                                    {"hidden", "64,32"},
                                                    {"interaction", "cat"},
                                                    {"loss", "bce-logits"},
                                                    {"dense-optimizer", "adam"},
                                                    {"sparse-optimizer", "adagrad"},
                                                    {"dense-lr", "0.002"},
                                                    {"sparse-lr", "0.05"},
                                                    {"lr-schedule", "constant"},
                                                    {"sparse-reduce", "mean"},
                                                    {"consistency", "sync"},
                                                    {"wire-dtype", "f32"},
                                                    {"matmul-precision", "f32"},
                                                    {"accumulate", "1"},
                                                    {"clip-norm", "0"},
                                                    {"bucket-mib", "25"},
                                                    {"eval-every", "1"},
                                                    {"nan", "stop"}};
  EXPECT_EQ(settings_of({}), expected);
}

TEST(job, defaults_of_tutorial) {
  const std::map<std::string, std::string> expected{{"data", "tutorial"},
                                                    {"trainers", "2"},
                                                    {"servers", "1"},
                                                    {"epochs", "100"},
                                                    {"seed", "1"},
                                                    {"row-dtype", "f32"},
                                                    {"hidden", "none"},
                                                    {"interaction", "cat"},
                                                    {"loss", "cross-entropy"},
                                                    {"dense-optimizer", "sgd"},
                                                    {"sparse-optimizer", "sgd"},
                                                    {"dense-lr", "0.05"},
                                                    {"sparse-lr", "0.05"},
                                                    {"lr-schedule", "constant"},
                                                    {"sparse-reduce", "sum"},
                                                    {"consistency", "sync"},
                                                    {"wire-dtype", "f32"},
                                                    {"matmul-precision", "f32"},
                                                    {"accumulate", "1"},
                                                    {"clip-norm", "0"},
                                                    {"bucket-mib", "25"},
                                                    {"eval-every", "1"},
                                                    {"nan", "stop"}};
  EXPECT_EQ(settings_of({{"data", "tutorial"}}), expected);
}

TEST(job, defaults_of_synthetic) {
  const std::map<std::string, std::string> expected{{"data", "synthetic"},
                                                    {"trainers", "2"},
                                                    {"servers", "1"},
                                                    {"epochs", "1"},
                                                    {"batch-size", "256"},
                                                    {"seed", "1"},
                                                    {"tables", "1"},
                                                    {"rows", "100000"},
                                                    {"dim", "16"},
                                                    {"bag", "10"},
                                                    {"classes", "2"},
                                                    {"id-skew", "uniform"},
                                                    {"row-dtype", "f32"},
                                                    {"hidden", "64"},
                                                    {"interaction", "cat"},
                                                    {"loss", "cross-entropy"},
                                                    {"dense-optimizer", "sgd"},
                                                    {"sparse-optimizer", "sgd"},
                                                    {"dense-lr", "0.05"},
                                                    {"sparse-lr", "0.05"},
                                                    {"lr-schedule", "constant"},
                                                    {"sparse-reduce", "mean"},
                                                    {"consistency", "sync"},
                                                    {"wire-dtype", "f32"},
                                                    {"matmul-precision", "f32"},
                                                    {"accumulate", "1"},
                                                    {"clip-norm", "0"},
                                                    {"bucket-mib", "25"},
                                                    {"eval-every", "1"},
                                                    {"nan", "stop"}};
  EXPECT_EQ(settings_of({{"data", "synthetic"}}), expected);
}

TEST(job, older_spellings_of_number_types_are_read_and_the_present_ones_written) {
  const auto written = [](const char* name, const char* text) {
    const auto settings = to_settings(parsed({{name, text}}));
    return std::ranges::find(settings, name, &setting::first)->second;
  };
  for (const char* name : {"row-dtype", "wire-dtype", "matmul-precision"}) {
    EXPECT_EQ(written(name, "fp32"), "f32") << name;
    EXPECT_EQ(written(name, "f32"), "f32") << name;
  }
  EXPECT_EQ(parsed({{"wire-dtype", "fp16"}}).wire_dtype, kernels::row_dtype::f16);
  EXPECT_EQ(written("wire-dtype", "fp16"), "f16");
  EXPECT_EQ(written("row-dtype", "fp16"), "f16");
  EXPECT_EQ(written("matmul-precision", "tf32"), "tf32");
}

TEST(job, defaults_of_files) {
  std::map<std::string, std::string> expected{{"data", "criteo:train.txt"},
                                              {"trainers", "2"},
                                              {"servers", "1"},
                                              {"epochs", "1"},
                                              {"batch-size", "256"},
                                              {"seed", "1"},
                                              {"rows", "100000"},
                                              {"dim", "16"},
                                              {"row-dtype", "f32"},
                                              {"test-fraction", "0"},
                                              {"shuffle-rows", "65536"},
                                              {"hidden", "64,32"},
                                              {"interaction", "cat"},
                                              {"loss", "bce-logits"},
                                              {"dense-optimizer", "sgd"},
                                              {"sparse-optimizer", "sgd"},
                                              {"dense-lr", "0.05"},
                                              {"sparse-lr", "0.05"},
                                              {"lr-schedule", "constant"},
                                              {"sparse-reduce", "mean"},
                                              {"consistency", "sync"},
                                              {"wire-dtype", "f32"},
                                              {"matmul-precision", "f32"},
                                              {"accumulate", "1"},
                                              {"clip-norm", "0"},
                                              {"bucket-mib", "25"},
                                              {"eval-every", "1"},
                                              {"nan", "stop"}};
  EXPECT_EQ(settings_of({{"data", "criteo:train.txt"}}), expected);
}

TEST(job, settings_reach_their_fields) {
  const job made = parsed({{"data", "synthetic"},
                           {"trainers", "3"},
                           {"servers", "4"},
                           {"epochs", "5"},
                           {"steps", "600"},
                           {"batch-size", "7"},
                           {"seed", "18446744073709551615"},
                           {"tables", "8"},
                           {"rows", "9"},
                           {"dim", "10"},
                           {"bag", "11"},
                           {"classes", "12"},
                           {"id-skew", "zipf:1.25"},
                           {"hidden", "64,32,16"},
                           {"loss", "mse"},
                           {"dense-optimizer", "adam:beta1=0.5"},
                           {"sparse-optimizer", "sgd:momentum=0.25"},
                           {"dense-lr", "0.5"},
                           {"sparse-lr", "2.5e-3"},
                           {"sparse-reduce", "sum"},
                           {"bucket-mib", "0.125"},
                           {"eval-every", "0"}});
  EXPECT_EQ(made.data, "synthetic");
  EXPECT_EQ(made.trainers, 3U);
  EXPECT_EQ(made.servers, 4U);
  EXPECT_EQ(made.epochs, 5U);
  EXPECT_EQ(made.steps, 600U);
  EXPECT_EQ(made.batch_size, 7U);
  EXPECT_EQ(made.seed, 18446744073709551615U);
  EXPECT_EQ(made.tables, 8U);
  EXPECT_EQ(made.rows, 9);
  EXPECT_EQ(made.dim, 10U);
  EXPECT_EQ(made.bag, 11U);
  EXPECT_EQ(made.classes, 12U);
  EXPECT_EQ(made.id_skew, 1.25);
  EXPECT_EQ(made.hidden, (std::vector<std::size_t>{64, 32, 16}));
  EXPECT_EQ(made.loss, loss_kind::mse);
  EXPECT_EQ(made.dense_optimizer.kind, kernels::optimizer_kind::adam);
  EXPECT_EQ(made.dense_optimizer.beta1, 0.5);
  EXPECT_EQ(made.dense_optimizer.lr, 0.5);
  EXPECT_EQ(made.sparse_optimizer.momentum, 0.25);
  EXPECT_EQ(made.sparse_optimizer.lr, 0.0025);
  EXPECT_EQ(made.sparse_reduce, sparse_reduction::sum);
  EXPECT_EQ(made.bucket_mib, 0.125);
  EXPECT_EQ(made.eval_every, 0U);
}

TEST(job, settings_of_the_run_reach_their_fields) {
  const job made = parsed(
      {{"row-dtype", "bf16"}, {"consistency", "ssp:3"}, {"accumulate", "4"}, {"clip-norm", "1.5"}, {"nan", "skip"}});
  EXPECT_EQ(made.row_dtype, kernels::row_dtype::bf16);
  EXPECT_EQ(made.staleness, 3U);
  EXPECT_EQ(made.accumulate, 4U);
  EXPECT_EQ(made.clip_norm, 1.5);
  EXPECT_EQ(made.nan, nan_policy::skip);
  EXPECT_EQ(made.wire_dtype, kernels::row_dtype::f32);
  EXPECT_EQ(parsed({{"wire-dtype", "f16"}}).wire_dtype, kernels::row_dtype::f16);
  EXPECT_EQ(parsed({{"wire-dtype", "bf16"}}).wire_dtype, kernels::row_dtype::bf16);
  EXPECT_EQ(parsed({{"row-dtype", "f16"}}).row_dtype, kernels::row_dtype::f16);
  EXPECT_EQ(parsed({{"consistency", "async"}}).staleness, any_staleness);
  EXPECT_EQ(parsed({{"consistency", "ssp:0"}}).staleness, 0U);
  EXPECT_EQ(parsed({{"interaction", "dot"}}).interaction, interaction_kind::dot);
}

TEST(job, settings_of_files_reach_their_fields) {
  const job made = parsed({{"data", "criteo:a b.gz"}, {"rows", "7"}, {"test-file", "t.gz"}, {"shuffle-rows", "9"}});
  EXPECT_EQ(made.data, "criteo:a b.gz");
  EXPECT_EQ(made.rows, 7);
  EXPECT_EQ(made.test_file, "t.gz");
  EXPECT_EQ(made.shuffle_rows, 9U);
  EXPECT_EQ(parsed({{"data", "criteo:x"}, {"test-fraction", "0.25"}}).test_fraction, 0.25);
  const std::string columns = R"([{"name":"y","kind":"label"},{"name":"a","kind":"numeric"}])";
  const job csv = parsed({{"data", "csv:a.csv"},
                          {"columns", columns},
                          {"header", "false"},
                          {"separator", "tab"},
                          {"loss", "cross-entropy"},
                          {"classes", "5"}});
  EXPECT_EQ(csv.columns, columns);
  EXPECT_FALSE(csv.header);
  EXPECT_EQ(csv.separator, '\t');
  EXPECT_EQ(csv.classes, 5U);
}

TEST(job, learning_rate_and_optimizer_do_not_depend_on_their_order) {
  const job made = parsed({{"sparse-lr", "0.7"}, {"sparse-optimizer", "adam"}});
  EXPECT_EQ(made.sparse_optimizer.lr, 0.7);
  EXPECT_EQ(made.sparse_optimizer.kind, kernels::optimizer_kind::adam);
}

TEST(job, the_schedule_is_one_for_both_learning_rates) {
  const job made = parsed({{"lr-schedule", "warmup:10+cosine:100"}, {"sparse-optimizer", "lazy-adam"}});
  EXPECT_EQ(to_string(made.dense_optimizer.schedule), "warmup:10+cosine:100");
  EXPECT_EQ(made.sparse_optimizer.schedule, made.dense_optimizer.schedule);
  EXPECT_EQ(settings_of({{"lr-schedule", "step:5,0.5"}})["lr-schedule"], "step:5,0.5");
  EXPECT_EQ(refusal({{"lr-schedule", "constant+cosine:9"}}),
            "--lr-schedule constant+cosine:9: constant never ends, so nothing can follow it; put it last");
}

TEST(job, optimizers_of_tables_are_for_tables) {
  EXPECT_TRUE(parsed({{"sparse-optimizer", "lazy-sgd"}}).sparse_optimizer.lazy);
  EXPECT_EQ(refusal({{"dense-optimizer", "rowwise-adagrad"}}),
            "--dense-optimizer rowwise-adagrad: rowwise-adagrad is for the rows of tables only; use adagrad");
}

TEST(job, the_last_of_two_equal_settings_counts) {
  EXPECT_EQ(parsed({{"seed", "3"}, {"seed", "4"}}).seed, 4U);
  EXPECT_EQ(parsed({{"data", "synthetic"}, {"data", "tutorial"}}).data, "tutorial");
}

TEST(job, out_of_range_is_refused_with_the_limit) {
  EXPECT_EQ(refusal({{"trainers", "0"}}), "--trainers 0: must be between 1 and 1024");
  EXPECT_EQ(refusal({{"trainers", "1025"}}), "--trainers 1025: must be between 1 and 1024");
  EXPECT_EQ(refusal({{"trainers", "-1"}}), "--trainers -1: must be between 1 and 1024");
  EXPECT_EQ(refusal({{"trainers", "99999999999999999999"}}),
            "--trainers 99999999999999999999: must be between 1 and 1024");
  EXPECT_EQ(refusal({{"servers", "2000"}}), "--servers 2000: must be between 0 and 1024");
  EXPECT_EQ(refusal({{"seed", "abc"}}), "--seed abc: must be a whole number between 0 and 18446744073709551615");
  EXPECT_EQ(refusal({{"seed", ""}}), "--seed '': must be a whole number between 0 and 18446744073709551615");
  EXPECT_EQ(refusal({{"seed", "1.5"}}), "--seed 1.5: must be a whole number between 0 and 18446744073709551615");
  EXPECT_EQ(refusal({{"batch-size", "0"}}), "--batch-size 0: must be between 1 and 1000000");
  EXPECT_EQ(refusal({{"dim", "0"}}), "--dim 0: must be between 1 and 65536");
  EXPECT_EQ(refusal({{"epochs", "0"}}), "--epochs 0: must be between 1 and 1000000000");
  EXPECT_EQ(refusal({{"steps", "0"}}), "--steps 0: must be between 1 and 1000000000000");
  EXPECT_EQ(refusal({{"steps", " 5"}}), "--steps  5: must be a whole number between 1 and 1000000000000");
  EXPECT_EQ(refusal({{"data", "synthetic"}, {"classes", "1"}}), "--classes 1: must be between 2 and 65536");
  EXPECT_EQ(refusal({{"dense-lr", "-0.1"}}), "--dense-lr -0.1: must be between 0 and 1000000");
  EXPECT_EQ(refusal({{"dense-lr", "nan"}}), "--dense-lr nan: must be between 0 and 1000000");
  EXPECT_EQ(refusal({{"sparse-lr", "inf"}}), "--sparse-lr inf: must be between 0 and 1000000");
  EXPECT_EQ(refusal({{"sparse-lr", "fast"}}), "--sparse-lr fast: must be a number between 0 and 1000000");
  EXPECT_EQ(refusal({{"bucket-mib", "0"}}), "--bucket-mib 0: must be above 0 and at most 65536");
  EXPECT_EQ(refusal({{"bucket-mib", "nan"}}), "--bucket-mib nan: must be above 0 and at most 65536");
  EXPECT_EQ(refusal({{"accumulate", "0"}}), "--accumulate 0: must be between 1 and 1000000");
  EXPECT_EQ(refusal({{"clip-norm", "-1"}}), "--clip-norm -1: must be between 0 and 1000000");
  EXPECT_EQ(refusal({{"clip-norm", "nan"}}), "--clip-norm nan: must be between 0 and 1000000");
  EXPECT_EQ(refusal({{"consistency", "ssp:1001"}}),
            "--consistency ssp:1001: the number of steps must be between 0 and 1000");
  EXPECT_EQ(refusal({{"data", "criteo:x"}, {"shuffle-rows", "0"}}),
            "--shuffle-rows 0: must be between 1 and 1000000000");
  for (const char* share : {"1", "-0.1", "nan", "inf", "half"}) {
    EXPECT_EQ(refusal({{"data", "criteo:x"}, {"test-fraction", share}}),
              std::string("--test-fraction ") + share + ": must be a number of at least 0 and below 1");
  }
}

TEST(job, malformed_values_are_refused) {
  const std::string hidden =
      ": must be none, or up to 64 whole numbers between 1 and 65536 with commas between them, such as 64,32";
  EXPECT_EQ(refusal({{"hidden", "64,,32"}}), "--hidden 64,,32" + hidden);
  for (const char* text : {"", ",", "64,", "0", "64,-1", "64;32", "none,64", "65537", "None"}) {
    EXPECT_NE(refusal({{"hidden", text}}).find(hidden), std::string::npos) << text;
  }
  std::string deep = "1";
  for (int i = 0; i < 64; ++i) deep += ",1";
  EXPECT_NE(refusal({{"hidden", deep}}).find(hidden), std::string::npos);
  EXPECT_EQ(refusal({{"data", "synthetic"}, {"id-skew", "zipf"}}),
            "--id-skew zipf: must be uniform or zipf:S, such as zipf:1.1");
  EXPECT_EQ(refusal({{"data", "synthetic"}, {"id-skew", "zipf:0"}}),
            "--id-skew zipf:0: the exponent must be above 0 and at most 10");
  EXPECT_EQ(refusal({{"data", "synthetic"}, {"id-skew", "zipf:x"}}),
            "--id-skew zipf:x: the exponent must be a number above 0 and at most 10");
  EXPECT_EQ(refusal({{"sparse-reduce", "men"}}),
            "--sparse-reduce men: unknown; the nearest is mean, and there are sum or mean");
  EXPECT_EQ(refusal({{"loss", "bce"}}),
            "--loss bce: unknown; the nearest is mse, and there are cross-entropy, bce-logits or mse");
  EXPECT_EQ(refusal({{"dense-optimizer", "sgd:momentum=-1"}}),
            "--dense-optimizer sgd:momentum=-1: momentum must be between 0 and 1000000, not -1");
  EXPECT_EQ(refusal({{"consistency", "snc"}}), "--consistency snc: must be sync, ssp:K (such as ssp:2) or async");
  EXPECT_EQ(refusal({{"consistency", "ssp:"}}),
            "--consistency ssp:: the number of steps must be a whole number between 0 and 1000");
  EXPECT_EQ(refusal({{"interaction", "dots"}}),
            "--interaction dots: unknown; the nearest is dot, and there are cat or dot");
  EXPECT_EQ(refusal({{"nan", "go"}}), "--nan go: unknown; the nearest is stop, and there are stop or skip");
  EXPECT_EQ(refusal({{"wire-dtype", "tf32"}}),
            "--wire-dtype tf32: unknown; the nearest is f32, and there are f32, f16 or bf16");
  EXPECT_EQ(refusal({{"matmul-precision", "fp16"}}),
            "--matmul-precision fp16: unknown; the nearest is bf16, and there are f32, tf32 or bf16");
  EXPECT_EQ(refusal({{"row-dtype", "f64"}}),
            "--row-dtype f64: unknown; the nearest is f32, and there are f32, f16 or bf16");
  EXPECT_EQ(refusal({{"data", "csv:x"}, {"header", "yes"}}).substr(0, 14), "--header yes: ");
  for (const char* separator : {"", "::", "\n", "\r", "\""}) {
    EXPECT_NE(refusal({{"data", "csv:x"}, {"separator", separator}}).find("must be a single character"),
              std::string::npos);
  }
  EXPECT_EQ(refusal({{"data", "csv:x"}, {"test-file", ""}}), "--test-file '': must not be empty");
  EXPECT_EQ(refusal({{"seed", std::string("1\n2")}}),
            "--seed 1\\x0a2: must be a whole number between 0 and 18446744073709551615");
}

TEST(job, unknown_settings_are_refused_with_the_nearest) {
  EXPECT_EQ(refusal({{"trainer", "2"}}), "--trainer: unknown setting; the nearest is --trainers");
  EXPECT_EQ(refusal({{"bathc-size", "2"}}), "--bathc-size: unknown setting; the nearest is --batch-size");
}

TEST(job, settings_of_other_data_are_refused) {
  EXPECT_EQ(refusal({{"rows", "5"}}),
            "--rows 5: adult has no such setting; leave it out, or use it with --data synthetic, criteo or csv");
  EXPECT_EQ(
      refusal({{"data", "tutorial"}, {"dim", "4"}}),
      "--dim 4: tutorial has no such setting; leave it out, or use it with --data adult, synthetic, criteo or csv");
  EXPECT_EQ(
      refusal({{"data", "tutorial"}, {"batch-size", "4"}}),
      "--batch-size 4: tutorial has no such setting; leave it out, or use it with --data adult, synthetic, criteo or "
      "csv");
  EXPECT_EQ(refusal({{"data", "criteo:x"}, {"header", "true"}}),
            "--header true: criteo has no such setting; leave it out, or use it with --data csv");
  for (const char* name : {"tables", "rows", "bag", "classes", "id-skew"}) {
    EXPECT_NE(refusal({{"data", "tutorial"}, {name, "5"}}).find("no such setting"), std::string::npos) << name;
    EXPECT_NE(refusal({{"data", "replay:x"}, {name, "5"}}).find("no such setting"), std::string::npos) << name;
  }
  for (const char* name : {"columns", "header", "separator", "test-file", "test-fraction", "shuffle-rows"}) {
    EXPECT_NE(refusal({{name, "5"}}).find("adult has no such setting"), std::string::npos) << name;
  }
}

TEST(job, unknown_data_sets_are_refused) {
  EXPECT_NE(refusal({{"data", "synthetik"}}).find("--data synthetik: unknown data set; the nearest is synthetic"),
            std::string::npos);
  EXPECT_EQ(refusal({{"data", "replay:"}}), "--data replay:: must name a file: replay:FILE");
  EXPECT_NE(refusal({{"data", "criteo:"}}).find("--data criteo:: "), std::string::npos);
  EXPECT_NE(refusal({{"data", "csv"}}).find("--data csv: "), std::string::npos);
  EXPECT_NE(refusal({{"data", ""}}).find("--data '': unknown data set"), std::string::npos);
  EXPECT_NE(refusal({{"data", "adult:x"}}).find("unknown data set"), std::string::npos);
}

TEST(job, values_that_do_not_go_together_are_refused) {
  EXPECT_EQ(refusal({{"servers", "0"}}),
            "--servers 0: must be between 1 and 1024; adult has tables, which servers keep");
  EXPECT_NE(refusal({{"data", "tutorial"}, {"servers", "0"}}).find("tutorial has tables"), std::string::npos);
  EXPECT_EQ(parsed({{"data", "replay:x"}, {"servers", "0"}}).servers, 0U);
  EXPECT_EQ(refusal({{"data", "tutorial"}, {"loss", "bce-logits"}}),
            "--loss bce-logits: needs targets in 2 classes, the tutorial has 8; use cross-entropy or mse");
  EXPECT_EQ(refusal({{"data", "synthetic"}, {"classes", "3"}, {"loss", "bce-logits"}}),
            "--loss bce-logits: needs --classes 2, not 3; use cross-entropy or mse");
  EXPECT_EQ(parsed({{"data", "synthetic"}, {"loss", "bce-logits"}}).loss, loss_kind::bce_logits);
  EXPECT_EQ(parsed({{"data", "synthetic"}, {"classes", "3"}, {"loss", "mse"}}).loss, loss_kind::mse);
  EXPECT_EQ(parsed({{"loss", "cross-entropy"}}).loss, loss_kind::cross_entropy);
}

TEST(job, bottom_hidden_is_for_dot_and_dense_features) {
  using widths = std::vector<std::size_t>;
  EXPECT_EQ(parsed({{"interaction", "dot"}}).bottom_hidden, widths{64});
  EXPECT_EQ(parsed({{"interaction", "dot"}, {"bottom-hidden", "none"}}).bottom_hidden, widths{});
  EXPECT_EQ(parsed({}).bottom_hidden, std::nullopt);
  EXPECT_EQ(parsed({{"data", "synthetic"}, {"tables", "2"}, {"interaction", "dot"}}).bottom_hidden, std::nullopt);
  const job made = parsed({{"interaction", "dot"}, {"bottom-hidden", "7,5"}});
  EXPECT_EQ(made.interaction, interaction_kind::dot);
  EXPECT_EQ(made.bottom_hidden, (widths{7, 5}));
  EXPECT_EQ(parsed(to_settings(made)).bottom_hidden, (widths{7, 5}));
  EXPECT_EQ(refusal({{"bottom-hidden", "64"}}),
            "--bottom-hidden 64: only --interaction dot has a bottom MLP; leave it out, or use --interaction dot");
  EXPECT_NE(refusal({{"data", "replay:x"}, {"bottom-hidden", "none"}}).find("--bottom-hidden none: only"),
            std::string::npos);
  EXPECT_EQ(refusal({{"data", "synthetic"}, {"tables", "2"}, {"interaction", "dot"}, {"bottom-hidden", "64"}}),
            "--bottom-hidden 64: synthetic has no dense features for a bottom MLP; leave it out");
}

TEST(job, dot_needs_two_vectors) {
  EXPECT_NE(refusal({{"data", "tutorial"}, {"interaction", "dot"}}).find("needs two vectors or more"),
            std::string::npos);
  EXPECT_NE(refusal({{"data", "synthetic"}, {"interaction", "dot"}}).find("there are 1 table(s)"), std::string::npos);
  EXPECT_EQ(parsed({{"data", "synthetic"}, {"tables", "2"}, {"interaction", "dot"}}).interaction,
            interaction_kind::dot);
}

TEST(job, absurd_sizes_are_refused) {
  EXPECT_EQ(refusal({{"data", "synthetic"}, {"rows", "1000000000000"}}),
            "--rows 1000000000000: 1 table(s) of 1000000000000 rows x 16 would be more than 1099511627776 weights; use "
            "fewer rows");
  EXPECT_EQ(parsed({{"data", "synthetic"}, {"rows", "68719476736"}}).rows, 68719476736);
  EXPECT_NE(refusal({{"data", "synthetic"}, {"rows", "68719476737"}}).find("use fewer rows"), std::string::npos);
  EXPECT_NE(refusal({{"data", "synthetic"}, {"rows", "1000000000000"}, {"dim", "65536"}, {"tables", "4096"}})
                .find("use fewer rows"),
            std::string::npos);
  EXPECT_NE(refusal({{"data", "synthetic"}, {"rows", "9223372036854775808"}}).find("must be between 1 and"),
            std::string::npos);
  const std::vector<setting> big = {
      {"data", "synthetic"}, {"trainers", "2"}, {"batch-size", "1024"}, {"bag", "1024"}, {"accumulate", "1023"}};
  EXPECT_TRUE(parse_job(big)) << "2^31 - 2^21 indices an optimizer step";
  auto too_big = big;
  too_big.back().second = "1024";
  EXPECT_NE(refusal(too_big).find("x 1024 batches (--accumulate) must be at most 2147483647"), std::string::npos);
  too_big.back().second = "1000000";
  too_big.insert(too_big.end(), {{"trainers", "1024"}, {"batch-size", "1000000"}, {"bag", "65536"}});
  EXPECT_NE(refusal(too_big).find("use smaller batches"), std::string::npos) << "more than 2^64";
  EXPECT_NE(refusal({{"data", "synthetic"}, {"batch-size", "1000000"}, {"bag", "65536"}}).find("use smaller batches"),
            std::string::npos);
  EXPECT_NE(refusal({{"hidden", "65536,65536"}}).find("use narrower layers"), std::string::npos);
  EXPECT_NE(refusal({{"interaction", "dot"}, {"bottom-hidden", "65536,65536"}})
                .find("--bottom-hidden 65536,65536: the network would have 4296020873 weights"),
            std::string::npos);
  // 4096 vectors make 8 million dots.
  EXPECT_NE(
      refusal({{"data", "synthetic"}, {"tables", "4096"}, {"rows", "10"}, {"interaction", "dot"}, {"hidden", "300"}})
          .find("use narrower layers"),
      std::string::npos);
}

TEST(job, every_setting_has_a_help_line) {
  const auto& infos = job_settings();
  ASSERT_FALSE(infos.empty());
  EXPECT_EQ(infos.front().name, "data");
  std::map<std::string, std::string> default_of;
  std::map<std::string, setting_type> type_of;
  for (const auto& info : infos) {
    type_of[info.name] = info.type;
    EXPECT_FALSE(info.value_name.empty()) << info.name;
    EXPECT_FALSE(info.meaning.empty()) << info.name;
    EXPECT_TRUE(default_of.emplace(info.name, info.default_text).second) << info.name;
  }
  EXPECT_EQ(default_of["trainers"], "2");
  EXPECT_EQ(default_of["epochs"], "adult 6; tutorial 100; else 1");
  EXPECT_EQ(default_of["batch-size"], "adult 128; synthetic, criteo, csv 256");
  EXPECT_EQ(default_of["rows"], "synthetic, criteo, csv 100000");
  EXPECT_EQ(default_of["hidden"], "tutorial none; synthetic 64; else 64,32");
  EXPECT_EQ(default_of["loss"], "tutorial, synthetic cross-entropy; else bce-logits");
  for (const auto& [name, text] : default_of) EXPECT_EQ(text.find("replay"), std::string::npos) << name << ": " << text;
  EXPECT_EQ(default_of["header"], "csv true");
  EXPECT_EQ(default_of["test-file"], "");
  EXPECT_EQ(default_of["sparse-reduce"], "tutorial sum; else mean");
  EXPECT_EQ(default_of["steps"], "");
  EXPECT_EQ(type_of["data"], setting_type::text);
  EXPECT_EQ(type_of["seed"], setting_type::whole);
  EXPECT_EQ(type_of["clip-norm"], setting_type::real);
  EXPECT_EQ(type_of["header"], setting_type::truth);
  EXPECT_EQ(type_of["bottom-hidden"], setting_type::widths);
  EXPECT_EQ(type_of["columns"], setting_type::columns);
}

TEST(nearest, goes_by_edits_and_swaps) {
  EXPECT_EQ(nearest("hiden", {"data", "hidden", "seed"}), "hidden");
  EXPECT_EQ(nearest("esed", {"epochs", "dim", "seed"}), "seed");
  EXPECT_EQ(nearest("ab", {"cd", "ba"}), "ba");
  EXPECT_EQ(nearest("", {"abc", "a"}), "a");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest(std::string(1'000'000, 'x'), {"abc", "xx"}), "xx");
}

}  // namespace
}  // namespace troupe::job_test
