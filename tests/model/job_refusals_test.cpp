// Jobs that are refused, and the errors for them.

#include <gtest/gtest.h>

#include <string>

#include "base/text.hpp"
#include "tests/model/parsed_job.hpp"

namespace troupe::model::job_refusals_test {
namespace {

TEST(Job, OutOfRangeIsRefusedWithTheLimit) {
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
  EXPECT_EQ(refusal({{"dense-lr", "1e400"}}), "--dense-lr 1e400: must be between 0 and 1000000");
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

TEST(Job, MalformedValuesAreRefused) {
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
            "--interaction dots: unknown; the nearest is dot, and there are cat, dot or dcn");
  EXPECT_EQ(refusal({{"nan", "go"}}), "--nan go: unknown; the nearest is stop, and there are stop or skip");
  EXPECT_EQ(refusal({{"wire-dtype", "tf32"}}),
            "--wire-dtype tf32: unknown; the nearest is f32, and there are f32, f16 or bf16");
  EXPECT_EQ(refusal({{"matmul-precision", "fp16"}}),
            "--matmul-precision fp16: unknown; the nearest is bf16, and there are f32, tf32 or bf16");
  EXPECT_EQ(refusal({{"row-dtype", "f64"}}),
            "--row-dtype f64: unknown; the nearest is f32, and there are f32, f16 or bf16");
  EXPECT_EQ(refusal({{"data", "csv:x"}, {"header", "yes"}}).substr(0, 14), "--header yes: ");
  for (const char* separator : {"", "::", "\n", "\r", "\"", "\xc2\xb7", "\xc2\xa7", "\xb7"})
    EXPECT_EQ(
        refusal({{"data", "csv:x"}, {"separator", separator}}),
        fmt::format("--separator {}: must be tab, or one ASCII character, of one byte, other than a line's end or "
                    "a quote",
                    printable(separator)));
  EXPECT_EQ(refusal({{"data", "csv:x"}, {"test-file", ""}}), "--test-file '': must not be empty");
  EXPECT_EQ(refusal({{"seed", std::string("1\n2")}}),
            "--seed 1\\x0a2: must be a whole number between 0 and 18446744073709551615");
}

TEST(Job, UnknownSettingsAreRefusedWithTheNearest) {
  EXPECT_EQ(refusal({{"trainer", "2"}}), "--trainer: unknown setting; the nearest is --trainers");
  EXPECT_EQ(refusal({{"bathc-size", "2"}}), "--bathc-size: unknown setting; the nearest is --batch-size");
}

TEST(Job, SettingsOfOtherDataAreRefused) {
  EXPECT_EQ(refusal({{"rows", "5"}}),
            "--rows 5: adult has no such setting; leave it out, or use it with --data synthetic, criteo or csv");
  EXPECT_EQ(
      refusal({{"data", "tutorial"}, {"dim", "4"}}),
      "--dim 4: tutorial has no such setting; leave it out, or use it with --data adult, synthetic, criteo or csv");
  EXPECT_EQ(
      refusal({{"data", "tutorial"}, {"batch-size", "4"}}),
      "--batch-size 4: tutorial has no such setting; leave it out, or use it with --data adult, synthetic, criteo, "
      "csv, mnist or idx");
  EXPECT_EQ(refusal({{"data", "criteo:x"}, {"header", "true"}}),
            "--header true: criteo has no such setting; leave it out, or use it with --data csv");
  for (const char* name : {"tables", "rows", "bag", "classes", "id-skew"}) {
    EXPECT_NE(refusal({{"data", "tutorial"}, {name, "5"}}).find("no such setting"), std::string::npos) << name;
    EXPECT_NE(refusal({{"data", "replay:x"}, {name, "5"}}).find("no such setting"), std::string::npos) << name;
    EXPECT_NE(refusal({{"data", "mnist"}, {name, "5"}}).find("mnist has no such setting"), std::string::npos) << name;
  }
  for (const char* name : {"columns", "header", "separator", "test-file", "test-fraction", "shuffle-rows"}) {
    EXPECT_NE(refusal({{name, "5"}}).find("adult has no such setting"), std::string::npos) << name;
    EXPECT_NE(refusal({{"data", "mnist"}, {name, "5"}}).find("mnist has no such setting"), std::string::npos) << name;
  }
}

TEST(Job, UnknownDataSetsAreRefused) {
  EXPECT_NE(refusal({{"data", "synthetik"}}).find("--data synthetik: unknown data set; the nearest is synthetic"),
            std::string::npos);
  EXPECT_EQ(refusal({{"data", "replay:"}}), "--data replay:: must name a file: replay:FILE");
  EXPECT_NE(refusal({{"data", "criteo:"}}).find("--data criteo:: "), std::string::npos);
  EXPECT_NE(refusal({{"data", "csv"}}).find("--data csv: "), std::string::npos);
  EXPECT_NE(refusal({{"data", ""}}).find("--data '': unknown data set"), std::string::npos);
  EXPECT_NE(refusal({{"data", "adult:x"}}).find("unknown data set"), std::string::npos);
  EXPECT_EQ(refusal({{"data", "minst"}}),
            "--data minst: unknown data set; the nearest is mnist, and there are adult, tutorial, synthetic, "
            "criteo:FILE, csv:FILE, mnist[:DIR] and idx:IMAGES,LABELS");
}

TEST(Job, ValuesThatDoNotGoTogetherAreRefused) {
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

TEST(Job, ColumnsAreForWhatTakesEachWeightByItself) {
  const auto by_columns = [](std::vector<setting> others) {
    others.insert(others.begin(), {"table-split", "columns"});
    return others;
  };
  for (const char* optimizer : {"sgd:momentum=0.9", "adagrad", "adam", "lazy-sgd", "lazy-adam"})
    EXPECT_EQ(parsed(by_columns({{"sparse-optimizer", optimizer}})).table_split, table_split::columns) << optimizer;
  EXPECT_EQ(refusal(by_columns({{"sparse-optimizer", "rowwise-adagrad"}})),
            "--sparse-optimizer rowwise-adagrad: needs whole rows, which --table-split columns cuts; use adagrad, or "
            "--table-split rows");
  EXPECT_EQ(refusal(by_columns({{"clip-norm", "0.5"}})),
            "--clip-norm 0.5: adds up the squares of whole rows, which --table-split columns cuts; use --table-split "
            "rows");
  EXPECT_EQ(parsed(by_columns({{"nan", "skip"}, {"consistency", "ssp:2"}})).table_split, table_split::columns);
  EXPECT_EQ(refusal({{"table-split", "column"}}),
            "--table-split column: unknown; the nearest is columns, and there are rows or columns");
}

TEST(Job, BottomHiddenIsForDotAndDenseFeatures) {
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
            "--bottom-hidden 64: only --interaction dot and dcn have a bottom MLP; leave it out, or use one of them");
  EXPECT_NE(refusal({{"data", "replay:x"}, {"bottom-hidden", "none"}}).find("--bottom-hidden none: only"),
            std::string::npos);
  EXPECT_EQ(refusal({{"data", "synthetic"}, {"tables", "2"}, {"interaction", "dot"}, {"bottom-hidden", "64"}}),
            "--bottom-hidden 64: synthetic has no dense features for a bottom MLP; leave it out");
}

TEST(Job, DotNeedsTwoVectors) {
  EXPECT_NE(refusal({{"data", "tutorial"}, {"interaction", "dot"}}).find("needs two vectors or more"),
            std::string::npos);
  EXPECT_NE(refusal({{"data", "synthetic"}, {"interaction", "dot"}}).find("there are 1 table(s)"), std::string::npos);
  EXPECT_EQ(parsed({{"data", "synthetic"}, {"tables", "2"}, {"interaction", "dot"}}).interaction,
            interaction_kind::dot);
}

TEST(Job, AbsurdSizesAreRefused) {
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

}  // namespace
}  // namespace troupe::model::job_refusals_test
