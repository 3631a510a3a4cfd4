// The list of messages stays usable for any number of messages.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "page/run_page.hpp"
#include "tests/page/made_source.hpp"

namespace troupe::page::message_list_timing_test {
namespace {

trace::recording million_messages() {
  trace::recording run;
  run.types = {{200, "lookup"}, {201, "rows"}};
  run.processes.resize(1);
  for (std::uint16_t actor = 2; actor < 18; ++actor) {
    trace::actor_state& one = run.actors.emplace_back();
    one.actor = actor;
    one.name = "server " + std::to_string(actor);
  }
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    trace::event& e = run.events.emplace_back();
    e.what = trace::kind::handled;
    e.actor = static_cast<std::uint16_t>(2 + i % 16);
    e.type = static_cast<std::uint16_t>(200 + i % 2);
    e.id = (2 + i * 7 % 16) << 48 | i;
    e.step = i / 100;
    e.sent = static_cast<trace::nanoseconds>(i * 1000);
    e.arrived = e.begin = e.sent + 100;
    e.end = e.begin + static_cast<trace::nanoseconds>(i * 7919 % 100'000);
  }
  run.processes.front().last = run.events.back().end;
  return run;
}

template <class F>
double ms_of(F what) {
  const auto begin = std::chrono::steady_clock::now();
  what();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

// Compares with a sort of as many numbers right before, which other work on the machine slows down equally.
TEST(MessageListTiming, AnswersOfAMillionMessagesTakeNoLongerThanSomeSortsOfThem) {
  const trace::recording run = million_messages();
  run_page page(std::make_unique<made_source>(made_source::over(trace::recording(run))));
  for (const char* query : {"", "?cursor=700000", "?text=lookup&actor=server%203", "?order=slowest&cursor=400000",
                            "?min_latency_ns=90000&order=largest", "?kind=all&first_step=5000"}) {
    constexpr int pairs = 5;
    std::vector<double> ratios;
    for (int i = 0; i < pairs; ++i) {
      std::vector<trace::nanoseconds> latencies;
      const double sort_ms = ms_of([&] {
        for (const trace::event& e : run.events) latencies.push_back(e.end - e.sent);
        std::ranges::sort(latencies);
      });
      EXPECT_EQ(latencies.size(), 1'000'000u);
      http_request request = read_target(std::string("/api/messages") + query).value();
      request.query["limit"] = std::to_string(100 + i);  // bypasses the cached answer
      ratios.push_back(ms_of([&] { EXPECT_EQ(page.answer(request).status, 200u); }) / sort_ms);
    }
    const auto median = ratios.begin() + pairs / 2;
    std::ranges::nth_element(ratios, median);
    RecordProperty(std::string("sorts of ") + query, std::to_string(*median));
    EXPECT_LT(*median, 20) << query;
  }
}

}  // namespace
}  // namespace troupe::page::message_list_timing_test
