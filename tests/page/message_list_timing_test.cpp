// The list of messages stays usable however many there are.

#include <gtest/gtest.h>

#include <chrono>

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

TEST(MessageListTiming, AnswersWithinATenthOfASecondOfAMillion) {
  run_page page(std::make_unique<made_source>(made_source::over(million_messages())));
  for (const char* query : {"", "?cursor=700000", "?text=lookup&actor=server%203", "?order=slowest&cursor=400000",
                            "?min_latency_ns=90000&order=largest", "?kind=all&first_step=5000"}) {
    // What a slow or busy machine does to the first try is not what is measured.
    auto best = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < 5; ++i) {
      http_request request = read_target(std::string("/api/messages") + query);
      request.query["limit"] = std::to_string(100 + i);  // another answer than the one that is kept
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_EQ(page.answer(request).status, 200u);
      best = std::min(best, std::chrono::steady_clock::now() - begin);
    }
    EXPECT_LT(best, std::chrono::milliseconds(100)) << query;
  }
}

}  // namespace
}  // namespace troupe::page::message_list_timing_test
