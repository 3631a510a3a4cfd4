// How a step graph treats times in which a process did not run, or waited for a device.

#include <gtest/gtest.h>

#include "tests/analysis/path_parts.hpp"
#include "tests/analysis/synchronous_run.hpp"
#include "trace/analysis/step_graph.hpp"

namespace troupe::analysis::step_graph_waits_test {
namespace {

/// A trainer's rows are sent at 10 ms, arrive 52 ms later and are handled from 64 to 72 ms; the server is in another
/// process and handles the lookup until it sends them.
struct slow_rows {
  trace::made_recording made{1, 1};
  const std::uint16_t server = made.server(0);
  const std::uint16_t trainer = made.trainer(0);

  slow_rows() {
    made.actor(server, "server 0", 1);
    made.actor(trainer, "trainer 0", 2);
    const std::uint64_t lookup = made.handled("lookup", trainer, server, trace::ms(0, 0, 8, 10), {.step = 1});
    made.handled("rows", server, trainer, trace::ms(10, 62, 64, 72),
                 {.step = 1, .cause = lookup, .flags = flag::answer | flag::remote});
  }

  std::vector<part> path() {
    return critical_parts(made.done(), {1, trace::ms(10), trace::ms(72), {{trainer, trace::ms(72)}}});
  }
};

/// A trainer that works from 0 to 20 ms and waits for device 1 from 4 to 18 ms; its server is in the same process.
struct waits_for_device {
  trace::made_recording made{1, 1};
  const std::uint16_t server = made.server(0);
  const std::uint16_t trainer = made.trainer(0);

  waits_for_device() {
    made.range(trainer, trace::range_name::forward_backward, 1, trace::ms(0), trace::ms(20));
    made.range(trainer, trace::range_name::device_wait, 1, trace::ms(4), trace::ms(18));
  }

  void works(std::uint16_t actor, trace::range_name what, std::int64_t begin_ms, std::int64_t end_ms,
             std::uint16_t device = 1) {
    made.on_device(actor, device, what, 1, trace::ms(begin_ms), trace::ms(end_ms));
  }

  std::vector<part> path() {
    return critical_parts(made.done(), {1, trace::ms(0), trace::ms(20), {{trainer, trace::ms(20)}}});
  }
};

constexpr const char* host_works = "forward/backward (trainer 0)";
constexpr const char* host_waits = "device wait (trainer 0)";

TEST(StepGraph, NamesWhatTheDeviceDidWhileTheHostWaited) {
  waits_for_device one;
  one.works(one.trainer, trace::range_name::update, 1, 3);            // the host did not wait
  one.works(one.trainer, trace::range_name::forward_backward, 3, 9);  // nor before 4 ms
  one.works(one.trainer, trace::range_name::backward_parameters, 10, 30);
  EXPECT_EQ(one.path(), (std::vector<part>{{host_works, trace::ms(4)},
                                           {"forward/backward on device 1 (trainer 0)", trace::ms(5)},
                                           {host_waits, trace::ms(1)},
                                           {"backward parameters on device 1 (trainer 0)", trace::ms(8)},
                                           {host_works, trace::ms(2)}}));
}

TEST(StepGraph, NamesOthersWorkOnADeviceWhereItDidNothingForWhoWaits) {
  waits_for_device one;
  one.works(one.server, trace::range_name::pool, 5, 12);
  one.works(one.server, trace::range_name::group, 13, 16, 0);  // a device that the trainer does not use
  one.works(one.trainer, trace::range_name::forward_backward, 7, 9);
  one.works(one.trainer, trace::range_name::copy, 8, 11);
  EXPECT_EQ(one.path(), (std::vector<part>{{host_works, trace::ms(4)},
                                           {host_waits, trace::ms(1)},
                                           {"pool on device 1 (server 0)", trace::ms(2)},
                                           {"forward/backward on device 1 (trainer 0)", trace::ms(2)},
                                           {"copy on device 1 (trainer 0)", trace::ms(2)},
                                           {"pool on device 1 (server 0)", trace::ms(1)},
                                           {host_waits, trace::ms(6)},
                                           {host_works, trace::ms(2)}}));
}

TEST(StepGraph, AProcessThatDidNotRunComesBeforeItsDevice) {
  waits_for_device one;
  one.works(one.trainer, trace::range_name::forward_backward, 4, 18);
  one.made.stalled(one.trainer, trace::ms(6), trace::ms(10));
  EXPECT_EQ(one.path(), (std::vector<part>{{host_works, trace::ms(4)},
                                           {"forward/backward on device 1 (trainer 0)", trace::ms(2)},
                                           {"not running (trainer 0)", trace::ms(4)},
                                           {"forward/backward on device 1 (trainer 0)", trace::ms(8)},
                                           {host_works, trace::ms(2)}}));
}

TEST(StepGraph, DevicesOfOtherProcessesAreNotWaitedFor) {
  waits_for_device one;
  one.works(one.trainer, trace::range_name::update, 1, 3);
  one.made.actor(one.server, "server 0", 1);
  one.works(one.server, trace::range_name::pool, 5, 12);
  EXPECT_EQ(one.path(),
            (std::vector<part>{{host_works, trace::ms(4)}, {host_waits, trace::ms(14)}, {host_works, trace::ms(2)}}));
}

constexpr const char* rows_wire = "rows wire (server 0 to trainer 0)";

TEST(StepGraph, TakesTheTimeInWhichTheReceiversProcessDidNotRunFromTheWire) {
  slow_rows one;
  one.made.stalled(one.trainer, trace::ms(11), trace::ms(61));
  EXPECT_EQ(one.path(), (std::vector<part>{{rows_wire, trace::ms(1)},
                                           {"not running (trainer 0)", trace::ms(50)},
                                           {rows_wire, trace::ms(1)},
                                           {"rows wait (trainer 0)", trace::ms(2)},
                                           {"rows (trainer 0)", trace::ms(8)}}));
}

TEST(StepGraph, TakesTheTimeInWhichTheSendersProcessDidNotRunFromTheWire) {
  slow_rows one;
  one.made.stalled(one.server, trace::ms(11), trace::ms(61));
  EXPECT_EQ(one.path(), (std::vector<part>{{rows_wire, trace::ms(1)},
                                           {"not running (server 0)", trace::ms(50)},
                                           {rows_wire, trace::ms(1)},
                                           {"rows wait (trainer 0)", trace::ms(2)},
                                           {"rows (trainer 0)", trace::ms(8)}}));
}

TEST(StepGraph, CountsTheTimeInWhichNeitherProcessRanOnce) {
  slow_rows one;
  one.made.stalled(one.server, trace::ms(5), trace::ms(30));  // begins before the step
  one.made.stalled(one.trainer, trace::ms(20), trace::ms(40));
  EXPECT_EQ(one.path(), (std::vector<part>{{"not running (server 0)", trace::ms(20)},
                                           {"not running (trainer 0)", trace::ms(10)},
                                           {rows_wire, trace::ms(22)},
                                           {"rows wait (trainer 0)", trace::ms(2)},
                                           {"rows (trainer 0)", trace::ms(8)}}));
}

TEST(StepGraph, TakesTheTimeOfAStallFromWaitsAndWorkToo) {
  slow_rows one;
  one.made.stalled(one.trainer, trace::ms(63), trace::ms(65));
  one.made.stalled(one.trainer, trace::ms(70), trace::ms(80));
  EXPECT_EQ(one.path(), (std::vector<part>{{rows_wire, trace::ms(52)},
                                           {"rows wait (trainer 0)", trace::ms(1)},
                                           {"not running (trainer 0)", trace::ms(2)},
                                           {"rows (trainer 0)", trace::ms(5)},
                                           {"not running (trainer 0)", trace::ms(2)}}));
}

TEST(StepGraph, LeavesWhatNoStallOverlapsAsItIs) {
  slow_rows one;
  const std::vector<part> before = one.path();
  EXPECT_EQ(before, (std::vector<part>{{rows_wire, trace::ms(52)},
                                       {"rows wait (trainer 0)", trace::ms(2)},
                                       {"rows (trainer 0)", trace::ms(8)}}));
  one.made.stalled(one.trainer, trace::ms(1), trace::ms(10));       // before the step
  one.made.stalled(one.trainer, trace::ms(72), trace::ms(99));      // after it
  one.made.stalled(one.server, trace::ms(62), trace::ms(72));       // the path has left the server
  one.made.stalled(one.made.master, trace::ms(10), trace::ms(72));  // a process that the path never passes through
  EXPECT_EQ(one.path(), before);
}

/// The gradient is in the server's queue while the server handles the update, and while the trainer works before that;
/// only the time at the server delays the path.
TEST(StepGraph, LeavesTheQueueOfAnActorBehindWhereAStallSplitsTheWaitForAMessage) {
  trace::made_recording made{1, 1};
  const std::uint16_t server = made.server(0);
  const std::uint16_t trainer = made.trainer(0);
  const std::uint64_t rows = made.handled("rows", server, trainer, trace::ms(0, 0, 0, 9));
  made.handled("update", trainer, server, trace::ms(9, 10, 11, 13), {.cause = rows});
  made.handled("gradient", made.master, server, trace::ms(4, 5, 13, 20));
  made.stalled(server, trace::us(10'200), trace::us(10'500));
  EXPECT_EQ(critical_parts(made.done(), {1, 0, trace::ms(20), {{server, trace::ms(20)}}}),
            (std::vector<part>{{"rows (trainer 0)", trace::ms(9)},
                               {"update wire (trainer 0 to server 0)", trace::ms(1)},
                               {"update wait (server 0)", trace::us(200)},
                               {"not running (server 0)", trace::us(300)},
                               {"update wait (server 0)", trace::us(500)},
                               {"update (server 0) queue", trace::ms(2)},
                               {"gradient (server 0)", trace::ms(7)}}));
}

}  // namespace
}  // namespace troupe::analysis::step_graph_waits_test
