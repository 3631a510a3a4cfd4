#include "trace/analysis/message_list.hpp"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <map>
#include <sstream>
#include <vector>

#include "tests/trace/made_recording.hpp"
#include "trace/analysis/message_id.hpp"

namespace troupe::analysis::message_list_test {
namespace {

/// Server 0 is actor 2, trainers 0 and 1 are actors 3 and 4.
class MessageList : public testing::Test {
 protected:
  MessageList() : made_(1, 2) {
    made_.handled("lookup", 3, 2, trace::us(0, 10, 12, 20), {.step = 1, .bytes = 100});     // 3.1: queued 2 of 20 us
    made_.handled("lookup", 4, 2, trace::us(1, 11, 20, 30), {.step = 1, .bytes = 100});     // 4.1: 9 of 29
    made_.handled("rows", 2, 3, trace::us(20, 21, 40, 41), {.step = 1, .bytes = 9000});     // 2.1: 19 of 21
    made_.handled("gradient", 3, 2, trace::us(41, 50, 50, 90), {.step = 2, .bytes = 500});  // 3.2: 0 of 49
    made_.range(2, trace::range_name::apply, 2, trace::us(60), trace::us(80));
  }

  /// Returns the ids that `query` finds, in its order.
  std::vector<std::string> find(const std::string& query) {
    std::map<std::string, std::string> parameters;
    std::istringstream all(query);
    for (std::string one; std::getline(all, one, '&');)
      parameters[one.substr(0, one.find('='))] = one.substr(one.find('=') + 1);
    const auto what = message_query::read(parameters);
    if (!what) return {what.error().message};
    const trace::recording& run = made_.done();
    const message_page found = find_messages(run, *what);
    total_ = found.total;
    std::vector<std::string> names;
    for (const std::uint32_t event : found.events) names.push_back(write_id(run.events[event].id));
    return names;
  }

  using ids = std::vector<std::string>;
  trace::made_recording made_;
  std::uint64_t total_ = 0;
};

TEST_F(MessageList, OrdersAsAsked) {
  EXPECT_EQ(find(""), (ids{"3.2", "2.1", "4.1", "3.1"}));
  EXPECT_EQ(find("order=oldest"), (ids{"3.1", "4.1", "2.1", "3.2"}));
  EXPECT_EQ(find("order=slowest"), (ids{"3.2", "4.1", "2.1", "3.1"}));
  EXPECT_EQ(find("order=largest"), (ids{"2.1", "3.2", "3.1", "4.1"})) << "what is alike by time";
  EXPECT_EQ(find("order=queued"), (ids{"2.1", "4.1", "3.1", "3.2"}));
}

TEST_F(MessageList, Filters) {
  EXPECT_EQ(find("type=lookup"), (ids{"4.1", "3.1"}));
  EXPECT_EQ(find("actor=trainer 0"), (ids{"3.2", "2.1", "3.1"})) << "as sender or receiver";
  EXPECT_EQ(find("actor=trainer*&type=gradient"), (ids{"3.2"}));
  EXPECT_EQ(find("from=trainer 0&to=server 0"), (ids{"3.2", "3.1"}));
  EXPECT_EQ(find("first_step=2"), (ids{"3.2"}));
  EXPECT_EQ(find("last_step=1&type=rows"), (ids{"2.1"}));
  EXPECT_EQ(find("min_bytes=500"), (ids{"3.2", "2.1"}));
  EXPECT_EQ(find("min_latency_ns=29000"), (ids{"3.2", "4.1"}));
  EXPECT_EQ(find("until=20000"), (ids{"4.1", "3.1"})) << "begun by then";
}

TEST_F(MessageList, FindsText) {
  EXPECT_EQ(find("text=LOOK"), (ids{"4.1", "3.1"}));
  EXPECT_EQ(find("text=trainer 1"), (ids{"4.1"}));
  EXPECT_EQ(find("text=trainer 0 #2"), (ids{"3.2"})) << "trainer 0 #2";
  EXPECT_EQ(find("text=#1"), (ids{"2.1", "4.1", "3.1"})) << "#1 of anybody";
  EXPECT_EQ(find("text=4.1"), (ids{"4.1"}));
  EXPECT_EQ(find("text=nothing like it"), (ids{}));
}

TEST_F(MessageList, GoesFromPageToPage) {
  EXPECT_EQ(find("limit=3"), (ids{"3.2", "2.1", "4.1"}));
  EXPECT_EQ(total_, 4u);
  EXPECT_EQ(find("limit=3&cursor=3"), (ids{"3.1"}));
  EXPECT_EQ(find("limit=3&cursor=4"), (ids{}));
  EXPECT_EQ(find("order=slowest&cursor=1&limit=2"), (ids{"4.1", "2.1"}));
  EXPECT_EQ(find("order=slowest&cursor=99"), (ids{}));
}

TEST_F(MessageList, ShowsOtherRecordsWhenAsked) {
  EXPECT_EQ(find("kind=range").size(), 1u);
  EXPECT_EQ(find("kind=all").size(), 5u);
  const trace::recording& run = made_.done();
  EXPECT_EQ(row_of(run, run.events.back()).at("type"), "apply");
}

TEST_F(MessageList, SaysWhatIsWrongWithAQuery) {
  EXPECT_EQ(find("min_bytes=many"), (ids{"min_bytes is 'many', which is not a number"}));
  EXPECT_EQ(find("cursor=-1"), (ids{"cursor is '-1', which is not a number"}));
  EXPECT_EQ(find("order=random"), (ids{"unknown order 'random'"}));
  EXPECT_EQ(find("kind=birds"), (ids{"unknown kind 'birds'"}));
}

TEST_F(MessageList, ARowHasItsTimes) {
  const trace::recording& run = made_.done();
  EXPECT_EQ(boost::json::serialize(row_of(run, run.events.front())),
            R"({"kind":"handled","begin_ns":12000,"end_ns":20000,"step":1,"actor":"server 0","type":"lookup",)"
            R"("message":"trainer 0 #1","from":"trainer 0","bytes":100,"sent_ns":0,"arrived_ns":10000,)"
            R"("id":"3.1","flags":[]})");
}

}  // namespace
}  // namespace troupe::analysis::message_list_test
