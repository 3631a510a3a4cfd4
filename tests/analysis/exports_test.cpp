#include "trace/analysis/exports.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <map>
#include <sstream>

#include "tests/analysis/synchronous_run.hpp"

namespace troupe::analysis::exports_test {

namespace {

std::vector<std::string> lines_of(const std::string& text, const std::string& end) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t next = text.find(end, at);
    EXPECT_NE(next, std::string::npos) << "the last line has no end";
    lines.push_back(text.substr(at, next - at));
    at = next + end.size();
  }
  return lines;
}

}  // namespace

TEST(Shiviz, ClocksFollowMessagesAndOrder) {
  trace::made_recording r(1, 1);
  const auto lookup = r.handled("lookup", r.trainer(0), r.server(0), trace::us(1, 2, 3, 5), {.step = 2});
  r.handled("rows", r.server(0), r.trainer(0), trace::us(4, 6, 6, 9), {.step = 2, .cause = lookup});
  r.range(r.trainer(0), trace::range_name::prepare_batch, 3, trace::us(10), trace::us(12));
  std::ostringstream to;
  EXPECT_EQ(write_shiviz(r.done(), to), 3U);
  EXPECT_EQ(to.str(),
            "(?<event>.*)\\n(?<host>\\S*) (?<clock>{.*})\n\n"
            "lookup (step 2) from trainer 0 #1\nserver_0 {\"server_0\":1}\n"
            "rows (step 2) from server 0 #1\ntrainer_0 {\"server_0\":1,\"trainer_0\":1}\n"
            "prepare batch (step 3)\ntrainer_0 {\"server_0\":1,\"trainer_0\":2}\n");
}

TEST(Shiviz, EachHostCountsItsEventsFromOne) {
  synchronous_run r({trace::ms(5), trace::ms(5)});
  std::ostringstream to;
  const auto count = write_shiviz(r.made.done(), to);
  const auto lines = lines_of(to.str(), "\n");
  ASSERT_EQ(lines.size(), 2 + 2 * count);
  std::map<std::string, std::int64_t> last;
  for (std::size_t i = 3; i < lines.size(); i += 2) {
    const std::size_t blank = lines[i].find(' ');
    const std::string host = lines[i].substr(0, blank);
    const auto clock = boost::json::parse(lines[i].substr(blank + 1)).as_object();
    EXPECT_EQ(clock.at(host).as_int64(), ++last[host]) << lines[i];
    for (const auto& [other, value] : clock) EXPECT_LE(value.as_int64(), last[std::string(other)]) << lines[i];
  }
  EXPECT_EQ(last.size(), 5U);
}

TEST(Csv, EachEventIsALine) {
  trace::made_recording r(1, 1);
  r.actor(r.trainer(0), "trainer \"0\", first", 0);
  r.handled("lookup", r.trainer(0), r.server(0), {1, 2, 3, 5},
            {.step = 2, .cause = trace::made_id(r.server(0), 9), .flags = flag::request | flag::parked, .bytes = 64});
  r.range(r.server(0), trace::range_name::apply, 3, 10, 12);
  trace::event loss;
  loss.what = trace::kind::metric;
  loss.type = static_cast<std::uint16_t>(trace::metric_name::loss);
  loss.begin = loss.end = loss.sent = loss.arrived = 20;
  loss.raw = std::bit_cast<std::uint64_t>(0.5);
  r.add(loss);
  std::ostringstream to;
  EXPECT_EQ(write_csv(r.done(), to), 3U);
  const auto lines = lines_of(to.str(), "\r\n");
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0],
            "kind,process,actor,type,message,cause,step,sent_ns,arrived_ns,begin_ns,end_ns,bytes,aux,value,flags");
  EXPECT_EQ(lines[1],
            "handled,0,server 0,lookup,\"trainer \"\"0\"\", first #1\",server 0 #9,2,1,2,3,5,64,0,,parked|request");
  EXPECT_EQ(lines[2], "range,0,server 0,apply,,,3,10,10,10,12,0,0,,");
  EXPECT_EQ(lines[3], "metric,0,master,loss,,,0,20,20,20,20,0,0,0.5,");
}

// A recording may come from an untrusted source, and a spreadsheet runs what looks like a formula.
TEST(Csv, ATextThatBeginsAsAFormulaGetsAnApostrophe) {
  trace::made_recording r(1, 1);
  r.actor(r.trainer(0), "=cmd|'/C calc'!A0", 0);
  r.actor(r.server(0), "@SUM(1,\"2\")", 0);
  const auto handled = [&](const char* type) { r.handled(type, r.trainer(0), r.server(0), {1, 2, 3, 5}); };
  handled("+lookup");
  handled("-lookup");
  handled("=lookup");
  handled("a=b");
  trace::event loss;
  loss.what = trace::kind::metric;
  loss.type = static_cast<std::uint16_t>(trace::metric_name::loss);
  loss.raw = std::bit_cast<std::uint64_t>(-0.5);
  r.add(loss);
  std::ostringstream to;
  write_csv(r.done(), to);
  std::string all = to.str();
  for (const char* wanted :
       {",\"'@SUM(1,\"\"2\"\")\",'+lookup,'=cmd|'/C calc'!A0 #1,", ",'-lookup,", ",'=lookup,", ",a=b,", ",-0.5,"})
    EXPECT_NE(all.find(wanted), std::string::npos) << wanted << " in " << all;
  for (const char* formula : {",=", ",@", ",+", ",\"=", ",\"@", ",-l"})
    EXPECT_EQ(all.find(formula), std::string::npos) << formula << " in " << all;
}

TEST(Csv, EveryLineHasEveryField) {
  synchronous_run r({trace::ms(5), trace::ms(5)});
  std::ostringstream to;
  const auto count = write_csv(r.made.done(), to);
  const auto lines = lines_of(to.str(), "\r\n");
  EXPECT_EQ(lines.size(), count + 1);
  for (const std::string& line : lines) EXPECT_EQ(std::ranges::count(line, ','), 14) << line;
}

}  // namespace troupe::analysis::exports_test
