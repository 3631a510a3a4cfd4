// Gradients of two shards of two tables, with known numbers.

#include "trace/analysis/blame.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "protocol/content_reader.hpp"
#include "protocol/messages.hpp"
#include "tests/trace/made_recording.hpp"

namespace troupe::analysis::blame_test {
namespace {

template <class T>
std::string bytes_of(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

template <class T>
void put(std::string& to, T number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put_text(std::string& to, const std::string& text) {
  put(to, static_cast<std::uint32_t>(text.size()));
  to += text;
}

/// The fields of an `instantiate`, in the order of the protocol.
std::string table_fields(std::uint64_t table, std::uint64_t rows, std::uint64_t dim, const char* mode,
                         std::uint32_t shard, std::uint32_t shards) {
  std::string fields;
  put_text(fields, "EmbeddingBag");
  const std::vector<std::pair<std::string, std::string>> arguments = {{"num_embeddings", std::to_string(rows)},
                                                                      {"embedding_dim", std::to_string(dim)},
                                                                      {"mode", mode},
                                                                      {"table", std::to_string(table)}};
  put(fields, static_cast<std::uint32_t>(arguments.size()));
  for (const auto& [name, value] : arguments) {
    put_text(fields, name);
    put_text(fields, value);
  }
  put(fields, shard);
  put(fields, shards);
  for (const std::uint32_t number : {2U, 1U, 0U}) put(fields, number);  // trainers, accumulate, staleness
  put(fields, std::uint64_t{0});
  return fields;
}

trace::content_part part(std::string name, std::string type, std::uint64_t rows, std::uint64_t cols,
                         std::string bytes) {
  return {std::move(name), std::move(type), rows, cols, 0, std::move(bytes)};
}

struct table_gradient {
  std::uint64_t module = 1;
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> offsets;
  std::vector<float> weights;
  trace::content_part grad;
};

trace::content gradient_of(std::uint32_t rank, const std::vector<table_gradient>& tables) {
  trace::content made;
  put(made.fields, rank);
  put(made.fields, true);
  put(made.fields, true);
  put(made.fields, static_cast<std::uint32_t>(tables.size()));
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const table_gradient& one = tables[i];
    put(made.fields, one.module);
    const std::string prefix = "tables[" + std::to_string(i) + "].";
    made.parts.push_back(part(prefix + "indices", "bytes", one.indices.size() * 8, 1, bytes_of(one.indices)));
    made.parts.push_back(part(prefix + "offsets", "bytes", one.offsets.size() * 8, 1, bytes_of(one.offsets)));
    made.parts.push_back(part(prefix + "weights", "bytes", one.weights.size() * 4, 1, bytes_of(one.weights)));
    made.parts.push_back(one.grad);
    made.parts.back().name = prefix + "grad";
  }
  return made;
}

/// Returns the gradient of the first table as a server reads it.
msg::bag_gradient bag_gradient_of(const table_gradient& table) {
  troupe::msg::gradient made;
  EXPECT_TRUE(protocol::read_content_into(gradient_of(0, {table}), made));
  return made.tables.at(0);
}

trace::content_part floats(std::uint64_t dim, const std::vector<float>& numbers) {
  return part("", "float32", numbers.size() / dim, dim, bytes_of(numbers));
}

/// Table 0 (10 rows of 2 numbers) is whole on server 0; table 1 (7 rows) has one shard on each server.
class blamed_run {
 public:
  blamed_run() {
    table(0, table_fields(0, 10, 2, "mean", 0, 1));
    table(0, table_fields(1, 7, 2, "sum", 0, 2));
    table(1, table_fields(1, 7, 2, "sum", 1, 2));
  }

  void table(std::uint16_t server, const std::string& fields, std::uint8_t flags = flag::request) {
    trace::content held;
    held.fields = fields;
    add(trace::made_recording::master, server, "instantiate", 0, held, flags);
  }

  std::uint64_t gradient(std::uint16_t trainer, std::uint16_t server, std::uint64_t step,
                         const std::vector<table_gradient>& tables, std::uint8_t flags = 0) {
    return add(made.trainer(trainer), server, "gradient", step, gradient_of(trainer, tables), flags);
  }

  trace::made_recording made{2, 2};

 private:
  std::uint64_t add(std::uint16_t from, std::uint16_t server, const char* type, std::uint64_t step, trace::content held,
                    std::uint8_t flags) {
    now_ += trace::us(10);
    held.id = made.handled(type, from, made.server(server), {now_, now_, now_, now_ + trace::us(1)},
                           {.step = step, .flags = flags});
    made.edit().contents.push_back(held);
    return held.id;
  }

  trace::nanoseconds now_ = 0;
};

TEST(Blame, RowsThatTravelOneByOneLieInTheirShard) {
  blamed_run run;
  // Row 5 of table 1 is row 2 of shard 1; row 4 is row 2 of shard 0, and unrelated to row 5.
  const std::uint64_t touched = run.gradient(1, 1, 3, {{1, {0, 2}, {}, {}, floats(2, {1, 1, 3, -4})}});
  run.gradient(1, 0, 3, {{2, {2}, {}, {}, floats(2, {8, 8})}});
  run.gradient(0, 1, 3, {{1, {1}, {}, {}, floats(2, {7, 7})}});
  const auto found = blame(run.made.done(), 1, 5);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->server, run.made.server(1));
  EXPECT_EQ(found->gradients, 2U);
  ASSERT_EQ(found->touches.size(), 1U);
  const row_gradient& one = found->touches[0];
  EXPECT_EQ(one.message, touched);
  EXPECT_EQ(one.step, 3U);
  EXPECT_EQ(one.trainer, 1U);
  EXPECT_EQ(one.occurrences, 1U);
  EXPECT_DOUBLE_EQ(one.norm, 5);
  EXPECT_DOUBLE_EQ(one.largest, 4);
  const auto other = blame(run.made.done(), 1, 4);
  ASSERT_TRUE(other) << other.error().message;
  ASSERT_EQ(other->touches.size(), 1U);
  EXPECT_DOUBLE_EQ(other->touches[0].largest, 8);
}

TEST(Blame, BagsGiveEachOccurrenceItsShare) {
  blamed_run run;
  // Bags {3, 9, 3, 3}, {}, {3, 1}: a mean of four, three of which are row 3, and a mean of two.
  run.gradient(0, 0, 1, {{1, {3, 9, 3, 3, 3, 1}, {0, 4, 4}, {}, floats(2, {4, 8, 100, 100, 2, -20})}});
  const auto found = blame(run.made.done(), 0, 3);
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->touches.size(), 1U);
  EXPECT_EQ(found->touches[0].occurrences, 4U);
  // 3/4 (4, 8) + 1/2 (2, -20) = (4, -4)
  EXPECT_DOUBLE_EQ(found->touches[0].largest, 4);
  EXPECT_DOUBLE_EQ(found->touches[0].norm, std::sqrt(32.0));
}

TEST(Blame, WeightsMultiply) {
  const auto held = bag_gradient_of({1, {1, 2, 1}, {0, 2}, {0.5F, 9, 3}, floats(1, {10, 100})});
  const auto found = gradient_of_row(held, {.rows = 5, .dim = 1}, 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->occurrences, 2U);
  EXPECT_DOUBLE_EQ(found->sum[0], 0.5 * 10 + 3 * 100);
}

TEST(Blame, SixteenBitsAreDecoded) {
  const auto row = [&](const char* type, const std::vector<std::uint16_t>& bits) {
    const auto found = gradient_of_row(bag_gradient_of({1, {0}, {}, {}, part("", type, 1, 6, bytes_of(bits))}),
                                       {.rows = 5, .dim = 6}, 0);
    EXPECT_TRUE(found);
    return found->sum;
  };
  const auto halves = row("float16", {0x3c00, 0xc000, 0x3555, 0x0001, 0x7bff, 0xfc00});
  EXPECT_EQ(halves[0], 1);
  EXPECT_EQ(halves[1], -2);
  EXPECT_EQ(halves[2], 0.333251953125);
  EXPECT_EQ(halves[3], std::ldexp(1, -24));
  EXPECT_EQ(halves[4], 65504);
  EXPECT_EQ(halves[5], -std::numeric_limits<double>::infinity());
  const auto brains = row("bfloat16", {0x3f80, 0xc000, 0x4049, 0, 0x7f80, 0x3e80});
  EXPECT_EQ(brains[0], 1);
  EXPECT_EQ(brains[1], -2);
  EXPECT_EQ(brains[2], 3.140625);
  EXPECT_EQ(brains[5], 0.25);
}

TEST(Blame, RefusedModulesHaveNoNumber) {
  blamed_run run;
  run.table(0, table_fields(7, 3, 1, "sum", 0, 1), flag::request | flag::refused);
  run.table(0, table_fields(8, 3, 1, "sum", 0, 1));
  run.gradient(0, 0, 1, {{3, {2}, {}, {}, floats(1, {6})}}, flag::refused);
  const auto found = blame(run.made.done(), 8, 2);
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->touches.size(), 1U);
  EXPECT_TRUE(found->touches[0].refused);
}

TEST(Blame, SaysWhatThereIsNot) {
  blamed_run run;
  EXPECT_EQ(blame(run.made.done(), 2, 0).error().message, "there is no table 2: the run has tables 0 to 1");
  EXPECT_EQ(blame(run.made.done(), 1, 7).error().message, "table 1 has rows 0 to 6, not 7");
  for (trace::content& one : run.made.edit().contents) one.fields.clear();
  EXPECT_NE(blame(run.made.done(), 0, 0).error().message.find("--trace payload --trace-payload 'server *'"),
            std::string::npos);
}

TEST(Blame, DamagedContentsAreCounted) {
  blamed_run run;
  run.gradient(0, 0, 1, {{1, {3}, {}, {}, floats(2, {1, 1, 1})}});  // three numbers are no whole rows of 2
  run.gradient(0, 0, 2, {{1, {3}, {}, {1, 1}, floats(2, {1, 1})}});
  run.gradient(0, 0, 3, {{1, {3}, {}, {}, floats(2, {1, 1})}});
  run.made.edit().contents.back().fields.resize(7);
  const auto found = blame(run.made.done(), 0, 3);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->touches.empty());
  EXPECT_EQ(found->notes, std::vector<std::string>{"3 gradients are not recorded whole"});
}

TEST(Blame, AClaimedWidthTakesNoMemoryUnlessItsNumbersAreThere) {
  constexpr std::uint64_t wide = std::uint64_t{1} << 60;
  const table_shard shard{.rows = 10, .dim = wide};
  const auto none = gradient_of_row(bag_gradient_of({1, {}, {}, {}, part("", "float32", 0, wide, "")}), shard, 3);
  ASSERT_TRUE(none);
  EXPECT_EQ(none->occurrences, 0U);
  EXPECT_TRUE(none->sum.empty());
  // Four bytes times this width wrap to 4 in 64 bits.
  constexpr std::uint64_t wrapped = (std::uint64_t{1} << 62) + 1;
  troupe::msg::gradient one;
  EXPECT_FALSE(protocol::read_content_into(
      gradient_of(0, {{1, {3}, {}, {}, part("", "float32", 1, wrapped, std::string(4, '\0'))}}), one));
}

TEST(Blame, TextHasTheLargestAndTheTotal) {
  blamed_run run;
  run.gradient(0, 0, 1, {{1, {3}, {}, {}, floats(2, {3, 4})}});
  run.gradient(1, 0, 1, {{1, {3}, {}, {}, floats(2, {0, 12})}});
  run.gradient(0, 0, 2, {{1, {3}, {}, {}, floats(2, {0, 1})}});
  const auto found = blame(run.made.done(), 0, 3);
  ASSERT_TRUE(found) << found.error().message;
  const std::string text = blame_text(run.made.done(), *found, 2);
  EXPECT_TRUE(text.starts_with("3 gradients touched row 3 of table 0, of 3 that server 0 was sent\n")) << text;
  EXPECT_NE(text.find("the 2 with the largest norms:"), std::string::npos);
  EXPECT_NE(text.find("trainer 1 #1"), std::string::npos);
  EXPECT_EQ(text.find("trainer 0 #2"), std::string::npos);
  EXPECT_NE(text.find("13.04"), std::string::npos) << text;  // of 5, 12 and 1: sqrt(170)
  const boost::json::object json = blame_json(run.made.done(), *found);
  EXPECT_EQ(json.at("touches").as_array().size(), 3U);
  EXPECT_EQ(json.at("touches").as_array().at(1).at("norm").as_double(), 12);
}

}  // namespace
}  // namespace troupe::analysis::blame_test
