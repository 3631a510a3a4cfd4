// The rules of the Trace Event Format that viewers require, and a file's contents.

#pragma once

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trace/analysis/trace.hpp"

namespace troupe::analysis {

class trace_event_rules {
 public:
  using thread = std::pair<std::int64_t, std::int64_t>;
  struct slice {
    trace::nanoseconds begin = 0;
    trace::nanoseconds end = 0;
    std::string name;
    boost::json::object args;
  };
  struct end_of_flow {
    thread where;
    trace::nanoseconds when = 0;
  };

  /// Reports each violation of the rules with EXPECT.
  explicit trace_event_rules(const std::string& text) {
    boost::system::error_code problem;
    const auto parsed = boost::json::parse(text, problem);
    EXPECT_FALSE(problem) << problem.message();
    if (problem) return;
    document = parsed.as_object();
    for (const auto& one : document.at("traceEvents").as_array()) read(one.as_object());
    check_nesting();
    check_flows();
    for (const auto& [id, balance] : asyncs_) EXPECT_EQ(balance, 0) << "async " << id;
  }

  boost::json::object document;
  std::map<thread, std::vector<slice>> slices;
  std::map<std::string, end_of_flow> starts, ends;
  std::map<thread, std::string> threads;
  std::map<std::int64_t, std::string> processes;
  std::map<std::string, std::vector<std::pair<trace::nanoseconds, double>>> counters;  ///< by name
  std::vector<boost::json::object> instants;

  std::size_t slice_count() const {
    std::size_t count = 0;
    for (const auto& [where, some] : slices) count += some.size();
    return count;
  }
  std::size_t async_count() const { return asyncs_.size(); }
  const std::vector<slice>& slices_of(std::string_view thread_name) const {
    for (const auto& [where, name] : threads)
      if (name == thread_name && slices.contains(where)) return slices.at(where);
    static const std::vector<slice> none;
    return none;
  }

 private:
  static trace::nanoseconds ns(const boost::json::value& us) {
    return std::llround((us.is_double() ? us.get_double() : us.to_number<double>()) * 1e3);
  }

  void read(const boost::json::object& one) {
    const thread where{one.at("pid").as_int64(), one.at("tid").as_int64()};
    const char phase = one.at("ph").as_string().at(0);
    const std::string name(one.at("name").as_string());
    switch (phase) {
      case 'X': {
        const trace::nanoseconds begin = ns(one.at("ts"));
        EXPECT_GE(ns(one.at("dur")), 0);
        slices[where].push_back({begin, begin + ns(one.at("dur")), name, one.at("args").as_object()});
        break;
      }
      case 's':
      case 'f': {
        if (phase == 'f') {
          EXPECT_EQ(one.at("bp"), "e");
        }
        const std::string id = std::to_string(one.at("id").as_int64());
        EXPECT_TRUE((phase == 's' ? starts : ends).emplace(id, end_of_flow{where, ns(one.at("ts"))}).second)
            << "a flow forks: " << id;
        break;
      }
      case 'b':
      case 'e':
        asyncs_[std::string(one.at("cat").as_string()) + std::string(one.at("id").as_string())] +=
            phase == 'b' ? 1 : -1;
        break;
      case 'i':
        instants.push_back(one);
        break;
      case 'C':
        counters[name].emplace_back(ns(one.at("ts")), one.at("args").as_object().begin()->value().to_number<double>());
        break;
      case 'M':
        if (name == "thread_name") threads[where] = one.at("args").at("name").as_string();
        if (name == "process_name") processes[where.first] = one.at("args").at("name").as_string();
        break;
      default:
        ADD_FAILURE() << "phase " << phase;
    }
  }

  /// Slices of a thread are nested or disjoint; an outer one precedes those inside it.
  void check_nesting() {
    for (const auto& [where, some] : slices) {
      EXPECT_TRUE(threads.contains(where)) << "a thread without a name";
      std::vector<trace::nanoseconds> open;
      trace::nanoseconds last = some.front().begin;
      for (const slice& one : some) {
        EXPECT_GE(one.begin, last);
        last = one.begin;
        while (!open.empty() && open.back() <= one.begin) open.pop_back();
        if (!open.empty()) {
          EXPECT_LE(one.end, open.back()) << one.name << " overlaps";
        }
        open.push_back(one.end);
      }
    }
  }

  void check_flows() {
    EXPECT_EQ(starts.size(), ends.size());
    for (const auto& [id, start] : starts) {
      const auto end = ends.find(id);
      ASSERT_NE(end, ends.end()) << "a flow does not end: " << id;
      EXPECT_LE(start.when, end->second.when) << "a message arrives before it was sent";
      for (const end_of_flow& at : {start, end->second}) {
        const bool lies_in_one = std::ranges::any_of(
            slices[at.where], [&](const slice& one) { return one.begin <= at.when && at.when <= one.end; });
        EXPECT_TRUE(lies_in_one) << "an end of a flow outside of all slices";
      }
    }
  }

  std::map<std::string, int> asyncs_;
};

}  // namespace troupe::analysis
